package broker

import (
	"fmt"
	"runtime"
	"slices"

	"ringlog/meta"
	"ringlog/record"
)

// recompressionKeptBytes is how much memory a recompressor keeps for the next batch.
const recompressionKeptBytes = 4 << 20

// recompressors compress batches anew for topics whose compression.type is not producer. Each
// takes as much memory as a batch decompressed, so there are a few, and who needs one waits
// for it: a checker, never a connection.
type recompressors struct {
	free chan *recompressor
}

// recompressor is the tools for one batch at a time.
type recompressor struct {
	reader  record.Reader
	builder record.Builder
	headers []record.Header
}

func newRecompressors() recompressors {
	r := recompressors{free: make(chan *recompressor, max(runtime.GOMAXPROCS(0), checkersMin))}
	for range cap(r.free) {
		r.free <- new(recompressor)
	}
	return r
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
