package raftctl

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"ringlog/meta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testOptions are those of broker 1, alone.
func testOptions() Options {
	return Options{NodeID: 1, ClusterID: "tTqpWdEeSP6Ylrk6T1tF7w", TickInterval: 5 * time.Millisecond}
}

// create makes metadata in a fresh directory and returns the controller.
func startFresh(t testing.TB, dir string, change ...func(*Options)) *Controller {
	t.Helper()
	return start(t, dir, append(change, func(o *Options) { o.Create = true })...)
}

// start opens the metadata in dir and waits until it is ready.
func start(t testing.TB, dir string, change ...func(*Options)) *Controller {
	t.Helper()
	options := testOptions()
	for _, f := range change {
		f(&options)
	}
	c, err := Open(t.Context(), dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func stop(t testing.TB, c *Controller) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func propose[R meta.Result](t testing.TB, c *Controller, command meta.Command) R {
	t.Helper()
	result, err := c.Propose(t.Context(), command)
	if err != nil {
		t.Fatalf("%T: %v", command, err)
	}
	return result.(R)
}

func startBroker(t testing.TB, c *Controller) meta.StartBrokerResult {
	t.Helper()
	return propose[meta.StartBrokerResult](t, c, meta.StartBroker{ID: 1, Host: "127.0.0.1", Port: 9092, LogsEpochMax: -1})
}

// newTopic draws a topic of one replica.
func newTopic(t testing.TB, random io.Reader, name string, partitions int) meta.NewTopic {
	t.Helper()
	topic := meta.NewTopic{Name: name, ReplicationFactor: 1}
	if err := topic.Draw(random, partitions); err != nil {
		t.Fatal(err)
	}
	return topic
}

func createTopic(t testing.TB, c *Controller, name string, partitions int) *meta.Topic {
	t.Helper()
	result := propose[meta.CreateTopicsResult](t, c, meta.CreateTopics{Topics: []meta.NewTopic{newTopic(t, rand.Reader, name, partitions)}})
	if err := result.Topics[0].Err; err != nil {
		t.Fatal(err)
	}
	return result.Topics[0].Topic
}

// createTogether creates topics by commands of their own that share flushes.
func createTogether(t testing.TB, c *Controller, topics int) {
	t.Helper()
	var callers errgroup.Group
	for n := range topics {
		topic := newTopic(t, rand.Reader, fmt.Sprintf("topic-%04d", n), 1)
		callers.Go(func() error {
			_, err := c.Propose(t.Context(), meta.CreateTopics{Topics: []meta.NewTopic{topic}})
			return err
		})
	}
	if err := callers.Wait(); err != nil {
		t.Fatal(err)
	}
}

func snapshotOf(image *meta.Image) []byte { return meta.AppendImage(nil, image) }

// sameMetadata compares two images but for their Index: a new leader's empty
// entry moves it.
func sameMetadata(t testing.TB, want, got *meta.Image) {
	t.Helper()
	if !bytes.Equal(snapshotOf(want), snapshotOf(got.WithIndex(want.Index))) {
		t.Fatalf("the metadata differ: %d topics, %d partitions against %d, %d", want.TopicCount(), want.PartitionCount(), got.TopicCount(), got.PartitionCount())
	}
}

func TestWhatWasAnsweredIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	c := startFresh(t, dir)
	if c.Image().ClusterID != testOptions().ClusterID || c.Image().ControllerID != 1 {
		t.Fatalf("a fresh cluster is %q with controller %d", c.Image().ClusterID, c.Image().ControllerID)
	}
	startBroker(t, c)
	orders := createTopic(t, c, "orders", 3)
	createTopic(t, c, "gone", 2)
	gone, _ := c.Image().Topic("gone")
	propose[meta.DeleteTopicsResult](t, c, meta.DeleteTopics{IDs: []meta.TopicID{gone.ID}})
	before := c.Image()
	stop(t, c)

	c = start(t, dir)
	sameMetadata(t, before, c.Image())
	topic, ok := c.Image().TopicByID(orders.ID)
	if !ok || topic.Name != "orders" || len(topic.Partitions) != 3 {
		t.Fatalf("topic orders came back as %+v", topic)
	}
	for _, partition := range gone.Partitions {
		if !c.Image().Tombstoned(partition.LogID) {
			t.Errorf("log %s of the deleted topic has no tombstone", partition.LogID)
		}
	}
}

func TestARefusedCommandChangesNothingAndSaysWhy(t *testing.T) {
	c := startFresh(t, t.TempDir())
	startBroker(t, c)
	createTopic(t, c, "orders", 1)
	before := c.Image()
	_, err := c.Propose(t.Context(), meta.AllocateProducerIDs{Broker: 1, BrokerEpoch: 99})
	if !errors.Is(err, meta.ErrStaleBroker) {
		t.Errorf("a stale broker got %v", err)
	}
	_, err = c.Propose(t.Context(), meta.FormatCluster{ClusterID: "another"})
	if !errors.Is(err, meta.ErrAlreadyFormatted) {
		t.Errorf("a second format got %v", err)
	}
	sameMetadata(t, before, c.Image())
}

// Scenario 44 of the reliability catalogue: a block of producer ids is never
// given twice, however often the controller is restarted.
func TestProducerIDsAreUniqueForEver(t *testing.T) {
	dir := t.TempDir()
	c := startFresh(t, dir)
	given := make(map[int64]bool)
	for restart := range 4 {
		epoch := startBroker(t, c).BrokerEpoch
		for range 3 {
			block := propose[meta.AllocateProducerIDsResult](t, c, meta.AllocateProducerIDs{Broker: 1, BrokerEpoch: epoch})
			if block.Count != 1000 || given[block.First] {
				t.Fatalf("after %d restarts: block %+v was given before", restart, block)
			}
			given[block.First] = true
		}
		stop(t, c)
		c = start(t, dir)
	}
}

// Architecture rule 11: a leader appends only under an epoch granted after its
// process started, above what metadata and its own logs know.
func TestEveryStartGrantsAHigherEpoch(t *testing.T) {
	dir := t.TempDir()
	c := startFresh(t, dir)
	startBroker(t, c)
	createTopic(t, c, "orders", 2)
	highest := int32(0)
	for _, logsEpoch := range []int32{-1, 40, 7} {
		stop(t, c)
		c = start(t, dir)
		granted := propose[meta.StartBrokerResult](t, c, meta.StartBroker{ID: 1, Host: "127.0.0.1", Port: 9092, LogsEpochMax: logsEpoch}).LeaderEpoch
		if granted <= highest || granted <= logsEpoch {
			t.Fatalf("epoch %d was granted after %d, with logs at %d", granted, highest, logsEpoch)
		}
		highest = granted
		topic, _ := c.Image().Topic("orders")
		for _, partition := range topic.Partitions {
			if partition.LeaderEpoch != granted {
				t.Errorf("partition %d is at epoch %d, granted was %d", partition.ID, partition.LeaderEpoch, granted)
			}
		}
	}
}

func TestSubscribersSeeEveryChangeInOrder(t *testing.T) {
	c := startFresh(t, t.TempDir())
	startBroker(t, c)
	createTopic(t, c, "before", 1)
	type change struct {
		delta meta.Delta
		image *meta.Image
	}
	changes := make(chan change, 1000)
	cancel := c.Subscribe(meta.NewImage(), func(delta meta.Delta, image *meta.Image) { changes <- change{delta, image} })
	const topics = 50
	for n := range topics {
		createTopic(t, c, fmt.Sprintf("topic-%02d", n), 1)
	}
	last := c.Image()
	seen := make(map[string]bool)
	index := uint64(0)
	for index < last.Index {
		got := <-changes
		if got.delta.Index != got.image.Index || got.image.Index <= index {
			t.Fatalf("a change to %d (image %d) came after %d", got.delta.Index, got.image.Index, index)
		}
		index = got.image.Index
		for _, topic := range got.delta.TopicsCreated {
			if seen[topic.Name] {
				t.Errorf("topic %s was created twice", topic.Name)
			}
			seen[topic.Name] = true
			if found, _ := got.image.Topic(topic.Name); found != topic {
				t.Errorf("topic %s of the delta is not the image's", topic.Name)
			}
		}
	}
	if len(seen) != topics+1 {
		t.Errorf("%d topics were seen, %d are there", len(seen), topics+1)
	}
	cancel()
	createTopic(t, c, "after", 1)
	if len(changes) > 0 {
		t.Error("a cancelled subscriber was called")
	}
}

func TestProposalsMadeTogetherAllSucceed(t *testing.T) {
	c := startFresh(t, t.TempDir())
	startBroker(t, c)
	const callers, each = 16, 10
	failures := make(chan error, callers)
	for caller := range callers {
		go func() {
			var err error
			for n := range each {
				topic := meta.NewTopic{Name: fmt.Sprintf("topic-%d-%d", caller, n), ReplicationFactor: 1}
				err = errors.Join(err, topic.Draw(rand.Reader, 1))
				_, proposeErr := c.Propose(t.Context(), meta.CreateTopics{Topics: []meta.NewTopic{topic}})
				if err = errors.Join(err, proposeErr); err == nil {
					if _, there := c.Image().Topic(topic.Name); !there {
						err = fmt.Errorf("topic %s is answered and not in the image", topic.Name)
					}
				}
			}
			failures <- err
		}()
	}
	for range callers {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if got := c.Image().TopicCount(); got != callers*each {
		t.Errorf("%d topics, want %d", got, callers*each)
	}
}

func TestASnapshotReplacesTheLogAndRestartsToTheSameImage(t *testing.T) {
	dir := t.TempDir()
	small := func(o *Options) { o.SnapshotLogBytes = 1 << 10 }
	c := startFresh(t, dir, small)
	startBroker(t, c)
	createTogether(t, c, 3*trailingEntries)
	before := c.Image()
	stop(t, c)
	status := c.Status()
	if status.SnapshotIndex == 1 || status.FirstIndex == 2 {
		t.Fatalf("no snapshot was taken: %+v", status)
	}
	if kept := status.SnapshotIndex - status.FirstIndex; kept > trailingEntries {
		t.Errorf("%d entries are kept behind the snapshot, more than %d", kept, trailingEntries)
	}
	c = start(t, dir, small)
	sameMetadata(t, before, c.Image())
}

func TestACallerWhoGivesUpIsToldThatTheOutcomeIsOpen(t *testing.T) {
	c := startFresh(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Propose(ctx, meta.FormatCluster{ClusterID: "x"}); !errors.Is(err, context.Canceled) && !errors.Is(err, meta.ErrAlreadyFormatted) {
		t.Errorf("got %v", err)
	}
	stop(t, c)
	if _, err := c.Propose(t.Context(), meta.FormatCluster{ClusterID: "x"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestACommandThatIsTooLargeIsRefused(t *testing.T) {
	c := startFresh(t, t.TempDir())
	_, err := c.Propose(t.Context(), meta.StartBroker{ID: 1, Host: string(make([]byte, CommandBytesMax))})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// Architecture section 7 and clause 1G of the Kafka map: twice 24,000
// partitions. A quadratic step would show as minutes.
func TestTenThousandTopicsAreCreatedInBatches(t *testing.T) {
	dir := t.TempDir()
	c := startFresh(t, dir)
	startBroker(t, c)
	const topics, partitions, batch = 10_000, 48_000, 500
	began := time.Now()
	placed := 0
	for n := 0; n < topics; n += batch {
		var command meta.CreateTopics
		for i := n; i < n+batch; i++ {
			count := (i+1)*partitions/topics - placed
			placed += count
			command.Topics = append(command.Topics, newTopic(t, rand.Reader, fmt.Sprintf("topic-%05d", i), count))
		}
		propose[meta.CreateTopicsResult](t, c, command)
	}
	created := time.Since(began)
	before := c.Image()
	if before.TopicCount() != topics || before.PartitionCount() != partitions {
		t.Fatalf("%d topics, %d partitions", before.TopicCount(), before.PartitionCount())
	}
	stop(t, c)
	began = time.Now()
	c = start(t, dir)
	reopened := time.Since(began)
	sameMetadata(t, before, c.Image())
	began = time.Now()
	startBroker(t, c)
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %v, reopened in %v, epochs granted in %v; snapshot %d bytes, file %d bytes",
		created, reopened, time.Since(began), len(snapshotOf(before)), info.Size())
}
