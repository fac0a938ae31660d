package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCommittedOffsetsAreReadable: who looks into the topic of committed offsets sees groups, and not Kafka's bytes.
func TestCommittedOffsetsAreReadable(t *testing.T) {
	offset := kmsg.OffsetCommitKey{Version: 1, Group: "billing", Topic: "orders", Partition: 3}
	at := kmsg.OffsetCommitValue{Version: 3, Offset: 42, LeaderEpoch: 7, Metadata: "m", CommitTimestamp: 1_700_000_000_000}
	group := kmsg.GroupMetadataKey{Version: 2, Group: "billing"}
	protocol := "range"
	state := kmsg.GroupMetadataValue{Version: 3, ProtocolType: "consumer", Generation: 5, Protocol: &protocol}
	for _, c := range []struct {
		key, value []byte
		wanted     string
	}{
		{offset.AppendTo(nil), at.AppendTo(nil), `group "billing", topic "orders", partition 3: offset 42, leader epoch 7, metadata "m", committed 2023-11-14T22:13:20.000Z`},
		{offset.AppendTo(nil), nil, `group "billing", topic "orders", partition 3: the offset is gone`},
		{group.AppendTo(nil), state.AppendTo(nil), `group "billing": generation 5, 0 members, protocol "range" of type "consumer"`},
		{group.AppendTo(nil), nil, `group "billing": it is gone`},
		{[]byte{0, 3, 0}, nil, `of a group whose coordinator assigns (KIP-848), key version 3`},
		{[]byte{0}, nil, ""},
		{[]byte{0, 1, 9}, nil, ""},
	} {
		if got := groupRecord(c.key, c.value); got != c.wanted {
			t.Errorf("%q, want %q", got, c.wanted)
		}
	}
	if got := groupRecord(offset.AppendTo(nil), []byte{0}); !strings.Contains(got, "billing") {
		t.Errorf("a damaged value is said to be %q", got)
	}
}
