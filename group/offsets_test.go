package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
	"ringlog/meta"
)

const (
	minute = int64(60_000)
	hour   = 60 * minute
	day    = 24 * hour
)

// offsetsRig is a machine with its log and a clock, driven step by step.
type offsetsRig struct {
	testing.TB
	machine *Machine
	log     []coord.Record
	now     int64
	config  *Config
	image   *meta.Image
	events  []string
	token   uint64
	answers map[uint64]any
}

func newOffsetsRig(t testing.TB, topics ...string) *offsetsRig {
	r := &offsetsRig{TB: t, now: 1_000_000_000_000, answers: map[uint64]any{}, image: imageOf(t, topics...), config: &Config{
		OffsetMetadataBytesMax: 4096, OffsetsRetentionMillis: 7 * day, OffsetsCheckIntervalMillis: 10 * minute,
	}}
	r.restart()
	return r
}

// imageOf makes a cluster with topics of four partitions. The id of a topic is its place.
func imageOf(t testing.TB, topics ...string) *meta.Image {
	image := meta.NewImage()
	commands := []meta.Command{meta.FormatCluster{ClusterID: "test"}, meta.StartBroker{ID: 1, Host: "127.0.0.1", Port: 9092}}
	for n, name := range topics {
		topic := meta.NewTopic{Name: name, ID: meta.TopicID{byte(n + 1)}, ReplicationFactor: 1}
		for p := range 4 {
			topic.LogIDs = append(topic.LogIDs, meta.LogID{byte(n + 1), byte(p + 1)})
		}
		commands = append(commands, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	}
	for n, command := range commands {
		var err error
		if image, _, _, err = meta.Apply(image, uint64(n+1), command); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// restart loads a new machine from the log.
func (r *offsetsRig) restart() {
	r.Helper()
	r.machine = New(r.config, r.image)
	for _, record := range r.log {
		if err := r.machine.Replay(record); err != nil {
			r.Fatal(err)
		}
	}
	var effects coord.Effects
	r.machine.Loaded(r.now, &effects)
	r.take(&effects)
}

func (r *offsetsRig) take(effects *coord.Effects) {
	for _, answer := range effects.Answers {
		if _, twice := r.answers[answer.Token]; twice {
			r.Fatalf("token %d is answered twice", answer.Token)
		}
		r.answers[answer.Token] = answer.Body
	}
	r.log = append(r.log, effects.Records...)
	for _, e := range effects.Events {
		r.events = append(r.events, fmt.Sprint(e.Message, " ", e.Attributes))
	}
}

// ask returns the answer of a request, which comes at once.
func (r *offsetsRig) ask(body any) any {
	r.Helper()
	r.token++
	var effects coord.Effects
	r.machine.Step(r.now, coord.Request{Token: r.token, Body: body}, &effects)
	r.take(&effects)
	r.pass(0) // timers that are due
	answer, ok := r.answers[r.token]
	if !ok {
		r.Fatalf("%T has no answer", body)
	}
	return answer
}

func (r *offsetsRig) notify(body any) {
	var effects coord.Effects
	r.machine.Step(r.now, coord.Request{Body: body}, &effects)
	r.take(&effects)
}

// pass lets time pass, and the machine ticks whenever it wants to.
func (r *offsetsRig) pass(millis int64) {
	until := r.now + millis
	for r.machine.NextMillis() <= until {
		r.now = max(r.now, r.machine.NextMillis())
		var effects coord.Effects
		r.machine.Tick(r.now, &effects)
		r.take(&effects)
	}
	r.now = until
}

// commit is a commit of a simple consumer for partition 0 of a topic.
func (r *offsetsRig) commit(group, topic string, offset int64) *OffsetCommit {
	c := &OffsetCommit{GroupID: group, Generation: -1, RetentionMillis: -1, ImageIndex: r.image.Index}
	t := OffsetCommitTopic{Topic: topic, Partitions: []OffsetCommitPartition{{Partition: 0, Offset: offset, LeaderEpoch: 3, Metadata: "note"}}}
	if found, ok := r.image.Topic(topic); ok {
		t.ID = found.ID
	}
	c.Topics = []OffsetCommitTopic{t}
	return c
}

// must commits and fails the test if that fails.
func (r *offsetsRig) must(commit *OffsetCommit) {
	r.Helper()
	if err := r.committed(commit); err != nil {
		r.Fatal(err)
	}
}

// committed commits and returns the error of the first partition.
func (r *offsetsRig) committed(commit *OffsetCommit) error {
	r.Helper()
	return r.ask(commit).(*OffsetCommitted).Topics[0].Partitions[0].Err
}

// offset is what a group has committed for partition 0 of a topic.
func (r *offsetsRig) offset(group, topic string) int64 {
	r.Helper()
	return r.fetch(group, topic, 0).Offset
}

func (r *offsetsRig) fetch(group, topic string, partition int32) OffsetFetchPartition {
	r.Helper()
	answer := r.ask(&OffsetFetchGroup{GroupID: group, MemberEpoch: -1,
		Topics: []OffsetFetchTopic{{Topic: topic, Partitions: []OffsetFetchPartition{{Partition: partition}}}}}).(*OffsetsFetched)
	if answer.Err != nil {
		r.Fatal(answer.Err)
	}
	return answer.Topics[0].Partitions[0]
}

func (r *offsetsRig) counts() Counts { return *r.ask(&Count{}).(*Counts) }

// wants compares an offset now with one after a restart: both are want.
func (r *offsetsRig) wants(group, topic string, want int64) {
	r.Helper()
	if got := r.offset(group, topic); got != want {
		r.Errorf("group %s has committed %d for %s, want %d", group, got, topic, want)
	}
	r.restart()
	if got := r.offset(group, topic); got != want {
		r.Errorf("after a restart group %s has committed %d for %s, want %d", group, got, topic, want)
	}
}

// "If the generation id is negative the request comes from either the admin client or a consumer which does not use
// group management. It can commit if the group is empty." (Kafka, the rule of simple consumers)
func TestASimpleConsumerCommitsAndFindsItsOffsetAgain(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	r.must(r.commit("readers", "orders", 42))
	r.wants("readers", "orders", 42)
	if got := r.fetch("readers", "orders", 0); got.LeaderEpoch != 3 || got.Metadata != "note" {
		t.Errorf("epoch %d and metadata %q come back, want 3 and note", got.LeaderEpoch, got.Metadata)
	}
	r.must(r.commit("readers", "orders", 7)) // backwards is allowed: somebody wants to read again
	r.wants("readers", "orders", 7)
}

// Black-box note 1: OffsetFetch for a group that does not exist answers offset -1 without an error.
func TestAnUnknownGroupHasCommittedNothing(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	if got := r.fetch("nobody", "orders", 0); got.Offset != NoOffset || got.LeaderEpoch != -1 || got.Metadata != "" || got.Err != nil {
		t.Errorf("%+v", got)
	}
	if answer := r.ask(&OffsetFetchGroup{GroupID: "nobody", All: true}).(*OffsetsFetched); answer.Err != nil || len(answer.Topics) != 0 {
		t.Errorf("%+v", answer)
	}
	if n := r.counts().Groups; n != 0 {
		t.Errorf("asking has made %d groups", n)
	}
}

// A member of a group that is gone is told so: ILLEGAL_GENERATION, or GROUP_ID_NOT_FOUND from OffsetCommit 9 on (KIP-848).
func TestACommitOfAMemberNeedsItsGroup(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	member := func() *OffsetCommit {
		c := r.commit("readers", "orders", 1)
		c.Generation, c.MemberID = 4, "member-1"
		return c
	}
	if err := r.committed(member()); !errors.Is(err, ErrIllegalGeneration) {
		t.Errorf("no group: %v", err)
	}
	late := member()
	late.MemberEpochs = true
	if err := r.committed(late); !errors.Is(err, ErrGroupNotFound) {
		t.Errorf("no group, OffsetCommit 9: %v", err)
	}
	r.must(r.commit("readers", "orders", 1))
	if err := r.committed(member()); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("a group without members: %v", err)
	}
	r.wants("readers", "orders", 1)
}

// offset.metadata.max.bytes: OFFSET_METADATA_TOO_LARGE for the partition, the others are committed.
func TestOneBadPartitionDoesNotHoldBackTheOthers(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	c := r.commit("readers", "orders", 1)
	missing := errors.New("there is no such partition")
	c.Topics[0].Partitions = []OffsetCommitPartition{
		{Partition: 0, Offset: 10, Metadata: strings.Repeat("x", 4096)},
		{Partition: 1, Offset: 11, Metadata: strings.Repeat("x", 4097)},
		{Partition: 99, Offset: 12, Err: missing},
		{Partition: 3, Offset: 13},
	}
	got := r.ask(c).(*OffsetCommitted).Topics[0].Partitions
	if got[0].Err != nil || !errors.Is(got[1].Err, ErrOffsetMetadataTooLarge) || got[2].Err != missing || got[3].Err != nil {
		t.Errorf("%v %v %v %v", got[0].Err, got[1].Err, got[2].Err, got[3].Err)
	}
	r.restart()
	for partition, want := range map[int32]int64{0: 10, 1: -1, 99: -1, 3: 13} {
		if got := r.fetch("readers", "orders", partition).Offset; got != want {
			t.Errorf("partition %d: %d, want %d", partition, got, want)
		}
	}
}

func TestACommitOfNothingLeavesNoGroup(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	c := r.commit("readers", "orders", 1)
	c.Topics[0].Partitions[0].Err = errors.New("no such partition")
	r.ask(c)
	if n := r.counts().Groups; n != 0 || len(r.log) != 0 {
		t.Errorf("%d groups and %d records", n, len(r.log))
	}
}

// A null list of topics is all of them (OffsetFetch 2), in order.
func TestAllOffsetsOfAGroupComeInOrder(t *testing.T) {
	r := newOffsetsRig(t, "b", "a", "c")
	for _, topic := range []string{"c", "a", "b"} {
		c := r.commit("readers", topic, 5)
		c.Topics[0].Partitions = []OffsetCommitPartition{{Partition: 2, Offset: 2}, {Partition: 0, Offset: 0}, {Partition: 1, Offset: 1}}
		r.must(c)
	}
	r.must(r.commit("others", "a", 1))
	var got []string
	for _, topic := range r.ask(&OffsetFetchGroup{GroupID: "readers", All: true}).(*OffsetsFetched).Topics {
		for _, p := range topic.Partitions {
			got = append(got, fmt.Sprintf("%s-%d=%d", topic.Topic, p.Partition, p.Offset))
		}
	}
	if want := "a-0=0 a-1=1 a-2=2 b-0=0 b-1=1 b-2=2 c-0=0 c-1=1 c-2=2"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

// KIP-496. Nothing committed is no error; a group that does not exist is one.
func TestDeletedOffsetsAreGone(t *testing.T) {
	r := newOffsetsRig(t, "orders", "payments")
	r.must(r.commit("readers", "orders", 1))
	r.must(r.commit("readers", "payments", 2))
	remove := func(group, topic string) *OffsetsDeleted {
		return r.ask(&OffsetDelete{GroupID: group, Topics: []OffsetDeleteTopic{{Topic: topic, Partitions: []OffsetDeletePartition{{Partition: 0}, {Partition: 1}}}}}).(*OffsetsDeleted)
	}
	if err := remove("nobody", "orders").Err; !errors.Is(err, ErrGroupNotFound) {
		t.Errorf("no group: %v", err)
	}
	for range 2 {
		answer := remove("readers", "orders")
		if answer.Err != nil || answer.Topics[0].Partitions[0].Err != nil || answer.Topics[0].Partitions[1].Err != nil {
			t.Errorf("%+v", answer)
		}
	}
	r.wants("readers", "orders", -1)
	r.wants("readers", "payments", 2)
	remove("readers", "payments")
	if n := r.counts().Groups; n != 0 {
		t.Errorf("a group without anything stays")
	}
}

// offsets.retention.minutes counts from the commit for simple consumers (KIP-211); operators are warned at
// 80 % of it.
func TestOffsetsOfSimpleConsumersExpireAndAreAnnounced(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	r.must(r.commit("readers", "orders", 1))
	r.pass(7*day*8/10 - hour)
	if len(r.events) != 0 {
		t.Fatalf("too early: %v", r.events)
	}
	r.pass(hour + 10*minute)
	if len(r.events) != 1 || !strings.Contains(r.events[0], "readers") || !strings.Contains(r.events[0], "offsets.retention.minutes") {
		t.Fatalf("at 80 %%: %v", r.events)
	}
	r.pass(7*day*2/10 - hour)
	r.wants("readers", "orders", 1)
	r.pass(2 * hour)
	r.wants("readers", "orders", -1)
	if c := r.counts(); c != (Counts{}) {
		t.Errorf("left over: %+v", c)
	}
	if last := r.log[len(r.log)-1]; last.Value != nil {
		t.Errorf("no tombstone is left")
	}
}

func TestACommitStartsTheRetentionAnew(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	r.must(r.commit("readers", "orders", 1))
	for range 4 {
		r.pass(5 * day)
		r.must(r.commit("readers", "orders", 2))
	}
	r.pass(5 * day)
	r.wants("readers", "orders", 2)
	if len(r.events) != 0 {
		t.Errorf("a group that commits is announced to expire: %v", r.events)
	}
}

// OffsetCommit 2 to 4 carries a retention time of the client's own, which wins over the broker's (KIP-211).
func TestAClientsOwnRetentionWins(t *testing.T) {
	r := newOffsetsRig(t, "orders", "payments")
	long := r.commit("readers", "orders", 1)
	long.RetentionMillis = 30 * day
	r.must(long)
	short := r.commit("readers", "payments", 2)
	short.RetentionMillis = hour
	r.must(short)
	r.pass(2 * hour)
	r.wants("readers", "payments", -1)
	r.pass(20 * day)
	r.wants("readers", "orders", 1)
	r.pass(10 * day)
	r.wants("readers", "orders", -1)
}

// Many offsets that expire together go in pieces, so that commits of other groups do not wait for
// a batch of megabytes.
func TestExpiryGoesInPieces(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	for n := range 5000 {
		r.must(r.commit(fmt.Sprint("group-", n), "orders", 1))
	}
	r.now += 8 * day
	largest := 0
	for r.counts().Offsets > 0 {
		r.now = max(r.now, r.machine.NextMillis())
		var effects coord.Effects
		r.machine.Tick(r.now, &effects)
		largest = max(largest, len(effects.Records))
		r.take(&effects)
	}
	if largest > 2*tombstonesPerStepMax {
		t.Errorf("one step removes %d offsets", largest)
	}
	r.restart()
	if c := r.counts(); c != (Counts{}) {
		t.Errorf("after a restart: %+v", c)
	}
}

// Each record of a commit repeats the group's id: a small request must not become gigabytes.
func TestACommitThatWouldBeTooLargeIsRefused(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	c := r.commit(strings.Repeat("g", 30_000), "orders", 1)
	c.Topics[0].Partitions = make([]OffsetCommitPartition, 1000)
	if err := r.committed(c); !errors.Is(err, ErrCommitTooLarge) || len(r.log) != 0 {
		t.Errorf("%v, %d records", err, len(r.log))
	}
}

// Records are Kafka's own, byte for byte, so that tools which read the topic there read it here.
func TestRecordsHaveKafkasFormat(t *testing.T) {
	r := newOffsetsRig(t, "orders")
	r.must(r.commit("readers", "orders", 42))
	record := r.log[0]
	var key kmsg.OffsetCommitKey
	var value kmsg.OffsetCommitValue
	if err := errors.Join(key.ReadFrom(record.Key), value.ReadFrom(record.Value)); err != nil {
		t.Fatal(err)
	}
	if key != (kmsg.OffsetCommitKey{Version: 1, Group: "readers", Topic: "orders", Partition: 0}) {
		t.Errorf("key %+v", key)
	}
	if value.Version != 4 || value.Offset != 42 || value.LeaderEpoch != 3 || value.Metadata != "note" || value.CommitTimestamp != r.now || value.TopicID != [16]byte{1} {
		t.Errorf("value %+v", value)
	}
	if record.TimestampMillis != r.now {
		t.Errorf("timestamp %d", record.TimestampMillis)
	}
	const wantKey = "0001 0007 72656164657273 0006 6f7264657273 00000000"
	if got := fmt.Sprintf("%x", record.Key); got != strings.ReplaceAll(wantKey, " ", "") {
		t.Errorf("key %s", got)
	}
}

// What Kafka itself has written, in all its versions, is read.
func TestEveryVersionOfACommittedOffsetIsRead(t *testing.T) {
	for version := int16(0); version <= 4; version++ {
		r := newOffsetsRig(t, "orders")
		key := kmsg.OffsetCommitKey{Version: min(version, 1), Group: "readers", Topic: "orders"}
		value := kmsg.OffsetCommitValue{Version: version, Offset: 42, LeaderEpoch: 7, Metadata: "m", CommitTimestamp: r.now, ExpireTimestamp: r.now + hour, TopicID: [16]byte{1}}
		r.log = []coord.Record{{Key: key.AppendTo(nil), Value: value.AppendTo(nil)}}
		r.restart()
		got := r.fetch("readers", "orders", 0)
		wantEpoch := int32(-1)
		if version >= 3 {
			wantEpoch = 7
		}
		if got.Offset != 42 || got.LeaderEpoch != wantEpoch || got.Metadata != "m" {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestARecordThatCannotBeReadStopsLoading(t *testing.T) {
	image := imageOf(t)
	key := offsetKey("readers", "orders", 0)
	for name, record := range map[string]coord.Record{
		"no key":          {},
		"half a key":      {Key: key[:5]},
		"half a value":    {Key: key, Value: []byte{0, 3, 0, 0}},
		"a later version": {Key: key, Value: []byte{0, 9}},
	} {
		if err := New(&Config{}, image).Replay(record); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A kind of record that is not known is another matter: a later Kafka wrote it.
	if err := New(&Config{}, image).Replay(coord.Record{Key: []byte{0x7f, 0, 1}}); err != nil {
		t.Errorf("an unknown kind: %v", err)
	}
}

// The property behind all of it: whatever was answered, a machine that replays the log knows exactly what the
// living one does. Seeds 0 to 49 of random commits, deletions, expiry, topics that go and come.
func TestReplayComesToTheSameState(t *testing.T) {
	for seed := range uint64(50) {
		r := newOffsetsRig(t, "t0", "t1", "t2")
		random := rand.New(rand.NewPCG(seed, 2))
		nextID := byte(100)
		for range 200 {
			group, topic := fmt.Sprint("g", random.IntN(4)), fmt.Sprint("t", random.IntN(3))
			switch random.IntN(10) {
			case 0:
				r.ask(&OffsetDelete{GroupID: group, Topics: []OffsetDeleteTopic{{Topic: topic, Partitions: []OffsetDeletePartition{{Partition: int32(random.IntN(4))}}}}})
			case 1:
				r.pass(random.Int64N(3 * day))
			case 2:
				if _, ok := r.image.Topic(topic); ok && random.IntN(3) == 0 {
					deleted := r.deleteTopic(topic)
					r.notify(&ImageChanged{Image: r.image, Deleted: []DeletedTopic{deleted}})
				} else if !ok {
					r.createTopic(topic, nextID)
					nextID++
					r.notify(&ImageChanged{Image: r.image})
				}
			default:
				c := r.commit(group, topic, random.Int64N(1000))
				c.Topics[0].Partitions[0].Partition = int32(random.IntN(4))
				r.ask(c)
			}
		}
		before := r.dump()
		r.restart()
		if after := r.dump(); !slices.Equal(before, after) {
			t.Fatalf("seed %d:\nliving   %v\nreplayed %v", seed, before, after)
		}
	}
}

// dump lists all offsets of all groups.
func (r *offsetsRig) dump() (lines []string) {
	for _, g := range r.machine.order {
		for _, topic := range g.offsets.topics {
			for _, at := range topic.partitions {
				lines = append(lines, fmt.Sprintf("%s %s-%d %x %+v", g.id, topic.topic, at.partition, topic.id[:2], at))
			}
		}
	}
	c := r.counts()
	return append(lines, fmt.Sprintf("%d groups %d offsets", c.Groups, c.Offsets))
}
