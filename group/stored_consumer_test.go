package group

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"ringlog/coord"
	"ringlog/group/assign"
)

// storedMember has every field set.
func storedMember() *consumerMember {
	return &consumerMember{id: "m", stored: true,
		subscription: subscription{instance: "i", rack: "r", clientID: "c", clientHost: "/h", names: []string{"t"}, regex: "t.*", rebalanceTimeoutMillis: 258,
			assignor: "range", classic: &classicMembership{sessionTimeoutMillis: 3, protocols: []Protocol{{Name: "p", Metadata: []byte{9}}}}},
		position: position{epoch: 5, previous: 4, state: memberUnrevoked,
			assigned: assign.NewPartitions([]assign.TopicPartitions{{Topic: [16]byte{1}, Partitions: []int32{0, 7}}}),
			revoking: assign.NewPartitions([]assign.TopicPartitions{{Topic: [16]byte{2}, Partitions: []int32{1}}})},
		target: assign.NewPartitions([]assign.TopicPartitions{{Topic: [16]byte{1}, Partitions: []int32{0}}}),
	}
}

// The stored form, byte by byte, as Kafka's schemas have it.
func TestConsumerRecordsAreKafkas(t *testing.T) {
	member := storedMember()
	const topic1, topic2 = "01000000000000000000000000000000", "02000000000000000000000000000000"
	text := func(s string) string { return hex.EncodeToString([]byte(s)) }
	for _, row := range []struct {
		name       string
		record     coord.Record
		key, value []string
	}{
		{"ConsumerGroupMetadata", consumerMetadataRecord("g", 5, 6),
			[]string{"0003", "0001" + text("g")},
			[]string{"0000", "00000005", "01", "00" + "08" + "0000000000000006"}},
		{"ConsumerGroupMemberMetadata", consumerMemberRecord("g", member),
			[]string{"0005", "0001" + text("g"), "0001" + text("m")},
			[]string{"0000", "02" + text("i"), "02" + text("r"), "02" + text("c"), "03" + text("/h"), "02" + "02" + text("t"), "04" + text("t.*"), "00000102", "06" + text("range"),
				"01", "00" + "0c", "01" + "00000003" + "02" + "02" + text("p") + "02" + "09" + "00" + "00"}},
		{"ConsumerGroupTargetAssignmentMetadata", consumerTargetMetadataRecord("g", 5, 6),
			[]string{"0006", "0001" + text("g")},
			[]string{"0000", "00000005", "01", "00" + "08" + "0000000000000006"}},
		{"ConsumerGroupTargetAssignmentMember", consumerTargetRecord("g", member),
			[]string{"0007", "0001" + text("g"), "0001" + text("m")},
			[]string{"0000", "02", topic1, "02" + "00000000", "00", "00"}},
		{"ConsumerGroupCurrentMemberAssignment", consumerPositionRecord("g", member),
			[]string{"0008", "0001" + text("g"), "0001" + text("m")},
			[]string{"0000", "00000005", "00000004", "01", "02", topic1, "03" + "00000000" + "00000007", "00", "02", topic2, "02" + "00000001", "00", "00"}},
		{"ConsumerGroupRegularExpression", consumerRegexRecord("g", &topicRegex{text: "t.*", matches: []string{"t"}}, 7, 8),
			[]string{"0010", "0001" + text("g"), "0003" + text("t.*")},
			[]string{"0000", "02" + "02" + text("t"), "0000000000000007", "0000000000000008", "00"}},
	} {
		if got, want := hex.EncodeToString(row.record.Key), strings.Join(row.key, ""); got != want {
			t.Errorf("the key of %s is\n%s, want\n%s", row.name, got, want)
		}
		if got, want := hex.EncodeToString(row.record.Value), strings.Join(row.value, ""); got != want {
			t.Errorf("the value of %s is\n%s, want\n%s", row.name, got, want)
		}
	}
}

func TestConsumerRecordsAreReadBack(t *testing.T) {
	want := storedMember()
	m := New(testConfig(), newTestTopics().image)
	for _, record := range []coord.Record{consumerMetadataRecord("g", 5, 6), consumerMemberRecord("g", want), consumerTargetMetadataRecord("g", 5, 6),
		consumerTargetRecord("g", want), consumerPositionRecord("g", want), consumerRegexRecord("g", &topicRegex{text: "t.*", matches: []string{"t"}}, 7, 8)} {
		if err := m.Replay(record); err != nil {
			t.Fatal(err)
		}
	}
	g := m.group("g").consumer
	got := g.members["m"]
	switch {
	case g.epoch != 5 || g.metadataHash != 6 || g.assignmentEpoch != 5 || g.assignedMillis != 6:
		t.Errorf("the group is %+v", g)
	case !got.subscription.equal(&want.subscription):
		t.Errorf("the subscription is %+v, want %+v", got.subscription, want.subscription)
	case !got.position.equal(&want.position) || !got.target.Equal(want.target):
		t.Errorf("the position is %+v, want %+v", got.position, want.position)
	case g.instances["i"] != got || g.owner([16]byte{1}, 7) != got || g.owner([16]byte{2}, 1) != got || g.owner([16]byte{1}, 1) != nil:
		t.Error("the member holds its instance and its partitions")
	case !g.subscribes("t") || g.subscribes("u"):
		t.Error("the group subscribes to t")
	}
}

// What Kafka 4.3 adds is read over: fields behind ours, which are all tagged. What is damaged is no record.
func TestConsumerRecordsOfOthers(t *testing.T) {
	record := consumerTargetRecord("g", storedMember())
	tagged := record
	tagged.Value = append(bytes.Clone(record.Value[:len(record.Value)-2]), 1, 0, 1, 42, 1, 9, 0) // a tag of the topic, a tag of the whole
	m := New(testConfig(), newTestTopics().image)
	if err := m.Replay(tagged); err != nil {
		t.Fatal(err)
	}
	if got := m.group("g").consumer.members["m"].target; got.Count() != 1 {
		t.Errorf("the target is %s", got)
	}
	for length := range len(record.Value) - 1 {
		cut := coord.Record{Key: record.Key, Value: record.Value[:length]}
		if err := New(testConfig(), newTestTopics().image).Replay(cut); length > 0 && !errors.Is(err, ErrRecord) {
			t.Errorf("a value cut to %d bytes is read: %v", length, err)
		}
	}
	for _, damaged := range []coord.Record{
		{Key: record.Key[:4], Value: record.Value},
		{Key: record.Key, Value: append([]byte{0, 9}, record.Value[2:]...)},
		{Key: record.Key, Value: []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}},
	} {
		if err := m.Replay(damaged); !errors.Is(err, ErrRecord) {
			t.Errorf("%x: %v", damaged, err)
		}
	}
	if err := m.Replay(coord.Record{Key: consumerKey(keyConsumerPartitionMetadata, "g", ""), Value: []byte{1}}); err != nil {
		t.Errorf("what older brokers kept of topics: %v", err)
	}
}

// Whatever bytes a log has, they are read or refused.
func FuzzReplayConsumer(f *testing.F) {
	for _, record := range []coord.Record{consumerMemberRecord("g", storedMember()), consumerPositionRecord("g", storedMember()), consumerMetadataRecord("g", 1, 2)} {
		f.Add(record.Key, record.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m := New(testConfig(), newTestTopics().image)
		if version, ok := keyVersion(key); !ok || !isConsumerKey(version) {
			return
		}
		_ = m.Replay(coord.Record{Key: key, Value: value})
		var effects coord.Effects
		m.Loaded(0, &effects)
	})
}
