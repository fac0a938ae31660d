package broker

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"ringlog/meta"
	"ringlog/record"
)

// recompressionKeptBytes is how much memory a recompressor keeps for the next batch.
const recompressionKeptBytes = 4 << 20

// recompressedBytesMax bounds what was compressed anew and is not in the engine yet: of all requests, where one
// waits for room before its first batch, and of one request, whose other batches are then refused. A batch of a
// kilobyte may become one of max.message.bytes, and the engine takes them no faster than the disk.
const recompressedBytesMax = 64 << 20

// recompressors compress batches anew for topics whose compression.type is not producer. Each
// takes as much memory as a batch decompressed, so there are a few, and who needs one waits
// for it: a checker, never a connection.
type recompressors struct {
	free chan *recompressor
	mu   struct {
		sync.Mutex
		held int64 // bytes on the heap that the engine does not have yet
	}
	room sync.Cond // held fell
}

// awaitRoom waits until less is held than may be. REQUIRES: the caller holds nothing, tools included, that another one
// may need to get on.
func (r *recompressors) awaitRoom() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mu.held >= recompressedBytesMax {
		r.room.Wait()
	}
}

// hold counts bytes.
func (r *recompressors) hold(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.held += bytes
}

// give takes bytes from the count.
func (r *recompressors) give(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.held -= bytes
	r.room.Broadcast()
}

// recompressor is the tools for one batch at a time.
type recompressor struct {
	reader  record.Reader
	builder record.Builder
	headers []record.Header
}

func (r *recompressors) init() {
	r.free = make(chan *recompressor, max(runtime.GOMAXPROCS(0), checkersMin))
	r.room.L = &r.mu
	for range cap(r.free) {
		r.free <- new(recompressor)
	}
}

// compressions are the values of compression.type but producer, which stores batches
// as they came.
var compressions = map[string]record.Codec{"uncompressed": record.CodecNone, "gzip": record.CodecGzip, "snappy": record.CodecSnappy,
	"lz4": record.CodecLZ4, "zstd": record.CodecZstd}

// setCodec notes what a topic's batches are stored as.
func (t *Topic) setCodec(config *meta.TopicConfig) {
	t.codec, t.recompress = compressions[config.Compression]
}

// recompresses reports whether a part's batch has to be compressed anew. It may not be
// checked yet: one that is no batch will be refused.
func recompresses(part *ProducePart) bool {
	if !part.Topic.recompress {
		return false
	}
	batch, _, err := record.Next(part.Records)
	return err == nil && batch.Codec() != part.Topic.codec
}

// recompress replaces a batch that was checked by one with the same records, producer and sequence
// in the topic's compression. Its memory is the heap's: the frame that the batch came in may be
// gone for all it cares.
func (p *Produce) recompress(part *ProducePart) error {
	if p.recompressed == 0 {
		p.broker.recompressors.awaitRoom()
	}
	tools := <-p.broker.recompressors.free
	defer func() { p.broker.recompressors.free <- tools }()
	batch, err := tools.rebuild(record.Batch(part.Records), part.Topic.codec)
	if err != nil {
		return fmt.Errorf("broker: compressing a batch for %s-%d anew: %w", part.Topic.Name, part.Partition, err)
	}
	if limit := int(part.Topic.Config.MessageBytesMax); len(batch) > limit {
		return fmt.Errorf("%w: the batch for %s-%d has %d bytes after it was compressed anew (compression.type=%s), max.message.bytes of the topic is %d",
			ErrBatchTooLarge, part.Topic.Name, part.Partition, len(batch), part.Topic.Config.Compression, limit)
	}
	if p.recompressed+int64(len(batch)) > recompressedBytesMax {
		return fmt.Errorf("%w: the batches of one request have more than %d bytes after they were compressed anew (compression.type=%s)",
			ErrBatchTooLarge, recompressedBytesMax, part.Topic.Config.Compression)
	}
	p.broker.recompressors.hold(int64(len(batch)))
	p.recompressed += int64(len(batch))
	part.Records = slices.Clone(batch)
	if tools.builder.PlainBytes() > recompressionKeptBytes {
		tools.builder = record.Builder{}
	}
	return nil
}

// rebuild returns a batch of the same records in another compression, valid until the next
// rebuild.
func (r *recompressor) rebuild(batch record.Batch, codec record.Codec) (record.Batch, error) {
	r.builder.Reset(record.BuilderOptions{
		Codec:         codec,
		Idempotent:    batch.ProducerID() != record.NoProducerID,
		ProducerID:    batch.ProducerID(),
		ProducerEpoch: batch.ProducerEpoch(),
		BaseSequence:  batch.BaseSequence(),
		Transactional: batch.Transactional(),
	})
	r.reader.Reset(batch)
	defer r.reader.Close()
	for r.reader.Next() {
		one := r.reader.Record()
		r.headers = r.headers[:0]
		for headers := one.Headers(); ; {
			header, ok := headers.Next()
			if !ok {
				break
			}
			r.headers = append(r.headers, header)
		}
		r.builder.AppendAt(one.OffsetDelta, one.Timestamp, one.Key, one.Value, r.headers...)
	}
	if err := r.reader.Err(); err != nil {
		return nil, err
	}
	return r.builder.Build()
}
