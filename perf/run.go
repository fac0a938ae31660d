package perf

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// target is a broker and the partitions that it leads.
type target struct {
	address    string
	partitions []int32
}

// generate runs a load against targets and fills in the report's figures.
// version and topic are what the requests are encoded with.
func generate(ctx context.Context, report *Report, load *Load, targets []target, version int16, topic string, serverPID int) error {
	batch, records, err := buildBatch(load, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	var stamps *stamper
	if load.Stamp {
		stamps = newStamper(batch)
	}
	producers, err := connect(ctx, load, targets, func(partition int32) *produceTemplate {
		t := newProduceTemplate(version, topic, partition, load.Acks, batch)
		t.stamps = stamps
		return t
	}, records)
	defer func() {
		for _, p := range producers {
			_ = p.socket.Close() // most are closed already
		}
	}()
	if err != nil {
		return err
	}
	report.Started = time.Now()
	meter := StartCPUMeter(serverPID)
	start := time.Now()
	schedule(producers, load, records, start)
	windows := startWindows(load, producers, serverPID, start)
	group, groupContext := errgroup.WithContext(ctx)
	for _, p := range producers {
		group.Go(func() error { return p.write(groupContext) })
		if load.Acks != 0 {
			group.Go(p.read)
		}
		// A connection that broke, or a run that was cancelled, ends the others.
		// Closed, not given a deadline in the past: finish sets a later one.
		stop := context.AfterFunc(groupContext, func() { _ = p.socket.Close() })
		defer stop()
	}
	err = group.Wait()
	report.CPU = meter.Stop()
	windows.finish()
	gather(report, producers, start)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return report.failure()
}

// connect opens the connections: number i goes to target i modulo the targets,
// and starts at another of its partitions than the others there.
func connect(ctx context.Context, load *Load, targets []target, template func(int32) *produceTemplate, records int) ([]*producer, error) {
	if len(targets) == 0 {
		return nil, fmt.Errorf("perf: no partition has a leader")
	}
	templates := make([][]*produceTemplate, len(targets))
	for i, t := range targets {
		for _, partition := range t.partitions {
			templates[i] = append(templates[i], template(partition))
		}
	}
	var producers []*producer
	for i := range max(load.Connections, len(targets)) {
		own := templates[i%len(targets)]
		// The sets of partitions may be larger than the number of
		// connections, or smaller: each connection visits all, from its own start.
		sharing := (max(load.Connections, len(targets)) + len(targets) - 1) / len(targets)
		turn := (i / len(targets)) * len(own) / sharing
		rotated := append(append([]*produceTemplate(nil), own[turn:]...), own[:turn]...)
		p, err := newProducer(ctx, targets[i%len(targets)].address, rotated, records, load)
		if err != nil {
			return producers, err
		}
		producers = append(producers, p)
	}
	return producers, nil
}

// schedule gives all producers the common budget and, in an open loop, their pace.
func schedule(producers []*producer, load *Load, records int, start time.Time) {
	b := new(budget)
	if load.Duration > 0 {
		b.deadline = start.Add(load.Duration)
		if load.Rate > 0 { // where the schedule is the end
			b.deadline = b.deadline.Add(openLoopPatience)
		}
	}
	if load.Count > 0 {
		b.counted = true
		b.remaining.Store((load.Count + int64(records) - 1) / int64(records))
	}
	for i, p := range producers {
		p.budget = b
		if load.Rate > 0 {
			perConnection := load.Rate / float64(len(producers)) / float64(records)
			interval := time.Duration(float64(time.Second) / perConnection)
			p.pace = newPace(start, interval, i, len(producers), load.Duration)
		}
	}
}

// gather adds up what the producers did.
func gather(report *Report, producers []*producer, start time.Time) {
	latency := NewHistogram()
	end := start
	for _, p := range producers {
		refused := int64(0)
		for name, count := range p.errors {
			if report.Errors == nil {
				report.Errors = make(map[string]int64)
			}
			report.Errors[name] += count
			refused += count
		}
		done := p.received.Load()
		report.Requests += done
		report.Records += (done - refused) * p.records
		report.Bytes += p.bytes
		report.UnsentRequests += p.unsent
		latency.Merge(p.latency)
		if p.lastReply.After(end) {
			end = p.lastReply
		}
	}
	if report.UnsentRequests > 0 {
		report.Notes = append(report.Notes, fmt.Sprintf("the broker did not keep up: %d requests were due and had not been sent %v after the end, so the latencies are too low", report.UnsentRequests, openLoopPatience))
	}
	report.AckLatency = Summarise(latency)
	report.setRates(end.Sub(start))
}
