package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are what `ringlog produce` is told.
type produceFlags struct {
	input          string
	keyDelimiter   string
	emptyAsNull    bool
	headers        []string
	partition      int32
	keepPartitions bool
	acks           string
	codec          string
	batchBytes     int32
	linger         time.Duration
}

func newProduce(app *application) *cobra.Command {
	var f produceFlags
	command := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send records from standard input",
		Long: `Send records from standard input, one a line, and say which offsets they got.

With --input json each line is an object with any of "key", "value" and "headers" (each
{"name": ..., "value": ...}), "timestamp" (RFC 3339) and "partition". Bytes that are not text go
into "key_base64" and "value_base64". It is what consume --json prints. With --input whole all of
standard input is one record.

With --acks all, the default, a record is reported after it is durable, and is stored once even
when the broker restarts meanwhile. The topic must be there: a misspelt name makes no new one,
although a broker makes topics on first use for other clients (auto.create.topics.enable).`,
		Example: `  echo 'order-1:paid' | ringlog produce orders --key-delimiter :
  ringlog produce orders --codec zstd < orders.txt
  ringlog consume orders --until end --json | ringlog produce orders-copy --input json
  ringlog produce pictures --input whole --header type=png < cat.png`,
		Args: exactly("TOPIC"),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.StringVar(&f.input, "input", "lines", "`form` of standard input: lines, json or whole")
	flags.StringVarP(&f.keyDelimiter, "key-delimiter", "k", "", "`text` between key and value of a line; without it records have no key")
	flags.BoolVarP(&f.emptyAsNull, "empty-as-null", "z", false, "send empty keys and values as null: a null value deletes its key in a compacted topic")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of every record as `name=value`, or a name alone for a null value; may be repeated")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "`number` of the partition to send to; -1 chooses by key, as Kafka's own client does")
	flags.BoolVar(&f.keepPartitions, "keep-partitions", false, `send each record to its own "partition"; needs --input json`)
	flags.StringVarP(&f.acks, "acks", "a", "all", "`who` must have a record before it counts: all, leader or none")
	flags.StringVarP(&f.codec, "codec", "c", "none", "`compression`: none, gzip, snappy, lz4 or zstd")
	flags.Int32Var(&f.batchBytes, "batch-bytes", 1_000_000, "largest batch to send, in `bytes`; a record must fit into one")
	flags.DurationVar(&f.linger, "linger", 5*time.Millisecond, "how long to wait for more records before a batch is sent")
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		return app.produce(ctx, arguments[0], f)
	})
	return command
}

func (app *application) produce(ctx context.Context, topic string, f produceFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	records, err := f.reader(app.input)
	if err != nil {
		return err
	}
	client, err := app.connect(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	partitions, err := partitionsOf(ctx, kadm.NewClient(client), topic)
	if err != nil {
		return err
	}
	receipt := receipt{topic: topic, unknownOffsets: f.acks == "none" || f.acks == "0"}
	err = app.send(ctx, client, topic, partitions, records, &receipt)
	return cmp.Or(err, app.print(receipt.report(), func() { receipt.print(app) }))
}

// send sends records until the input ends, the context does, or one fails.
// What was sent by then is still waited for, so that the receipt tells where to
// go on; only a broker that answers nothing for --timeout is given up.
func (app *application) send(ctx context.Context, client *kgo.Client, topic string, partitions []int32, records iter.Seq2[*kgo.Record, error], receipt *receipt) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	sending, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	watchdog := time.AfterFunc(app.timeout, func() {
		if client.BufferedProduceRecords() > 0 {
			stop(stalledFailure(topic))
			giveUp(errStalled)
		}
	})
	defer watchdog.Stop()

	incoming := pump(reading, records)
	for open := true; open && reading.Err() == nil; {
		var line incomingRecord
		select {
		case <-reading.Done():
		case line, open = <-incoming:
		}
		switch {
		case line.err != nil:
			stop(line.err)
		case line.record == nil:
		case line.record.Partition >= 0 && !slices.Contains(partitions, line.record.Partition):
			stop(noPartition(topic, line.record.Partition, partitions))
		default:
			line.record.Topic = topic
			watchdog.Reset(app.timeout)
			client.Produce(sending, line.record, func(record *kgo.Record, err error) {
				watchdog.Reset(app.timeout)
				if err != nil {
					stop(fmt.Errorf("sending to %s: %w", topic, err))
					return
				}
				receipt.add(record)
			})
		}
	}
	if err := client.Flush(sending); err != nil {
		stop(err)
	}
	return context.Cause(reading)
}

// errStalled is why records are given up whose broker stopped answering.
var errStalled = errors.New("no answer from the broker")

func stalledFailure(topic string) error {
	return &failure{exitUnreachable, fmt.Errorf("sending to %s: %w", topic, errStalled),
		"the records counted above are stored; the next ones may or may not be: look before sending them again"}
}

func noPartition(topic string, partition int32, partitions []int32) error {
	return &failure{exitNotFound, fmt.Errorf("topic %q has no partition %d", topic, partition),
		fmt.Sprintf("it has %d: 0 to %d", len(partitions), len(partitions)-1)}
}

// options turns flags into the client's.
func (f produceFlags) options() ([]kgo.Opt, error) {
	codec, err := codecNamed(f.codec)
	if err != nil {
		return nil, err
	}
	if f.keepPartitions && f.input != "json" {
		return nil, usageErrorf("--keep-partitions needs --input json")
	}
	if f.partition < -1 {
		return nil, usageErrorf("--partition %d is negative; -1 chooses by key", f.partition)
	}
	if f.batchBytes < 1024 {
		return nil, usageErrorf("--batch-bytes %d is less than 1024, too small for a batch", f.batchBytes)
	}
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(f.batchBytes),
		kgo.BrokerMaxWriteBytes(max(100<<20, 2*f.batchBytes)),
		kgo.ProducerLinger(f.linger),
		// A command must end, and what it gave up it never sends again, so giving up
		// what is in flight cannot store anything twice. (The client's own delivery
		// timeout counts from a record's timestamp, which may be years ago.)
		kgo.AllowIdempotentProduceCancellation(),
	}
	if f.partition >= 0 || f.keepPartitions {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	acks, err := acksNamed(f.acks)
	if err != nil {
		return nil, err
	}
	switch acks {
	case -1:
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	case 1:
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case 0:
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	return options, nil
}

func codecNamed(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, usageErrorf("--codec %q is none of none, gzip, snappy, lz4, zstd", name)
}

// receipt gathers which offsets the broker gave. Its add is called from the
// client's own goroutine.
type receipt struct {
	topic          string
	unknownOffsets bool // acks none: nobody said

	mu         sync.Mutex
	records    int64
	partitions []partitionReceipt // by partition
}

type produceReport struct {
	Topic      string             `json:"topic"`
	Records    int64              `json:"records"`
	Partitions []partitionReceipt `json:"partitions"`
}

type partitionReceipt struct {
	Partition   int32 `json:"partition"`
	Records     int64 `json:"records"`
	FirstOffset int64 `json:"first_offset"` // -1: not told, with --acks none
	LastOffset  int64 `json:"last_offset"`
}

func (r *receipt) add(record *kgo.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records++
	at, found := slices.BinarySearchFunc(r.partitions, record.Partition, func(p partitionReceipt, partition int32) int {
		return cmp.Compare(p.Partition, partition)
	})
	if !found {
		r.partitions = slices.Insert(r.partitions, at, partitionReceipt{record.Partition, 0, record.Offset, record.Offset})
	}
	p := &r.partitions[at]
	p.Records++
	p.FirstOffset, p.LastOffset = min(p.FirstOffset, record.Offset), max(p.LastOffset, record.Offset)
	if r.unknownOffsets {
		p.FirstOffset, p.LastOffset = -1, -1
	}
}

func (r *receipt) report() produceReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return produceReport{r.topic, r.records, append([]partitionReceipt{}, r.partitions...)}
}

func (r *receipt) print(app *application) {
	report := r.report()
	fmt.Fprintf(app.output, "%s to %s\n", countRecords(report.Records), report.Topic)
	for _, p := range report.Partitions {
		if r.unknownOffsets {
			fmt.Fprintf(app.output, "  partition %d: %s, offsets not told (--acks none)\n", p.Partition, countRecords(p.Records))
			continue
		}
		if p.FirstOffset == p.LastOffset {
			fmt.Fprintf(app.output, "  partition %d: offset %d\n", p.Partition, p.FirstOffset)
			continue
		}
		fmt.Fprintf(app.output, "  partition %d: offsets %d to %d\n", p.Partition, p.FirstOffset, p.LastOffset)
	}
}

// countRecords says a number of records in words.
func countRecords(n int64) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

// headersFrom parses name=value pairs; a name alone has a null value.
func headersFrom(pairs []string) (headers []kgo.RecordHeader) {
	for _, pair := range pairs {
		header := kgo.RecordHeader{}
		var found bool
		var value string
		if header.Key, value, found = strings.Cut(pair, "="); found {
			header.Value = []byte(value)
		}
		headers = append(headers, header)
	}
	return headers
}
