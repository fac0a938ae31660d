package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samples has one of each command, with every field set.
func samples() []Command {
	rack := "rack-1"
	return []Command{
		FormatCluster{ClusterID: "cluster"},
		StartBroker{ID: 1, DirectoryID: [16]byte{1}, Host: "broker-1", Port: 9092, Rack: &rack, LogsEpochMax: -1},
		CreateTopics{Topics: []NewTopic{
			{Name: "orders", ID: TopicID{2}, LogIDs: []LogID{{3}, {4}}, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "5", "flush.messages": "9"}},
			{Name: "__offsets", ID: TopicID{5}, LogIDs: []LogID{{6}}, Replicas: [][]int32{{1, 2}}, Internal: true},
		}},
		DeleteTopics{IDs: []TopicID{{2}, {5}}},
		RemoveTombstones{Broker: 1, LogIDs: []LogID{{3}}},
		AllocateProducerIDs{Broker: 1, BrokerEpoch: 77},
		AlterConfigs{Resources: []ConfigAlteration{
			{Scope: ConfigOfTopic, Topic: TopicID{2}, Broker: 0, Replace: true, Changes: []ConfigChange{{Name: "retention.ms", Op: ConfigSet, Value: "6"}}},
			{Scope: ConfigOfBroker, Broker: EveryBroker, Changes: []ConfigChange{{Name: "log.cleanup.policy", Op: ConfigAppend, Value: "delete", Base: "delete"}}},
		}},
		CreatePartitions{Topics: []MorePartitions{{Topic: TopicID{2}, Count: 4, LogIDs: []LogID{{7}, {8}}, Replicas: [][]int32{{1}, {2}}}}},
		AlterConfigs{Resources: []ConfigAlteration{
			{Scope: ConfigOfGroup, Group: "billing", Changes: []ConfigChange{{Name: "consumer.session.timeout.ms", Op: ConfigSet, Value: "50000"}}},
		}},
	}
}

func sampleImage(t testing.TB) *Image {
	c := newCluster(t, 1, 2)
	for _, command := range samples()[1:3] {
		c.must(command)
	}
	c.must(DeleteTopics{IDs: []TopicID{{5}}})
	c.must(samples()[6])
	return c.image
}

func TestCommandsSurviveTheirEncoding(t *testing.T) {
	for _, command := range samples() {
		decoded, err := DecodeCommand(AppendCommand([]byte("before")[:0], command))
		if err != nil {
			t.Errorf("%T: %v", command, err)
		}
		if difference := cmp.Diff(command, decoded); difference != "" {
			t.Errorf("%T: %s", command, difference)
		}
	}
}

// The stored form, byte by byte: a change here is a new format version.
func TestTheStoredFormIsPinned(t *testing.T) {
	rows := []struct{ bytes, meaning string }{
		{"524d", "magic RM"},
		{"01", "format version"},
		{"02", "kind: StartBroker"},
		{"41e19986", "CRC-32C"},
		{"02", "broker id 1, zigzag"},
		{"01000000000000000000000000000000", "directory id"},
		{"08" + hex.EncodeToString([]byte("broker-1")), "host"},
		{"888e01", "port 9092"},
		{"01" + "06" + hex.EncodeToString([]byte("rack-1")), "rack is there"},
		{"01", "highest epoch in the logs: -1"},
	}
	var want strings.Builder
	for _, row := range rows {
		want.WriteString(row.bytes)
	}
	got := hex.EncodeToString(AppendCommand(nil, samples()[1]))
	if got != want.String() {
		t.Errorf("StartBroker is stored as\n%s, want\n%s", got, want.String())
	}
}

func TestAnyFlippedBitAndAnyCutIsFound(t *testing.T) {
	frames := map[string][]byte{"command": AppendCommand(nil, samples()[2]), "snapshot": AppendImage(nil, sampleImage(t))}
	for what, frame := range frames {
		decode := func(data []byte) error {
			if what == "snapshot" {
				_, err := DecodeImage(data)
				return err
			}
			_, err := DecodeCommand(data)
			return err
		}
		if err := decode(frame); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for bit := range len(frame) * 8 {
			damaged := bytes.Clone(frame)
			damaged[bit/8] ^= 1 << (bit % 8)
			var corruption *CorruptionError
			if err := decode(damaged); !errors.As(err, &corruption) || corruption.What != what {
				t.Fatalf("%s with bit %d flipped: %v", what, bit, err)
			}
		}
		for length := range frame {
			if err := decode(frame[:length]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s cut to %d bytes: %v", what, length, err)
			}
		}
		if err := decode(append(bytes.Clone(frame), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with a byte more: %v", what, err)
		}
	}
}

// reseal gives a frame that was changed a sum that matches.
func reseal(frame []byte) []byte {
	if len(frame) >= frameHeader {
		binary.LittleEndian.PutUint32(frame[4:], frameSum(frame))
	}
	return frame
}

func TestANewerVersionIsRefusedWithAdvice(t *testing.T) {
	frame := AppendCommand(nil, samples()[0])
	frame[2] = frameVersion + 1
	_, err := DecodeCommand(reseal(frame))
	if !errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "upgrade this broker") {
		t.Errorf("got %v", err)
	}
	frame = AppendImage(nil, sampleImage(t))
	frame[2] = frameVersion + 1
	if _, err := DecodeImage(reseal(frame)); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("a snapshot: got %v", err)
	}
	if _, err := DecodeImage(AppendCommand(nil, samples()[0])); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a command taken for a snapshot: %v", err)
	}
	frame[2] = 0
	if _, err := DecodeImage(reseal(frame)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("version 0: got %v", err)
	}
}

// A few bytes must not make the decoder allocate much (the trap that gives 8
// bytes 3.6 GiB).
func TestCountsAreBoundByWhatFollows(t *testing.T) {
	body := binary.AppendUvarint(nil, 1<<40)
	for _, kind := range []commandKind{kindCreateTopics, kindDeleteTopics, kindRemoveTombstones, kindAlterConfigs, kindCreatePartitions} {
		frame := beginFrame(nil, frameVersionOf(byte(kind)), byte(kind))
		if kind == kindRemoveTombstones {
			frame = append(frame, 2)
		}
		if _, err := DecodeCommand(endFrame(append(frame, body...), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

// Whatever decodes, encodes to what decodes to the same.
func FuzzDecodeCommand(f *testing.F) {
	for _, command := range samples() {
		f.Add(AppendCommand(nil, command))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		command, err := DecodeCommand(reseal(bytes.Clone(data)))
		if err != nil {
			return
		}
		again, err := DecodeCommand(AppendCommand(nil, command))
		if err != nil {
			t.Fatal(err)
		}
		if difference := cmp.Diff(command, again); difference != "" {
			t.Error(difference)
		}
		image, _, _, _ := Apply(sampleImage(t), 100, command)
		if _, err := DecodeImage(AppendImage(nil, image)); err != nil {
			t.Errorf("%+v leads to an image that cannot be restored: %v", command, err)
		}
	})
}

func FuzzDecodeImage(f *testing.F) {
	f.Add(AppendImage(nil, NewImage()))
	f.Add(AppendImage(nil, sampleImage(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		image, err := DecodeImage(reseal(bytes.Clone(data)))
		if err != nil {
			return
		}
		first := AppendImage(nil, image)
		again, err := DecodeImage(first)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, AppendImage(nil, again)) {
			t.Error("an image changes on its way through a snapshot")
		}
	})
}
