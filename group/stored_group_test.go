package group

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
	"ringlog/meta"
)

// The record of a classic group, field by field, as Kafka's tools read it.
func TestTheRecordOfAClassicGroupIsKafkas(t *testing.T) {
	m := New(&Config{MembersMax: 10}, meta.NewImage())
	g := m.makeGroup("billing")
	g.classic = newClassicGroup(m, g, 0x0102030405)
	member := g.classic.newMember("c-1", "host-7")
	member.take(&Join{ClientID: "c", ClientHost: "/127.0.0.1", SessionTimeoutMillis: 45_000, RebalanceTimeoutMillis: 300_000, Protocols: []Protocol{{Name: "range", Metadata: []byte("who")}}})
	member.assignment = []byte("what")
	g.classic.insert(member)
	g.classic.protocolType, g.classic.protocol, g.classic.generation = "consumer", "range", 7
	var effects coord.Effects
	if !g.classic.store(call{nowMillis: 99, effects: &effects}) {
		t.Fatal("it is too large")
	}
	record := effects.Records[0]
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"key", record.Key, `
			0002                     version 2: the metadata of a group
			0007 62696c6c696e67      group
		`},
		{"value", record.Value, `
			0003                     version
			0008 636f6e73756d6572    protocol type
			00000007                 generation
			0005 72616e6765          protocol
			0003 632d31              leader
			0000000102030405         in this state since
			00000001                 members
			0003 632d31              member id
			0006 686f73742d37        instance id
			0001 63                  client id
			000a 2f3132372e302e302e31 host
			000493e0                 rebalance timeout, ms
			0000afc8                 session timeout, ms
			00000003 77686f          subscription
			00000004 77686174        assignment
		`},
	} {
		var want strings.Builder
		for line := range strings.Lines(c.want) {
			for _, field := range strings.Fields(line) {
				if _, err := hex.DecodeString(field); err != nil {
					break // from here on it is words
				}
				want.WriteString(field)
			}
		}
		if got := hex.EncodeToString(c.got); got != want.String() {
			t.Errorf("%s\n got %s\nwant %s", c.what, got, want.String())
		}
	}
}

// Older versions of the layout, and the flexible one, are read; fields that they lack have Kafka's defaults.
func TestEveryVersionOfAGroupsRecordIsRead(t *testing.T) {
	for version := int16(0); version <= valueGroupMetadataMax; version++ {
		protocol, leader, instance := "range", "b", "host-7"
		value := kmsg.GroupMetadataValue{Version: version, ProtocolType: "consumer", Generation: 7, Protocol: &protocol, Leader: &leader, CurrentStateTimestamp: 5}
		for _, id := range []string{"a", "b"} {
			value.Members = append(value.Members, kmsg.GroupMetadataValueMember{MemberID: id, ClientID: "c", SessionTimeoutMillis: 45_000, RebalanceTimeoutMillis: 300_000,
				Subscription: []byte("who"), Assignment: []byte(id)})
		}
		value.Members[1].InstanceID = &instance
		m := New(&Config{}, meta.NewImage())
		if err := m.Replay(coord.Record{Key: groupMetadataKey("g"), Value: value.AppendTo(nil)}); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		g := m.group("g").classic
		rebalance, staticID := int32(300_000), "host-7"
		if version == 0 {
			rebalance = 45_000
		}
		if version < 3 {
			staticID = ""
		}
		if g.state != StateStable || g.generation != 7 || g.leaderID() != "b" || g.protocol != "range" || len(g.members) != 2 {
			t.Errorf("version %d: %s", version, storyGroup(m))
		}
		if one := g.members[1]; one.rebalanceTimeoutMillis != rebalance || one.instanceID != staticID || string(one.assignment) != "b" || string(one.metadata("range")) != "who" {
			t.Errorf("version %d: member %+v", version, one)
		}
	}
}

// A record that cannot be read stops the loading: to go on would be to forget a group.
func TestAGroupsRecordThatCannotBeReadIsAnError(t *testing.T) {
	value := kmsg.GroupMetadataValue{Version: valueGroupMetadata, ProtocolType: "consumer"}
	whole := value.AppendTo(nil)
	value.Version = valueGroupMetadataMax + 1
	for what, record := range map[string]coord.Record{
		"a key cut short":   {Key: groupMetadataKey("g")[:4], Value: whole},
		"a value cut short": {Key: groupMetadataKey("g"), Value: whole[:5]},
		"no value":          {Key: groupMetadataKey("g"), Value: []byte{}},
		"a later version":   {Key: groupMetadataKey("g"), Value: value.AppendTo(nil)},
	} {
		m := New(&Config{}, meta.NewImage())
		if err := m.Replay(record); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A group that is too large for a record is not stored, and its members hear of it as in Kafka.
func TestAGroupThatIsTooLargeIsNotStored(t *testing.T) {
	s := &story{t: t}
	s.begin(nil)
	large := strings.Repeat("x", groupMetadataBytesMax)
	s.join(storyList{"": {"a"}, "v": {"3"}, "protocols": {"range:" + large}})
	s.do("pass 3000")
	s.out.Reset()
	s.do("sync a assign=(a:p0)")
	if got := s.out.String(); !strings.Contains(got, "a syncs: UNKNOWN_SERVER_ERROR") || strings.Contains(got, "record:") {
		t.Errorf("%.300s", got)
	}
	if g := s.machine.group("g").classic; g.state != StatePreparingRebalance || g.history.running().Cause != CauseGroupNotStored {
		t.Errorf("%s, because of %s", g.state, g.history.running().Cause)
	}
}

// Members that say more of themselves than a group has room for are refused; those who are in it stay, and may
// join again with the same.
func TestMembersThatSayTooMuchAreRefused(t *testing.T) {
	s := &story{t: t}
	s.begin(nil)
	quarter := strings.Repeat("x", memberMetadataBytesMax/4)
	for _, name := range []string{"a", "b", "c"} {
		s.join(storyList{"": {name}, "v": {"3"}, "protocols": {"range:" + quarter}})
	}
	s.do("pass 12000")
	s.out.Reset()
	s.join(storyList{"": {"d"}, "v": {"3"}, "protocols": {"range:" + quarter}})
	if got := s.out.String(); !strings.Contains(got, "d joins: GROUP_MAX_SIZE_REACHED") {
		t.Errorf("%.300s", got)
	}
	s.out.Reset()
	s.join(storyList{"": {"b"}, "protocols": {"range:" + quarter}})
	if got := s.out.String(); !strings.Contains(got, "b joins: b-2, generation 1") {
		t.Errorf("%.300s", got)
	}
	s.do("leave a b c")
	if g := s.machine.group("g").classic; g.metadataBytes != 0 || g.state != StateEmpty {
		t.Errorf("%s, %d bytes are still counted", g.state, g.metadataBytes)
	}
}

// What every client's metadata begins with is enough to know the topics; what is not of that form is not known.
func TestTopicsAreReadFromEveryVersionOfTheConsumerProtocol(t *testing.T) {
	for version := int16(0); version <= 3; version++ {
		subscription := kmsg.ConsumerMemberMetadata{Version: version, Topics: []string{"orders", "bills"}, UserData: []byte("user"), Generation: 3}
		whole := subscription.AppendTo(nil)
		topics := map[string]bool{}
		if !addSubscribedTopics(topics, whole) || len(topics) != 2 || !topics["orders"] || !topics["bills"] {
			t.Errorf("version %d: %v", version, topics)
		}
		for size := range 2 + 4 + 2 + 6 + 2 + 5 {
			if addSubscribedTopics(map[string]bool{}, whole[:size]) {
				t.Errorf("version %d cut to %d bytes is read", version, size)
			}
		}
	}
}
