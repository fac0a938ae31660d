package group

import (
	"errors"
	"fmt"
	"testing"

	"ringlog/coord"
	"ringlog/meta"
)

// deleteTopic deletes a topic from the image and tells the machine.
func (r *offsetsRig) deleteTopic(name string) DeletedTopic {
	r.Helper()
	topic, _ := r.image.Topic(name)
	image, _, _, err := meta.Apply(r.image, r.image.Index+1, meta.DeleteTopics{IDs: []meta.TopicID{topic.ID}})
	if err != nil {
		r.Fatal(err)
	}
	r.image = image
	return DeletedTopic{Name: name, ID: topic.ID}
}

// createTopic creates a topic of that name with another id.
func (r *offsetsRig) createTopic(name string, id byte) {
	r.Helper()
	topic := meta.NewTopic{Name: name, ID: meta.TopicID{id}, LogIDs: []meta.LogID{{id}}, ReplicationFactor: 1}
	image, _, _, err := meta.Apply(r.image, r.image.Index+1, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	if err != nil {
		r.Fatal(err)
	}
	r.image = image
}

func TestADeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	r := newOffsetsRig(t, "orders", "payments")
	r.must(r.commit("readers", "orders", 1))
	r.must(r.commit("readers", "payments", 2))
	r.must(r.commit("others", "orders", 3))
	deleted := r.deleteTopic("orders")
	r.notify(&ImageChanged{Image: r.image, Deleted: []DeletedTopic{deleted}})
	r.wants("readers", "orders", -1)
	r.wants("others", "orders", -1)
	r.wants("readers", "payments", 2)
	if n := r.counts().Groups; n != 1 {
		t.Errorf("%d groups are left, want 1", n)
	}
}

// A consumer of a topic that was deleted and made anew must not go on where it was in the old one: it would
// skip what is new, or be thrown out of range.
func TestANewTopicOfThatNameStartsWithoutOffsets(t *testing.T) {
	t.Run("the coordinator runs", func(t *testing.T) {
		r := newOffsetsRig(t, "orders")
		r.must(r.commit("readers", "orders", 1000))
		deleted := r.deleteTopic("orders")
		r.createTopic("orders", 9)
		// The notices come after both, and a commit for the new topic before them.
		r.must(r.commit("readers", "orders", 5))
		r.notify(&ImageChanged{Image: r.image, Deleted: []DeletedTopic{deleted}})
		r.wants("readers", "orders", 5)
	})
	t.Run("the broker was down", func(t *testing.T) {
		r := newOffsetsRig(t, "orders")
		r.must(r.commit("readers", "orders", 1000))
		r.deleteTopic("orders")
		r.createTopic("orders", 9)
		r.restart()
		r.wants("readers", "orders", -1)
	})
	t.Run("the topic is gone", func(t *testing.T) {
		r := newOffsetsRig(t, "orders")
		r.must(r.commit("readers", "orders", 1000))
		r.deleteTopic("orders")
		r.restart()
		if c := r.counts(); c != (Counts{}) {
			t.Errorf("left over: %+v", c)
		}
	})
}

// A topic with very many offsets does not become one batch of megabytes: they are gone at once for who asks, and
// from the log piece by piece. What a crash leaves is gone, too.
func TestADeletedTopicLeavesTheLogInPieces(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	for n := range 3000 {
		r.must(r.commit(fmt.Sprint("group-", n), "orders", 1))
	}
	deleted := r.deleteTopic("orders")
	r.createTopic("orders", 9)
	var effects coord.Effects
	r.machine.Step(r.now, coord.Request{Body: &ImageChanged{Image: r.image, Deleted: []DeletedTopic{deleted}}}, &effects)
	r.take(&effects)
	if c := r.machine.offsetCount; c != 0 || len(r.machine.order) != 0 {
		t.Fatalf("%d offsets and %d groups are found", c, len(r.machine.order))
	}
	effects.Reset()
	r.machine.Tick(r.now, &effects) // the first piece
	r.take(&effects)
	if n := len(effects.Records); n == 0 || n > tombstonesPerStepMax {
		t.Fatalf("the first piece has %d tombstones", n)
	}
	effects.Reset()
	r.machine.Step(r.now, coord.Request{Token: 1 << 40, Body: r.commit("group-0", "orders", 77)}, &effects) // in between, for the new topic
	r.take(&effects)
	t.Run("the rest follows", func(t *testing.T) {
		rest := *r
		rest.TB, rest.answers = t, map[uint64]any{}
		rest.pass(minute)
		rest.wants("group-0", "orders", 77)
		rest.wants("group-1", "orders", -1)
		if c := rest.counts(); c != (Counts{Groups: 1, Offsets: 1}) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("a crash comes before it", func(t *testing.T) {
		r.TB = t
		r.restart()
		r.wants("group-0", "orders", 77)
		r.wants("group-1", "orders", -1)
		if c := r.counts(); c != (Counts{Groups: 1, Offsets: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

// A commit whose topic was found before it was deleted, and that comes after, must not bring an
// offset back.
func TestACommitThatCrossesTheDeletionOfItsTopicIsRefused(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	late := r.commit("readers", "orders", 1)
	deleted := r.deleteTopic("orders")
	r.notify(&ImageChanged{Image: r.image, Deleted: []DeletedTopic{deleted}})
	if err := r.committed(late); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("%v", err)
	}
	if c := r.counts(); c != (Counts{}) {
		t.Errorf("left over: %+v", c)
	}
}
