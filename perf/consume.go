package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"ringlog/record"
)

// Versions of Fetch that the generator speaks: from 4 on replies carry batches
// of format 2, up to 12 a request names its topic.
const (
	fetchVersionMin = 4
	fetchVersionMax = 12
)

// fetchWait is how long a broker may hold a fetch for which it has nothing.
const fetchWait = 500 * time.Millisecond

// Consume reads a topic from its brokers as fast as they give it, without
// looking into batches beyond their headers and stamps. The report is returned beside an
// error too.
func Consume(ctx context.Context, options ConsumeOptions) (Report, error) {
	r, err := newReading(ctx, options)
	if err != nil {
		return r.report, err
	}
	return r.run(ctx, NewHistogram())
}

// reading is one run of Consume: connected, at its offsets, and not begun.
type reading struct {
	options   ConsumeOptions
	report    Report
	consumers []*consumer
	limit     budget
}

// newReading prepares a run, which has to be run. Beside an error it has the beginning of a report.
func newReading(ctx context.Context, options ConsumeOptions) (*reading, error) {
	options.EnsureDefaults()
	r := &reading{options: options, report: Report{Kind: "consume", Parameters: options, Environment: CurrentEnvironment()}}
	if err := options.Validate(); err != nil {
		return r, err
	}
	c, err := newCluster(options.Brokers)
	if err != nil {
		return r, err
	}
	defer c.close()
	version, err := c.version(ctx, kmsg.Fetch, fetchVersionMin, fetchVersionMax)
	if err != nil {
		return r, err
	}
	targets, err := c.settledTargets(ctx, options.Topic)
	if err != nil {
		return r, err
	}
	if r.consumers, err = newConsumers(ctx, c, &r.options, targets, version); err != nil {
		r.close()
	}
	return r, err
}

// close gives back what newReading took, for a run that is not wanted any more.
func (r *reading) close() {
	for _, consumer := range r.consumers {
		_ = consumer.socket.Close() // nothing is owed on it
	}
}

// stop ends a run: repeated reading at once, else when what is there was read.
func (r *reading) stop() { r.limit.ended.Store(true) }

// run reads until the end that the options say, or stop. It adds the latencies that it
// measures to a histogram.
func (r *reading) run(ctx context.Context, latency *hdrhistogram.Histogram) (Report, error) {
	defer r.close()
	report := &r.report
	report.Started = time.Now()
	meter := StartCPUMeter(r.options.ServerPID)
	start := time.Now()
	if r.options.Duration > 0 {
		r.limit.deadline = start.Add(r.options.Duration)
	}
	if r.options.Count > 0 {
		r.limit.counted = true
		r.limit.remaining.Store(r.options.Count)
	}
	group, groupContext := errgroup.WithContext(ctx)
	for _, consumer := range r.consumers {
		stop := context.AfterFunc(groupContext, func() { _ = consumer.socket.Close() })
		defer stop()
		group.Go(func() error { return consumer.run(&r.limit) })
	}
	err := group.Wait()
	report.CPU = meter.Stop()
	gatherConsumers(report, r.consumers, latency, time.Since(start))
	if ctx.Err() != nil {
		return *report, context.Cause(ctx)
	}
	return *report, errors.Join(err, report.failure())
}

// cursor is a partition and how far it was read.
type cursor struct {
	partition int32
	first     int64 // where it started
	offset    int64 // next to fetch
	end       int64 // stop here, or start over; math.MaxInt64 for never
}

// consumer is one raw connection: it keeps one fetch per group of cursors in
// flight. Replies come in request order, so groups take turns.
type consumer struct {
	socket    net.Conn
	version   int16
	options   *ConsumeOptions
	groups    [][]*cursor
	formatter *kmsg.RequestFormatter

	request []byte
	reply   []byte

	requests, records, bytes int64
	errors                   map[string]int64
	latency                  *hdrhistogram.Histogram
}

// newConsumers opens the connections of each target, at most one per partition.
func newConsumers(ctx context.Context, c *cluster, options *ConsumeOptions, targets []target, version int16) ([]*consumer, error) {
	var consumers []*consumer
	share := max(1, options.Connections/len(targets))
	for _, t := range targets {
		cursors, err := c.cursors(ctx, t, options)
		if err != nil {
			return consumers, err
		}
		for i := range min(share, len(cursors)) {
			consumer := &consumer{
				version: version, options: options, latency: NewHistogram(), errors: make(map[string]int64),
				formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
			}
			var own []*cursor
			for j := i; j < len(cursors); j += min(share, len(cursors)) {
				own = append(own, cursors[j])
			}
			consumer.groups = make([][]*cursor, min(options.Depth, len(own)))
			for j, cursor := range own {
				g := j % len(consumer.groups)
				consumer.groups[g] = append(consumer.groups[g], cursor)
			}
			var dialer net.Dialer
			dialer.SetMultipathTCP(false)
			if consumer.socket, err = dialer.DialContext(ctx, "tcp", t.address); err != nil {
				return consumers, fmt.Errorf("perf: connect: %w", err)
			}
			consumers = append(consumers, consumer)
		}
	}
	return consumers, nil
}

// run fetches until every cursor is at its end or the budget is spent.
func (c *consumer) run(limit *budget) error {
	for correlation := range c.groups {
		if err := c.send(correlation); err != nil {
			return err
		}
	}
	open := len(c.groups)
	for correlation := 0; open > 0; correlation++ {
		group := correlation % len(c.groups)
		if c.groups[group] == nil {
			continue
		}
		records, err := c.receive(uint32(correlation), c.groups[group])
		if err != nil {
			return err
		}
		if limit.counted && limit.remaining.Add(-records) <= 0 || !limit.deadline.IsZero() && !time.Now().Before(limit.deadline) {
			return nil
		}
		if len(c.errors) > 0 || limit.ended.Load() && (records == 0 || c.options.Repeat) {
			return nil // with errors the report fails
		}
		if finished(c.groups[group]) && !c.startOver(c.groups[group]) {
			c.groups[group] = nil
			open--
			continue
		}
		if err := c.send(correlation + len(c.groups)); err != nil {
			return err
		}
	}
	return nil
}

func finished(group []*cursor) bool {
	for _, cursor := range group {
		if cursor.offset < cursor.end {
			return false
		}
	}
	return true
}

// startOver puts a group back to where it started, if that was asked for and there is anything to read.
func (c *consumer) startOver(group []*cursor) (again bool) {
	for _, cursor := range group {
		again = again || c.options.Repeat && cursor.first < cursor.end
	}
	for _, cursor := range group {
		if again {
			cursor.offset = cursor.first
		}
	}
	return again
}

// send asks for more of the group that correlation belongs to.
func (c *consumer) send(correlation int) error {
	bytesMax := int32(c.options.FetchBytesMax)
	var partitions []kmsg.FetchRequestTopicPartition
	for _, cursor := range c.groups[correlation%len(c.groups)] {
		if cursor.offset < cursor.end {
			partitions = append(partitions, fetchPartition(cursor.partition, cursor.offset, bytesMax))
		}
	}
	request := newFetchRequest(c.version, c.options.Topic, int32(fetchWait.Milliseconds()), bytesMax, partitions...)
	c.request = c.formatter.AppendRequest(c.request[:0], request, int32(correlation))
	if _, err := c.socket.Write(c.request); err != nil {
		return fmt.Errorf("perf: send fetch: %w", err)
	}
	return nil
}

// receive reads one reply, moves the group's cursors and returns the number of new records.
func (c *consumer) receive(correlation uint32, group []*cursor) (records int64, err error) {
	var prefix [replyPrefixBytes]byte
	if _, err := io.ReadFull(c.socket, prefix[:]); err != nil {
		return 0, fmt.Errorf("perf: fetch reply: %w", err)
	}
	size := int64(binary.BigEndian.Uint32(prefix[:])) - 4
	if got := binary.BigEndian.Uint32(prefix[4:]); got != correlation || size < 1 || size > math.MaxInt32 {
		return 0, fmt.Errorf("%w: a fetch reply of %d bytes with correlation id %d where %d is due", ErrProtocol, size, got, correlation)
	}
	if int64(cap(c.reply)) < size {
		c.reply = make([]byte, size+size/4)
	}
	body := c.reply[:size]
	if _, err := io.ReadFull(c.socket, body); err != nil {
		return 0, fmt.Errorf("perf: fetch reply: %w", err)
	}
	c.requests++
	reply := kmsg.NewPtrFetchResponse()
	reply.SetVersion(c.version)
	if reply.IsFlexible() {
		if body[0] != 0 {
			return 0, fmt.Errorf("%w: fetch reply has tagged header fields", ErrProtocol)
		}
		body = body[1:]
	}
	if err := reply.ReadFrom(body); err != nil {
		return 0, fmt.Errorf("%w: fetch reply: %w", ErrProtocol, err)
	}
	if reply.ErrorCode != 0 {
		c.errors[errorName(reply.ErrorCode)]++
		return 0, nil
	}
	for _, t := range reply.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				c.errors[errorName(p.ErrorCode)]++
				continue
			}
			cursor := find(group, p.Partition)
			if cursor == nil {
				return records, fmt.Errorf("%w: fetch reply about partition %d, which was not asked for", ErrProtocol, p.Partition)
			}
			n, err := c.walk(cursor, p.RecordBatches)
			if records += n; err != nil {
				return records, err
			}
		}
	}
	c.records += records
	return records, nil
}

func find(group []*cursor, partition int32) *cursor {
	for _, cursor := range group {
		if cursor.partition == partition {
			return cursor
		}
	}
	return nil
}

// walk counts the whole batches in b; what is cut off at its end is fetched
// again. Records below the cursor, in a batch that began before it, do not count.
func (c *consumer) walk(cursor *cursor, b []byte) (records int64, err error) {
	now := time.Now()
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if errors.Is(err, record.ErrShort) {
			return records, nil
		}
		if err != nil {
			return records, fmt.Errorf("perf: partition %d at offset %d: %w", cursor.partition, cursor.offset, err)
		}
		b = rest
		next := batch.LastOffset() + 1
		if next <= cursor.offset {
			continue
		}
		skipped := max(0, cursor.offset-batch.BaseOffset())
		records += max(0, int64(batch.RecordCount())-skipped)
		c.bytes += int64(len(batch))
		cursor.offset = next
		if c.options.EndToEnd {
			since, stamped := stampOf(batch)
			if !stamped {
				since = time.UnixMilli(batch.MaxTimestamp())
			}
			RecordLatency(c.latency, now.Sub(since), 1)
		}
	}
	return records, nil
}

// gatherConsumers adds up what the consumers did.
func gatherConsumers(report *Report, consumers []*consumer, latency *hdrhistogram.Histogram, elapsed time.Duration) {
	for _, c := range consumers {
		report.Requests += c.requests
		report.Records += c.records
		report.Bytes += c.bytes
		latency.Merge(c.latency)
		for name, count := range c.errors {
			if report.Errors == nil {
				report.Errors = make(map[string]int64)
			}
			report.Errors[name] += count
		}
	}
	report.AckLatency = Summarise(latency)
	report.setRates(elapsed)
}

// cursors asks the leader of its partitions where they begin and end.
func (c *cluster) cursors(ctx context.Context, t target, options *ConsumeOptions) ([]*cursor, error) {
	earliest, err := c.listOffsets(ctx, options.Topic, t.partitions, FromEarliest)
	if err != nil {
		return nil, err
	}
	latest, err := c.listOffsets(ctx, options.Topic, t.partitions, FromEnd)
	if err != nil {
		return nil, err
	}
	var cursors []*cursor
	for _, partition := range t.partitions {
		cursor := &cursor{partition: partition, offset: options.FromOffset, end: math.MaxInt64}
		switch options.FromOffset {
		case FromEarliest:
			cursor.offset = earliest[partition]
		case FromEnd:
			cursor.offset = latest[partition]
		}
		cursor.first = cursor.offset
		if options.Repeat || options.Duration == 0 && options.Count == 0 {
			cursor.end = latest[partition]
		}
		cursors = append(cursors, cursor)
	}
	return cursors, nil
}
