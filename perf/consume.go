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
// looking into batches beyond their headers. The report is returned beside an
// error too.
func Consume(ctx context.Context, options ConsumeOptions) (Report, error) {
	options.EnsureDefaults()
	report := Report{Kind: "consume", Parameters: options, Environment: CurrentEnvironment()}
	if err := options.Validate(); err != nil {
		return report, err
	}
	c, err := newCluster(options.Brokers)
	if err != nil {
		return report, err
	}
	defer c.close()
	version, err := c.version(ctx, kmsg.Fetch, fetchVersionMin, fetchVersionMax)
	if err != nil {
		return report, err
	}
	targets, err := c.settledTargets(ctx, options.Topic)
	if err != nil {
		return report, err
	}
	consumers, err := newConsumers(ctx, c, &options, targets, version)
	defer func() {
		for _, consumer := range consumers {
			_ = consumer.socket.Close() // nothing is owed on it
		}
	}()
	if err != nil {
		return report, err
	}
	report.Started = time.Now()
	meter := StartCPUMeter(options.ServerPID)
	start := time.Now()
	limit := new(budget)
	if options.Duration > 0 {
		limit.deadline = start.Add(options.Duration)
	}
	if options.Count > 0 {
		limit.counted = true
		limit.remaining.Store(options.Count)
	}
	group, groupContext := errgroup.WithContext(ctx)
	for _, consumer := range consumers {
		stop := context.AfterFunc(groupContext, func() { _ = consumer.socket.Close() })
		defer stop()
		group.Go(func() error { return consumer.run(limit) })
	}
	err = group.Wait()
	report.CPU = meter.Stop()
	gatherConsumers(&report, consumers, time.Since(start))
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	return report, errors.Join(err, report.failure())
}

// cursor is a partition and how far it was read.
type cursor struct {
	partition int32
	offset    int64 // next to fetch
	end       int64 // stop here; math.MaxInt64 for never
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
		if len(c.errors) > 0 {
			return nil // the report fails
		}
		if finished(c.groups[group]) {
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

// send asks for more of the group that correlation belongs to.
func (c *consumer) send(correlation int) error {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(c.version)
	request.ReplicaID = -1
	request.MaxWaitMillis = int32(fetchWait.Milliseconds())
	request.MinBytes = 1
	request.MaxBytes = int32(c.options.FetchBytesMax)
	request.SessionEpoch = -1 // no session: each fetch stands alone (KIP-227)
	t := kmsg.NewFetchRequestTopic()
	t.Topic = c.options.Topic
	for _, cursor := range c.groups[correlation%len(c.groups)] {
		if cursor.offset >= cursor.end {
			continue
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = cursor.partition
		p.FetchOffset = cursor.offset
		p.CurrentLeaderEpoch = -1
		p.LogStartOffset = -1
		p.PartitionMaxBytes = int32(c.options.FetchBytesMax)
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
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
			RecordLatency(c.latency, now.Sub(time.UnixMilli(batch.MaxTimestamp())), 1)
		}
	}
	return records, nil
}

// gatherConsumers adds up what the consumers did.
func gatherConsumers(report *Report, consumers []*consumer, elapsed time.Duration) {
	latency := NewHistogram()
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
	earliest, err := c.listOffsets(ctx, options.Topic, t.partitions, -2)
	if err != nil {
		return nil, err
	}
	latest, err := c.listOffsets(ctx, options.Topic, t.partitions, -1)
	if err != nil {
		return nil, err
	}
	var cursors []*cursor
	for _, partition := range t.partitions {
		cursor := &cursor{partition: partition, offset: options.FromOffset, end: math.MaxInt64}
		if options.FromOffset == -2 {
			cursor.offset = earliest[partition]
		}
		if options.Duration == 0 && options.Count == 0 {
			cursor.end = latest[partition]
		}
		cursors = append(cursors, cursor)
	}
	return cursors, nil
}
