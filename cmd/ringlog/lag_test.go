package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/internal/ringlogtest"
	"ringlog/lag"
)

// A group stands still in one partition while records come, keeps up in another, and has lost the first of a third.
// Two looks around that tell each apart, and seconds come from the records' own timestamps, compressed or not.
func TestLagIsSeenFromOutside(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	ask := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
	command := func(arguments ...string) string {
		t.Helper()
		output, complaint, code := ask.execute(t, strings.NewReader(""), arguments...)
		if code != exitOK {
			t.Fatalf("ringlog %s: exit code %d, %s", strings.Join(arguments, " "), code, complaint)
		}
		return output
	}
	command("topic", "create", "orders", "--partitions", "3", "--config", "retention.ms=3600000")
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// Timestamps are as far in the past as their offset is from 2700: three quarters of retention for the first.
	started := time.Now()
	produced := map[int32]int{}
	produce := func(partition int32, count int) {
		t.Helper()
		var records []*kgo.Record
		for range count {
			age := time.Duration(2700-produced[partition]) * time.Second
			records = append(records, &kgo.Record{Topic: "orders", Partition: partition, Value: fmt.Append(nil, produced[partition]), Timestamp: started.Add(-age)})
			produced[partition]++
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	admin := kadm.NewClient(client)
	commit := func(offsets map[int32]int64) {
		t.Helper()
		all := kadm.Offsets{}
		for partition, offset := range offsets {
			all.AddOffset("orders", partition, offset, -1)
		}
		if err := admin.CommitAllOffsets(t.Context(), "billing", all); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range int32(3) {
		produce(partition, 100)
	}
	commit(map[int32]int64{0: 40, 1: 100, 2: 10})
	sampler := lagSampler{client: client, admin: admin, groups: []string{"billing"}}
	before, err := sampler.sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	produce(0, 20)
	produce(1, 20)
	commit(map[int32]int64{1: 120})
	deletion := kadm.Offsets{}
	deletion.AddOffset("orders", 2, 30, -1)
	deleted, err := admin.DeleteRecords(t.Context(), deletion)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	now, err := sampler.sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reports := lagReports(now, before)
	if len(reports) != 3 || reports[0].Partition != 2 || reports[1].Partition != 0 || reports[2].Partition != 1 {
		t.Fatalf("the worst is not first: %+v", reports)
	}
	lost, stuck, fine := reports[0], reports[1], reports[2]
	if lost.Level != "lost" || *lost.LostFrom != 10 || *lost.LostUntil != 30 || *lost.Lag != 70 || lost.state() != "lost 20: offsets 10 to 29" {
		t.Errorf("lost: %+v", lost)
	}
	if !stuck.Stuck || stuck.Level != "warning" || *stuck.Lag != 80 || !stuck.NeverDrains || *stuck.Consumed != 0 || *stuck.Change <= 0 || stuck.state() != "warning, stuck" {
		t.Errorf("stuck: %+v", stuck)
	}
	if fine.Level != "none" || *fine.Lag != 0 || *fine.Seconds != 0 || *fine.Consumed <= 0 || *fine.Change != 0 || fine.state() != "ok" {
		t.Errorf("fine: %+v", fine)
	}
	// Offset 40 is from 2660 seconds before the start, 30 from 2670.
	for partition, offset := range map[int32]int{0: 40, 2: 30} {
		seen := now[lagPlace{"billing", "orders", partition}].observation
		if want := started.Add(-time.Duration(2700-offset) * time.Second).Truncate(time.Millisecond); !seen.NextTimestamp.Equal(want) {
			t.Errorf("offset %d of partition %d is from %s, want %s", offset, partition, seen.NextTimestamp, want)
		}
		if seen.Retention != time.Hour || seen.LogBytes <= 0 {
			t.Errorf("%+v", seen)
		}
	}
	if want := started.Add(-2660 * time.Second).Add(time.Hour); stuck.LossAt == nil || stuck.LossAt.Sub(want).Abs() > time.Second {
		t.Errorf("it is to lose at %v, want %s", stuck.LossAt, want)
	}
	var printed []lagReport
	if err := json.Unmarshal([]byte(command("lag", "--interval", "10ms", "--json")), &printed); err != nil || len(printed) != 3 || *printed[0].LostUntil != 30 {
		t.Errorf("%+v: %v", printed, err)
	}
	table := command("lag", "billing", "--interval", "10ms")
	for _, part := range []string{"RETENTION", "lost 20: offsets 10 to 29", "warning", "never"} {
		if !strings.Contains(table, part) {
			t.Errorf("%q is not in\n%s", part, table)
		}
	}
	if _, complaint, code := ask.execute(t, strings.NewReader(""), "lag", "nobody", "--interval", "10ms"); code != exitNotFound {
		t.Errorf("exit code %d, %s", code, complaint)
	}
}

// What people read of each state, without a broker.
func TestLagRowsSayWhatIsKnown(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	at := func(after time.Duration, o lag.Observation) *lagSeen {
		o.At = noon.Add(after)
		return &lagSeen{observation: o}
	}
	place := func(group string) lagPlace { return lagPlace{group, "orders", 0} }
	before := lagSample{
		place("drains"): at(0, lag.Observation{Committed: 700, End: 1000, NextTimestamp: noon.Add(-300 * time.Second)}),
		place("stuck"):  at(0, lag.Observation{Committed: 0, End: 1000, NextTimestamp: noon.Add(-48 * time.Minute), Retention: time.Hour}),
	}
	now := lagSample{
		place("drains"): at(10*time.Second, lag.Observation{Committed: 900, End: 1100, NextTimestamp: noon.Add(-200 * time.Second)}),
		place("stuck"):  at(10*time.Second, lag.Observation{Committed: 0, End: 1100, NextTimestamp: noon.Add(-48 * time.Minute), Retention: time.Hour}),
		place("new"):    at(10*time.Second, lag.Observation{Committed: 5, End: 7, NextTimestamp: noon.Add(9 * time.Second)}),
		place("ahead"):  at(10*time.Second, lag.Observation{Committed: 50, End: 7}),
		place("gone"):   {lag.Observation{Committed: 3}, errors.New("the partition is not there")},
	}
	var screen strings.Builder
	(&application{environment: environment{output: &screen}}).printLag(lagReports(now, before), false)
	want := `GROUP   TOPIC   PARTITION  LAG   SECONDS  CHANGE/S  DRAIN  RETENTION  LOSS-AT              STATE
stuck   orders  0          1100  2890.0   +10.0     never  80.3%      2026-05-01T12:12:00  critical, stuck
drains  orders  0          200   210.0    -10.0     20s    -          -                    ok
new     orders  0          2     1.0      -         -      -          -                    ok
ahead   orders  0          0     0.0      -         -      -          -                    ahead of the log
gone    orders  0          -     -        -         -      -          -                    the partition is not there
`
	got := strings.ReplaceAll(screen.String(), noon.Format("Z07:00"), "")
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
