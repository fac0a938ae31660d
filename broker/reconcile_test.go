package broker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/record"
)

// patience bounds every wait: it is reached only by a broker that hangs.
const patience = 10 * time.Second

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// produce appends one record to partition 0 and returns its offset or why not.
func produce(t *testing.T, b *broker.Broker, name string) (int64, error) {
	t.Helper()
	p := b.NewProduce()
	defer p.Release()
	part := p.Add()
	part.Topic, part.Err = b.Topic([]byte(name))
	part.Records = batch(t, time.Now().UnixMilli())
	p.Acks = broker.AcksAll
	done := make(chan struct{})
	p.Done = func(*broker.Produce) { close(done) }
	p.Start()
	<-done
	return p.Parts[0].BaseOffset, p.Parts[0].Err
}

// batch builds a batch with one record for each timestamp.
func batch(t *testing.T, timestamps ...int64) []byte {
	t.Helper()
	var b record.Builder
	b.Reset(record.BuilderOptions{})
	for _, timestamp := range timestamps {
		b.Append(timestamp, nil, []byte("value"))
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(built)
}

// A topic is never shown before its logs can be written, and a create is
// answered when they can.
func TestATopicIsShownWhenItsLogsAreReady(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	reached, release := make(chan struct{}), make(chan struct{})
	store.Creating(func(spec engine.LogSpec) error {
		if spec.Label == "orders-1" {
			close(reached)
			<-release
		}
		return nil
	})
	created := make(chan *meta.Topic, 1)
	go func() { created <- brokertest.CreateTopic(t, b, "orders", 2, nil) }()
	<-reached
	if _, err := b.Topic([]byte("orders")); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("a topic with a log that is not ready is found: %v", err)
	}
	if _, shown := b.Image().Topic("orders"); shown {
		t.Error("a topic with a log that is not ready is shown")
	}
	select {
	case <-created:
		t.Error("the create is answered before the log is ready")
	default:
	}
	close(release)
	<-created
	if offset, err := produce(t, b, "orders"); err != nil || offset != 0 {
		t.Errorf("after the answer: offset %d, %v", offset, err)
	}
}

// createOffline creates a topic of which a log cannot be made: the answer is no success
// and says why, and the topic is there.
func createOffline(t *testing.T, b *broker.Broker, name string, partitions int32, cause error) {
	t.Helper()
	created, err := b.CreateTopics(t.Context(), []broker.TopicSpec{{Name: name, Partitions: partitions, ReplicationFactor: 1}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := created[0].Err; created[0].Topic != nil || !errors.Is(err, broker.ErrLogOffline) || !errors.Is(err, cause) {
		t.Errorf("the create is answered with %v and %v", created[0].Topic, err)
	}
	if _, err := b.Topic([]byte(name)); err != nil {
		t.Errorf("the topic is not there: %v", err)
	}
}

// A log that cannot be made takes its partition offline, not the topic, and is
// tried again.
func TestALogThatFailsIsOfflineUntilItWorks(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{OfflineRetryInterval: time.Millisecond})
	full := errors.New("the disk is full")
	store.Creating(func(engine.LogSpec) error { return full })
	createOffline(t, b, "orders", 1, full)
	if _, err := produce(t, b, "orders"); !errors.Is(err, broker.ErrLogOffline) || !errors.Is(err, full) {
		t.Errorf("produce to a log that could not be made: %v", err)
	}
	if got := b.OfflineLogs(); got != 1 {
		t.Errorf("%d logs are offline, want 1", got)
	}
	store.Creating(nil)
	eventually(t, "the log is there", func() bool {
		_, err := produce(t, b, "orders")
		return err == nil
	})
	eventually(t, "no log is offline", func() bool { return b.OfflineLogs() == 0 })
}

// What can never be opened is not counted for longer than its topic is there.
func TestOfflineLogsAreForgottenWithTheirTopic(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	damaged := errors.New("damaged")
	store.Creating(func(spec engine.LogSpec) error {
		if spec.Label == "orders-0" {
			return nil
		}
		return damaged
	})
	createOffline(t, b, "orders", 3, damaged)
	if got := b.OfflineLogs(); got != 2 {
		t.Errorf("%d logs are offline, want 2", got)
	}
	topic, err := b.Topic([]byte("orders"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteTopics(t.Context(), []meta.TopicID{topic.ID}); err != nil {
		t.Fatal(err)
	}
	if got := b.OfflineLogs(); got != 0 {
		t.Errorf("%d logs are offline, want none", got)
	}
}

// A log that was there and is gone is lost data: no empty one takes its place.
func TestALostLogIsNotReplacedByAnEmptyOne(t *testing.T) {
	controller := brokertest.NewController()
	first, stop := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{Controller: controller})
	brokertest.CreateTopic(t, first, "orders", 1, nil)
	stop()
	// The next start finds no log: the first one may have ended before it made it.
	second, stop := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{Controller: controller})
	if _, err := produce(t, second, "orders"); err != nil {
		t.Fatalf("a log that may never have been made: %v", err)
	}
	stop()
	third, _ := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{Controller: controller})
	if _, err := produce(t, third, "orders"); !errors.Is(err, broker.ErrLogOffline) {
		t.Errorf("a log that is lost: %v, want it offline", err)
	}
}

// Deleting a topic removes its logs and, once they are gone, its tombstones.
func TestDeletedTopicsLeaveNothing(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	topic := brokertest.CreateTopic(t, b, "orders", 3, nil)
	deleted, err := b.DeleteTopics(context.Background(), []meta.TopicID{topic.ID, {1}})
	if err != nil {
		t.Fatal(err)
	}
	if deleted[0].Err != nil || !errors.Is(deleted[1].Err, meta.ErrUnknownTopic) {
		t.Errorf("deleted %+v", deleted)
	}
	if _, err := b.TopicByID(topic.ID); !errors.Is(err, broker.ErrUnknownTopicID) {
		t.Errorf("found by id after the answer: %v", err)
	}
	eventually(t, "the tombstones are gone", func() bool { return len(b.Image().Tombstones()) == 0 })
	for _, partition := range topic.Partitions {
		if _, open := store.Log(engine.LogID(partition.LogID)); open {
			t.Errorf("log of partition %d is still there", partition.ID)
		}
	}
}

// A start raises the epoch of every partition that the broker leads, and the log
// leads under it (architecture rule 11).
func TestARestartLeadsUnderAHigherEpoch(t *testing.T) {
	controller := brokertest.NewController()
	first, stop := brokertest.Start(t, brokertest.NewEngine(), brokertest.Options{Controller: controller})
	before := brokertest.CreateTopic(t, first, "orders", 1, nil).Partitions[0].LeaderEpoch
	stop()
	store := brokertest.NewEngine()
	second, _ := brokertest.Start(t, store, brokertest.Options{Controller: controller})
	topic, err := second.Topic([]byte("orders"))
	if err != nil {
		t.Fatal(err)
	}
	after := topic.Partitions[0].LeaderEpoch
	status, err := second.Status(context.Background(), topic, 0)
	if err != nil || after <= before || status.Epoch != after {
		t.Errorf("epoch %d before, %d after, the log leads under %d (%v)", before, after, status.Epoch, err)
	}
}

// A thousand clients that ask for a topic make one.
func TestTopicsOnDemandAreMadeOnce(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{})
	logs := make(chan string, 2000)
	store.Creating(func(spec engine.LogSpec) error {
		logs <- spec.Label
		return nil
	})
	for range 1000 {
		if err := b.AutoCreateTopic("orders"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the topic is there", func() bool {
		_, err := b.Topic([]byte("orders"))
		return err == nil
	})
	if len(logs) != 1 {
		t.Errorf("%d logs were made", len(logs))
	}
	if err := b.AutoCreateTopic("no good!"); !errors.Is(err, meta.ErrInvalidTopicName) {
		t.Errorf("a bad name: %v", err)
	}
}

// Who waits in the broker is let go when it closes.
func TestCloseEndsWaiting(t *testing.T) {
	store := brokertest.NewEngine()
	stuck := &stuckController{proposed: make(chan struct{})}
	defaults, err := meta.NewDefaults(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := broker.New(broker.Options{NodeID: 1, Engine: store, Controller: stuck, Defaults: defaults,
		NewReplica: func(string) engine.Replica { return nil }})
	image, _, _, err := meta.Apply(meta.NewImage(), 1, meta.FormatCluster{ClusterID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	image, _, _, err = meta.Apply(image, 2, meta.StartBroker{ID: 1, Host: "h", Port: 1, LogsEpochMax: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(context.Background(), image); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := b.InitProducerID(context.Background())
		result <- err
	}()
	<-stuck.proposed
	b.Close()
	if err := <-result; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("ended by %v, want ErrClosed", err)
	}
}

// stuckController never answers.
type stuckController struct{ proposed chan struct{} }

func (c *stuckController) Propose(ctx context.Context, _ meta.Command) (meta.Result, error) {
	close(c.proposed)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Partitions whose logs cannot be made are there and offline; those that the topic had go on, and
// so does a change of configurations meanwhile.
func TestPartitionsThatCannotBeMadeLeaveTheOthersAlone(t *testing.T) {
	store := brokertest.NewEngine()
	b, _ := brokertest.Start(t, store, brokertest.Options{OfflineRetryInterval: time.Millisecond})
	topic := brokertest.CreateTopic(t, b, "orders", 1, nil)
	full := errors.New("the disk is full")
	store.Creating(func(engine.LogSpec) error { return full })
	answers, err := b.CreatePartitions(t.Context(), []broker.PartitionsSpec{{Name: "orders", Count: 3}}, false)
	if err != nil || !errors.Is(answers[0], broker.ErrLogOffline) || !errors.Is(answers[0], full) {
		t.Errorf("the partitions are answered with %v, %v", answers, err)
	}
	if _, err := produce(t, b, "orders"); err != nil {
		t.Errorf("to the partition that was there: %v", err)
	}
	altered, err := b.AlterConfigs(t.Context(), []meta.ConfigAlteration{{Scope: meta.ConfigOfTopic, Topic: topic.ID,
		Changes: []meta.ConfigChange{{Name: "segment.bytes", Op: meta.ConfigSet, Value: "2097152"}}}}, false)
	if err != nil || altered[0] != nil {
		t.Errorf("the configuration is answered with %v, %v", altered, err)
	}
	store.Creating(nil)
	eventually(t, "all logs are there", func() bool { return b.OfflineLogs() == 0 })
	grown, _ := b.Image().Topic("orders")
	for i := range grown.Partitions {
		if config, err := store.Config(engine.LogID(grown.Partitions[i].LogID)); err != nil || config.SegmentBytes != 2097152 {
			t.Errorf("log %d is configured as %+v, %v", i, config, err)
		}
	}
}
