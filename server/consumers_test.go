package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"ringlog/record"
)

// fetcher is a raw connection that asks and reads when the test says so.
type fetcher struct {
	testing.TB
	socket *net.TCPConn
	input  *bufio.Reader
}

func newFetcher(t testing.TB, s *Server) *fetcher {
	t.Helper()
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	f := &fetcher{TB: t, socket: socket.(*net.TCPConn), input: bufio.NewReader(socket)}
	if err := f.socket.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask sends a fetch of partition 0 and reads nothing.
func (f *fetcher) ask(topic string, offset int64, bytesMax int32) {
	f.Helper()
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, bytesMax
	of := kmsg.NewFetchRequestTopic()
	of.Topic, of.Partitions = topic, []kmsg.FetchRequestTopicPartition{part}
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.MaxBytes, request.Topics = 4, bytesMax, []kmsg.FetchRequestTopic{of}
	if _, err := f.socket.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		f.Fatal(err)
	}
}

// receive reads one reply and returns the offsets [from, to) of its batches, all of which are whole and follow
// each other.
func (f *fetcher) receive() (from, to int64, bytes int) {
	f.Helper()
	var prefix [8]byte
	if _, err := io.ReadFull(f.input, prefix[:]); err != nil {
		f.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(prefix[:])-4)
	if _, err := io.ReadFull(f.input, body); err != nil {
		f.Fatal(err)
	}
	response := kmsg.NewPtrFetchResponse()
	response.Version = 4
	if err := response.ReadFrom(body); err != nil {
		f.Fatal(err)
	}
	part := &response.Topics[0].Partitions[0]
	if part.ErrorCode != 0 || len(part.RecordBatches) == 0 {
		f.Fatalf("error code %d, %d bytes", part.ErrorCode, len(part.RecordBatches))
	}
	from = -1
	for rest := part.RecordBatches; len(rest) > 0; {
		batch, after, err := record.Next(rest)
		if err == nil {
			err = batch.Check()
		}
		if err != nil || from >= 0 && batch.BaseOffset() != to {
			f.Fatalf("a batch at offset %d where %d is due: %v", batch.BaseOffset(), to, err)
		}
		if from < 0 {
			from = batch.BaseOffset()
		}
		to, rest = batch.LastOffset()+1, after
	}
	return from, to, len(part.RecordBatches)
}

// numberedRecords produces records number from to to, of 1 KB, in order.
func numberedRecords(ctx context.Context, producer *kgo.Client, from, to int) error {
	filling := strings.Repeat("x", 1000)
	failed := make(chan error, 1)
	for n := from; n < to; n++ {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%09d%s", n, filling)), func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// readNumbered consumes until it has seen the records from to to, each once and in order.
func readNumbered(ctx context.Context, c *kgo.Client, from, to int) error {
	for next := from; next < to; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("at record %d: %w", next, err)
		}
		var wrong error
		fetches.EachRecord(func(r *kgo.Record) {
			if n, err := strconv.Atoi(string(r.Value[:9])); wrong == nil && (err != nil || n != next || r.Offset != int64(n)) {
				wrong = fmt.Errorf("record %q at offset %d where %d is due", r.Value[:9], r.Offset, next)
			}
			next++
		})
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// Rule 15, whole: consumers who ask for megabytes and never read hold none of the broker's memory and
// nobody up, neither the producer, whose records pass through a tail smaller than what they asked for, nor a
// consumer at the tail, nor one that reads the whole history from disk. When one of them reads at last, it
// gets what it asked for.
func TestConsumersWhoDoNotReadCostNothing(t *testing.T) {
	const before, after = 40_000, 90_000 // records of 1 KB
	config := testConfig(t, t.TempDir())
	s := start(t, config)
	if _, err := kadm.NewClient(client(t, s)).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	producer := client(t, s, kgo.DefaultProduceTopic("orders"), kgo.MaxBufferedRecords(2000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := numberedRecords(ctx, producer, 0, before); err != nil {
		t.Fatal(err)
	}

	// Half of them at the tail, whose answer is in memory now, half in the history.
	deaf := make([]*fetcher, 8)
	for i := range deaf {
		deaf[i] = newFetcher(t, s)
		offset := int64(i * 1000)
		if i%2 == 0 {
			offset = before - 10_000
		}
		for range 8 {
			deaf[i].ask("orders", offset, 50<<20)
		}
	}

	history := client(t, s, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	tail := client(t, s, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(before)}}))
	var all errgroup.Group
	all.Go(func() error { return numberedRecords(ctx, producer, before, after) })
	all.Go(func() error { return readNumbered(ctx, tail, before, after) })
	all.Go(func() error { return readNumbered(ctx, history, 0, after) })
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	m := s.engine.Metrics()
	if m.ColdReadBytes == 0 || m.TailReadBytes == 0 || m.AheadHitBytes == 0 {
		t.Errorf("%d bytes from disk, %d from memory, %d read ahead: not what is to be shown", m.ColdReadBytes, m.TailReadBytes, m.AheadHitBytes)
	}

	// What of the tail's memory the logs do not hold is the journal's, and was there before.
	for deadline := time.After(20 * time.Second); ; {
		held := s.pools.tail.InUseBytes() - s.engine.Metrics().TailBytes
		if held <= 4<<20 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d bytes of the tail's memory are held by consumers who do not read", held)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for i := range deaf[:2] {
		from, to, bytes := deaf[i].receive()
		t.Logf("consumer %d gets [%d, %d), %d bytes", i, from, to, bytes)
		if to <= from {
			t.Error("nothing")
		}
	}
	m = s.engine.Metrics()
	t.Logf("restored %d bytes; cold %d, ahead %d of which %d used; cache window %v", m.RestoredBytes, m.ColdReadBytes, m.AheadBytes, m.AheadHitBytes, m.CacheWindow)
	if m.RestoredBytes == 0 {
		t.Error("no answer had to be read again")
	}
}
