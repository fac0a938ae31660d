package perf_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlog/perf"
)

// serveBareArgument makes the test binary a bare server.
const serveBareArgument = "serve-bare"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveBareArgument {
		if err := perf.ServeBare(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func produceOptions(b *fakeBroker, count int64) perf.ProduceOptions {
	o := perf.ProduceOptions{Load: perf.NewLoad(), Brokers: []string{b.address()}, Topic: "t"}
	o.RecordBytes, o.BatchBytes = 100, 1000
	o.Duration, o.Count = 0, count
	return o
}

func TestProduceCreatesTheTopicAndSendsEveryRecord(t *testing.T) {
	b := startFakeBroker(t)
	o := produceOptions(b, 4000)
	o.Partitions, o.Durability, o.Connections, o.Depth = 3, perf.Written, 2, 5
	report, err := perf.Produce(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.mu.topics["t"].flushMessages; got != "9223372036854775807" {
		t.Errorf("the topic was created with flush.messages=%s", got)
	}
	stored := int64(0)
	for partition := range 3 {
		batches := b.stored("t", partition)
		for _, batch := range batches {
			stored += int64(batch.RecordCount())
			if len(batch) > o.BatchBytes {
				t.Errorf("a batch of %d bytes, the limit is %d", len(batch), o.BatchBytes)
			}
		}
		if len(batches) < 100 {
			t.Errorf("partition %d got %d batches: not round robin", partition, len(batches))
		}
	}
	if stored != report.Records || stored < 4000 || stored >= 4010 {
		t.Errorf("%d records are stored, %d reported, 4000 (in whole batches) ordered", stored, report.Records)
	}
	if report.AckLatency == nil || report.AckLatency.Count != report.Requests {
		t.Errorf("latency of %v replies, %d requests", report.AckLatency, report.Requests)
	}
	if b.mu.acks[-1] != int(report.Requests) {
		t.Errorf("%d of %d requests asked for acks=all", b.mu.acks[-1], report.Requests)
	}
}

func TestProduceWithoutAcksCountsWhatWasSent(t *testing.T) {
	b := startFakeBroker(t)
	o := produceOptions(b, 1000)
	o.Acks = 0
	report, err := perf.Produce(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Records < 1000 || report.AckLatency != nil {
		t.Errorf("%d records, latency %v", report.Records, report.AckLatency)
	}
}

func TestProduceCompresses(t *testing.T) {
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd"} {
		b := startFakeBroker(t)
		o := produceOptions(b, 100)
		o.Codec = codec
		if _, err := perf.Produce(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if got := b.stored("t", 0)[0].Codec().String(); got != codec {
			t.Errorf("codec %s arrived as %s", codec, got)
		}
	}
}

// A rate of refused requests is not a rate: errors are counted, excluded, and fail the run.
func TestErrorsInRepliesFailTheRun(t *testing.T) {
	for name, message := range map[string]*string{
		"the usual shape":     nil,
		"with an explanation": new(string), // a reply of another length is decoded in full
	} {
		t.Run(name, func(t *testing.T) {
			if message != nil {
				*message = "not today"
			}
			b := startFakeBroker(t)
			b.refuse = func(number int) (int16, *string) {
				if number%10 == 3 {
					return 19, message // NOT_ENOUGH_REPLICAS
				}
				return 0, nil
			}
			o := produceOptions(b, 900) // 100 requests of 9 records, by the size of a batch
			o.RecordBytes, o.BatchBytes = 90, 91
			o.Count = 100
			report, err := perf.Produce(context.Background(), o)
			if !errors.Is(err, perf.ErrReplies) {
				t.Errorf("error %v, not %v", err, perf.ErrReplies)
			}
			if report.Errors["NOT_ENOUGH_REPLICAS"] != 10 || report.Requests != 100 || report.Records != 90 {
				t.Errorf("%d requests, %d records, errors %v", report.Requests, report.Records, report.Errors)
			}
		})
	}
}

func TestProduceRefusesATopicOfAnotherDurability(t *testing.T) {
	b := startFakeBroker(t)
	b.addTopic("t", "1", 1)
	o := produceOptions(b, 10)
	o.Durability = perf.Written
	if _, err := perf.Produce(context.Background(), o); !errors.Is(err, perf.ErrDurability) {
		t.Errorf("error %v, not %v", err, perf.ErrDurability)
	}
	o.Durability = perf.Durable
	if _, err := perf.Produce(context.Background(), o); err != nil {
		t.Error(err)
	}
	b.addTopic("t", "", 1) // a broker that does not tell
	report, err := perf.Produce(context.Background(), o)
	if err != nil || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "unproven") {
		t.Errorf("error %v, notes %q", err, report.Notes)
	}
}

// In an open loop a stall is paid by every request that was due during it, not
// only by the one that met it. (Only lower bounds are checked.)
func TestOpenLoopMeasuresFromWhenARequestWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	b := startFakeBroker(t)
	b.onProduce = func(number int) {
		if number == 0 {
			timer := time.NewTimer(stall)
			<-timer.C
		}
	}
	o := produceOptions(b, 0)
	o.RecordBytes, o.BatchBytes = 90, 91 // one record each
	o.Connections, o.Depth = 1, 1
	o.Rate, o.Count = 100, 40
	report, err := perf.Produce(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	// The request due after 100 ms waited 200 ms for the first; 30 of 40 were due
	// during the stall, so their median is late too.
	if report.AckLatency.P50 < 50_000 || report.AckLatency.Max < stall.Microseconds() {
		t.Errorf("latencies %+v hide a stall of %v", *report.AckLatency, stall)
	}
	if report.Seconds < 0.39 { // the 40th is due after 390 ms
		t.Errorf("40 records at 100/s took %v s", report.Seconds)
	}
}

// A stall that outlasts the run takes nothing with it: what was due before the end is
// sent and measured.
func TestOpenLoopMeasuresWhatAStallAtItsEndDelayed(t *testing.T) {
	const duration, stalled = 200 * time.Millisecond, 10
	b := startFakeBroker(t)
	b.onProduce = func(number int) {
		if number == stalled { // which is due in the middle of the run: the stall goes on behind its end
			timer := time.NewTimer(duration)
			<-timer.C
		}
	}
	o := produceOptions(b, 0)
	o.RecordBytes, o.BatchBytes = 90, 91 // one record each
	o.Connections, o.Depth = 1, 1
	o.Rate, o.Duration = 100, duration
	report, err := perf.Produce(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Requests != 20 || report.UnsentRequests != 0 {
		t.Errorf("%d requests were measured, %d not sent: 20 were due", report.Requests, report.UnsentRequests)
	}
	if report.AckLatency.Max < duration.Microseconds() {
		t.Errorf("the longest latency is %d us, and a request waited for %v", report.AckLatency.Max, duration)
	}
}

// A cancelled run ends although replies are owed that never come: the broker
// keeps them until the run is over. (It used to wait for them, when the writer
// ended just after the cancellation.)
func TestProduceEndsWithItsContext(t *testing.T) {
	for range 20 {
		b := startFakeBroker(t)
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan struct{})
		b.onProduce = func(number int) {
			if number >= 20 {
				cancel()
				<-over
			}
		}
		_, err := perf.Produce(ctx, produceOptions(b, 1<<40))
		close(over)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
}

func TestProduceReportsABrokenConnection(t *testing.T) {
	b := startFakeBroker(t)
	b.hangUpAt = 20
	_, err := perf.Produce(context.Background(), produceOptions(b, 1<<40))
	if err == nil || errors.Is(err, perf.ErrReplies) {
		t.Errorf("error %v where connections broke", err)
	}
}

func TestConsumeReadsWhatWasProduced(t *testing.T) {
	b := startFakeBroker(t)
	o := produceOptions(b, 5000)
	o.Partitions = 5
	produced, err := perf.Produce(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []struct{ connections, depth int }{{1, 1}, {2, 2}, {3, 1}, {9, 4}} {
		report, err := perf.Consume(context.Background(), perf.ConsumeOptions{
			Brokers: o.Brokers, Topic: "t", Connections: shape.connections, Depth: shape.depth,
			FetchBytesMax: 10_000, FromOffset: -2, EndToEnd: true, // many replies, each cut off in a batch
		})
		if err != nil {
			t.Fatal(err)
		}
		if report.Records != produced.Records || report.Bytes != produced.Bytes {
			t.Errorf("%+v: consumed %d records, %d bytes; produced %d, %d", shape, report.Records, report.Bytes, produced.Records, produced.Bytes)
		}
		if report.AckLatency == nil || report.AckLatency.Count != produced.Requests {
			t.Errorf("%+v: end-to-end latency of %v of %d batches", shape, report.AckLatency, produced.Requests)
		}
	}
	report, err := perf.Consume(context.Background(), perf.ConsumeOptions{Brokers: o.Brokers, Topic: "t", Count: 1000, FetchBytesMax: 2000})
	if err != nil || report.Records < 1000 || report.Records >= produced.Records {
		t.Errorf("1000 records were wanted, %d came, %v", report.Records, err)
	}
}

// A topic that is read again and again gives the same records again.
func TestConsumeStartsOver(t *testing.T) {
	filled := produceOptions(startFakeBroker(t), 1000)
	filled.Partitions = 2
	produced, err := perf.Produce(context.Background(), filled)
	if err != nil {
		t.Fatal(err)
	}
	again := perf.ConsumeOptions{Brokers: filled.Brokers, Topic: "t", FetchBytesMax: 5000, Repeat: true, Count: 3 * produced.Records}
	if report, err := perf.Consume(context.Background(), again); err != nil || report.Records < again.Count {
		t.Errorf("%d records are there, %d were wanted, %d came, %v", produced.Records, again.Count, report.Records, err)
	}
	again.Count = 0
	if _, err := perf.Consume(context.Background(), again); err == nil {
		t.Error("what never ends was begun")
	}
}

func bareOptions(t *testing.T) perf.BareOptions {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := perf.BareOptions{Load: perf.NewLoad(), Command: []string{self, serveBareArgument}}
	o.Duration = 0
	o.Server.DataDir = t.TempDir()
	o.Server.FileBytes = 2 << 20 // so small that it is written over several times
	return o
}

func TestBareAcknowledgesEveryRecord(t *testing.T) {
	for name, adjust := range map[string]func(*perf.BareOptions){
		"durable":        func(o *perf.BareOptions) {},
		"written":        func(o *perf.BareOptions) { o.Durability = perf.Written },
		"many files":     func(o *perf.BareOptions) { o.Partitions, o.Connections, o.Depth = 7, 3, 9 },
		"tiny batches":   func(o *perf.BareOptions) { o.RecordBytes, o.BatchBytes, o.Count = 50, 60, 2000 },
		"large batches":  func(o *perf.BareOptions) { o.BatchBytes, o.Server.ChunkBytes = 1<<20, 16<<10 },
		"prepared files": func(o *perf.BareOptions) { o.Server.History = perf.Prepared },
		"portable disk":  func(o *perf.BareOptions) { o.Server.Disk = "portable" },
	} {
		t.Run(name, func(t *testing.T) {
			o := bareOptions(t)
			o.Count = 6_000
			adjust(&o)
			report, err := perf.Bare(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Records < o.Count || report.AckLatency.Count != report.Requests || report.CPU.Server == nil {
				t.Errorf("%+v", report)
			}
			left, err := os.ReadDir(o.Server.DataDir)
			if err != nil || len(left) != 0 {
				t.Errorf("%v is left in the data directory, %v", left, err)
			}
		})
	}
}

func TestBareReportsAServerThatCannotStart(t *testing.T) {
	o := bareOptions(t)
	o.Server.Disk = "tape"
	o.Count = 10
	if _, err := perf.Bare(context.Background(), o); err == nil || !strings.Contains(err.Error(), "tape") {
		t.Errorf("error %v", err)
	}
}

func TestDeviceReportsWrites(t *testing.T) {
	for _, flush := range []perf.FlushMode{perf.FlushNone, perf.FlushGroup, perf.FlushEach} {
		for _, disk := range []string{"auto", "portable"} {
			t.Run(fmt.Sprintf("%s/%s", flush, disk), func(t *testing.T) {
				o := perf.DeviceOptions{
					DataDir: t.TempDir(), ChunkBytes: 16 << 10, Depth: 4, Files: 3, FileBytes: 1 << 20,
					Flush: flush, Disk: disk, Duration: 50 * time.Millisecond,
				}
				report, err := perf.Device(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				if report.Requests == 0 || report.Bytes != report.Requests*16<<10 || report.AckLatency.Count != report.Requests {
					t.Errorf("%+v", report)
				}
				left, err := os.ReadDir(o.DataDir)
				if err != nil || len(left) != 0 {
					t.Errorf("%v is left in the data directory, %v", left, err)
				}
			})
		}
	}
}

func TestReportKeys(t *testing.T) {
	b := startFakeBroker(t)
	report, err := perf.Produce(context.Background(), produceOptions(b, 100))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct {
		RecordsPerSecond float64            `json:"records_per_s"`
		MBPerSecond      float64            `json:"mb_per_s"`
		AckLatency       map[string]float64 `json:"ack_latency_us"`
		CPU              map[string]float64 `json:"cpu"`
		Parameters       map[string]any     `json:"parameters"`
		Environment      map[string]any     `json:"environment"`
	}
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	for key, ok := range map[string]bool{
		"records_per_s": decoded.RecordsPerSecond > 0, "mb_per_s": decoded.MBPerSecond > 0,
		"p50": decoded.AckLatency["p50"] > 0, "p99": decoded.AckLatency["p99"] > 0,
		"p999": decoded.AckLatency["p999"] > 0, "max": decoded.AckLatency["max"] > 0,
		"batch_bytes": decoded.Parameters["batch_bytes"] == 1000.0, "brokers": decoded.Parameters["brokers"] != nil,
		"kernel": decoded.Environment["kernel"] != "", "cores": decoded.Environment["cores"] != nil,
	} {
		if !ok {
			t.Errorf("%s is missing in %s", key, text)
		}
	}
	if _, ok := decoded.CPU["foreign"]; !ok {
		t.Errorf("cpu.foreign is missing in %s", text)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	o := perf.ProduceOptions{Load: perf.Load{RecordBytes: -1, Depth: -1, Acks: 7, Codec: "rot13", Durability: "maybe", Rate: -1}}
	_, err := perf.Produce(context.Background(), o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{"record bytes", "depth", "acks 7", "rot13", "maybe", "rate"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q does not say %q", err, fault)
		}
	}
}

// The windows of a run add up to its report, refusals included, whoever counts them: the
// reader of replies or, without acknowledgements, the writer.
func TestWindowsAddUpToTheReport(t *testing.T) {
	for _, acks := range []int16{-1, 0} {
		b := startFakeBroker(t)
		second := make(chan struct{})
		if acks != 0 {
			b.onProduce = func(number int) {
				if number == 50 {
					<-second // so that there is more than one window
				}
			}
			b.refuse = func(number int) (code int16, message *string) {
				if number == 10 || number == 90 {
					code = 19 // NOT_ENOUGH_REPLICAS
				}
				return code, nil
			}
		}
		o := produceOptions(b, 900)
		o.Acks, o.Connections, o.Depth = acks, 2, 4
		var sum perf.Window
		var latencies, refusals, windows int64
		o.Interval = time.Millisecond
		o.OnWindow = func(w perf.Window) {
			if windows++; windows == 2 {
				close(second)
			}
			sum.Requests, sum.Records, sum.Bytes = sum.Requests+w.Requests, sum.Records+w.Records, sum.Bytes+w.Bytes
			refusals += w.Errors["NOT_ENOUGH_REPLICAS"]
			if w.AckLatency != nil {
				latencies += w.AckLatency.Count
			}
		}
		report, err := perf.Produce(context.Background(), o)
		if (acks == 0) != (err == nil) {
			t.Fatal(err)
		}
		if sum.Requests != report.Requests || sum.Records != report.Records || sum.Bytes != report.Bytes || refusals != report.Errors["NOT_ENOUGH_REPLICAS"] {
			t.Errorf("acks=%d: %d windows have %d requests, %d records, %d bytes, %d refusals; the report is %+v", acks, windows, sum.Requests, sum.Records, sum.Bytes, refusals, report)
		}
		if acks != 0 && (windows < 2 || latencies != report.AckLatency.Count) {
			t.Errorf("%d windows have the latency of %d replies of %d", windows, latencies, report.AckLatency.Count)
		}
	}
}
