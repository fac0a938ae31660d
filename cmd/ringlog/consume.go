package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are what `ringlog consume` is told.
type consumeFlags struct {
	partitions   []int32
	from, until  string
	count        int64
	keyDelimiter string
}

func newConsume(app *application) *cobra.Command {
	var f consumeFlags
	command := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print records to standard output",
		Long: `Print records to standard output, one a line, and wait for more until --until or --count is
reached, or until interrupted; that is no failure, and exits with 0.

A position (--from, --until) is beginning, end, an offset, -N for the last N records of each
partition, a time (RFC 3339, such as 2026-05-01T12:00:00Z), or a duration for that long ago
(90s, 1h30m). --until names the first record that is not printed.

With --json each record is an object with topic, partition, offset, timestamp, key, headers and
value; produce --input json reads it.`,
		Example: `  ringlog consume orders --until end
  ringlog consume orders --from end
  ringlog consume orders --from -10 --until end --partition 0
  ringlog consume orders --from 1h --json | jq .value`,
		Args: exactly("TOPIC"),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.Int32SliceVarP(&f.partitions, "partition", "p", nil, "`number` of a partition to read, all without it; may be repeated")
	flags.StringVarP(&f.from, "from", "f", "beginning", "`position` of the first record")
	flags.StringVarP(&f.until, "until", "u", "", "`position` to stop at; without it consume waits for more")
	flags.Int64VarP(&f.count, "count", "n", 0, "stop after this many `records`; 0 is no limit")
	flags.StringVarP(&f.keyDelimiter, "key-delimiter", "k", "", "print the key and this `text` before each value")
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		return app.consume(ctx, arguments[0], f)
	})
	return command
}

func (app *application) consume(ctx context.Context, topic string, f consumeFlags) error {
	from, err := parsePosition("--from", f.from)
	if err != nil {
		return err
	}
	until := position{kind: positionNever}
	if f.until != "" {
		if until, err = parsePosition("--until", f.until); err != nil {
			return err
		}
	}
	if f.count < 0 {
		return usageErrorf("--count %d is negative", f.count)
	}
	client, err := app.connect(ctx, kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	spans, err := resolveSpans(ctx, kadm.NewClient(client), topic, f.partitions, from, until)
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	for partition, span := range spans {
		if span.next < span.end {
			starts[partition] = kgo.NewOffset().At(span.next)
		} else {
			delete(spans, partition)
		}
	}
	if len(spans) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts})
	return app.printRecords(ctx, client, topic, f, spans)
}

// printRecords polls and prints until every span is done, the count is
// reached, or the context ends, which is how following a topic ends well.
func (app *application) printRecords(ctx context.Context, client *kgo.Client, topic string, f consumeFlags, spans map[int32]*span) error {
	output := bufio.NewWriterSize(app.output, 64<<10)
	write := app.recordWriter(output, f.keyDelimiter)
	printed := int64(0)
	for len(spans) > 0 {
		fetches, err := app.poll(ctx, client, f.until != "" || f.count > 0)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		for _, failed := range fetches.Errors() {
			return errors.Join(output.Flush(), fmt.Errorf("reading %s, partition %d: %w", topic, failed.Partition, failed.Err))
		}
		for record := range fetches.RecordsAll() {
			span := spans[record.Partition]
			if span == nil {
				continue // done already; the client had fetched ahead
			}
			if record.Offset < span.end && !record.Attrs.IsControl() {
				if err := write(record); err != nil {
					return fmt.Errorf("writing a record: %w", err)
				}
				if printed++; printed == f.count {
					return output.Flush()
				}
			}
			if record.Offset+1 >= span.end {
				delete(spans, record.Partition)
				client.RemoveConsumePartitions(map[string][]int32{topic: {record.Partition}})
			}
		}
		if err := output.Flush(); err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
	}
	return output.Flush()
}

// poll waits for records. The client looks for a lost broker for ever, which is
// right for somebody who follows a topic; a command that has an end must reach
// it, so it gives up when no broker answers for --timeout.
func (app *application) poll(ctx context.Context, client *kgo.Client, hasEnd bool) (kgo.Fetches, error) {
	for {
		polling, cancel := context.WithTimeout(ctx, app.timeout)
		fetches := client.PollFetches(polling)
		quiet := polling.Err() != nil && ctx.Err() == nil
		if quiet && hasEnd {
			answered, stop := context.WithTimeout(ctx, app.timeout)
			if err := client.Ping(answered); err != nil && ctx.Err() == nil {
				stop()
				cancel()
				return nil, app.unreachable(err)
			}
			stop()
		}
		cancel()
		if !quiet {
			return fetches, nil
		}
	}
}

// recordWriter returns the function that prints one record in the form asked
// for.
func (app *application) recordWriter(output *bufio.Writer, keyDelimiter string) func(*kgo.Record) error {
	if app.json {
		encoder := json.NewEncoder(output)
		encoder.SetEscapeHTML(false)
		return func(record *kgo.Record) error { return encoder.Encode(toJSON(record)) }
	}
	return func(record *kgo.Record) error {
		if keyDelimiter != "" {
			output.Write(record.Key)
			output.WriteString(keyDelimiter)
		}
		output.Write(record.Value)
		return output.WriteByte('\n') // bufio keeps the first error
	}
}
