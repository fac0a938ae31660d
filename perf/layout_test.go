package perf

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/record"
)

// The pieces of a template are the frame that kmsg encodes, for every version.
func TestTemplateIsTheRequest(t *testing.T) {
	load := NewLoad()
	batch, records, err := buildBatch(&load, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := record.Batch(batch).RecordCount(); int(got) != records || len(batch) > load.BatchBytes || len(batch) < load.BatchBytes*9/10 {
		t.Errorf("a batch of %d bytes with %d records, said to be %d", len(batch), got, records)
	}
	for version := int16(produceVersionMin); version <= produceVersionMax; version++ {
		template := newProduceTemplate(version, "topic", 77, -1, batch)
		frame := bytes.Join([][]byte{template.header[:], template.before, template.batch, template.after}, nil)
		if got := int(binary.BigEndian.Uint32(frame)) + 4; got != len(frame) || template.bytes != len(frame) {
			t.Errorf("version %d: %d bytes that say %d and %d", version, len(frame), got, template.bytes)
		}
		request := kmsg.NewPtrProduceRequest()
		request.SetVersion(version)
		body := frame[correlationOffset+4+2+len(clientID):]
		if request.IsFlexible() {
			body = body[1:]
		}
		if err := request.ReadFrom(body); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		p := request.Topics[0].Partitions[0]
		if request.Acks != -1 || request.Topics[0].Topic != "topic" || p.Partition != 77 || !bytes.Equal(p.Records, batch) {
			t.Errorf("version %d: decoded to something else", version)
		}
	}
}

// Positions in the reply were found by comparing encodings; decoding in full agrees.
func TestReplyPositions(t *testing.T) {
	for version := int16(produceVersionMin); version <= produceVersionMax; version++ {
		reply := newProduceReply(version, "topic", 3)
		frame := bytes.Clone(reply.frame)
		binary.BigEndian.PutUint16(frame[reply.errorCode:], 19)
		quick, ok := reply.check(frame)
		full, err := reply.decode(frame)
		if !ok || err != nil || quick != 19 || full != 19 {
			t.Errorf("version %d: error code %d (%v) at a glance, %d in full, %v", version, quick, ok, full, err)
		}
		if _, ok := reply.check(append(frame, 0)); ok {
			t.Errorf("version %d: a reply of another length was taken for the expected one", version)
		}
	}
}

// What the bare server finds in a frame is what the generator put there, and
// the generator takes its reply for the expected one.
func TestBareServerAndGeneratorAgree(t *testing.T) {
	layout := newBareLayout(1, 5)
	load := NewLoad()
	for _, size := range []int{200, 20_000, 3 << 20} {
		load.BatchBytes = size
		batch, _, err := buildBatch(&load, 1)
		if err != nil {
			t.Fatal(err)
		}
		template := newProduceTemplate(bareVersion, bareTopic, 4, 1, batch)
		frame := bytes.Join([][]byte{template.header[:], template.before, template.batch, template.after}, nil)
		binary.BigEndian.PutUint32(frame[correlationOffset:], 0xABCD)
		correlation, partition, found, err := layout.parse(frame)
		if err != nil || correlation != 0xABCD || partition != 4 || !bytes.Equal(found, batch) {
			t.Fatalf("batch of %d bytes: correlation %#x, partition %d, %d bytes, %v", size, correlation, partition, len(found), err)
		}
		reply := layout.appendReply(nil, correlation, partition, 12345)
		if code, ok := template.reply.check(reply); !ok || code != 0 {
			t.Errorf("the reply has error code %d, %v", code, ok)
		}
		for name, damage := range map[string]func([]byte) []byte{
			"cut":               func(f []byte) []byte { return f[:len(f)/2] },
			"another partition": func(f []byte) []byte { f[layout.partition] = 1; return f },
			"another request":   func(f []byte) []byte { f[5] ^= 1; return f },
			"another length":    func(f []byte) []byte { f[layout.records] ^= 1; return f },
		} {
			if _, _, _, err := layout.parse(damage(bytes.Clone(frame))); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// Matching replies to requests costs the generator no allocation.
func TestMatchDoesNotAllocate(t *testing.T) {
	load := NewLoad()
	template := newProduceTemplate(9, "topic", 0, -1, make([]byte, 1000))
	p := &producer{depth: load.Depth, slots: make([]slot, load.Depth), writerWake: make(chan struct{}, 1), latency: NewHistogram(), lastReply: time.Now()}
	var replies []byte
	for range load.Depth {
		replies = append(replies, template.reply.frame...)
	}
	size := len(template.reply.frame)
	allocations := testing.AllocsPerRun(100, func() {
		for i := range load.Depth {
			sequence := p.sent.Load()
			p.slots[sequence%int64(load.Depth)].template = template
			binary.BigEndian.PutUint32(replies[i*size+4:], uint32(sequence))
			p.sent.Add(1)
		}
		if used, err := p.match(replies); err != nil || used != len(replies) {
			t.Fatalf("used %d of %d bytes, %v", used, len(replies), err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations for %d replies", allocations, load.Depth)
	}
}

func TestMatchRefusesWhatIsNotDue(t *testing.T) {
	template := newProduceTemplate(9, "topic", 0, -1, make([]byte, 1000))
	fresh := func() *producer {
		p := &producer{depth: 2, slots: make([]slot, 2), writerWake: make(chan struct{}, 1), latency: NewHistogram(), errors: map[string]int64{}}
		p.slots[0].template = template
		return p
	}
	p := fresh()
	if _, err := p.match(template.reply.frame); err == nil {
		t.Error("a reply to nothing was taken")
	}
	p = fresh()
	p.sent.Store(1)
	other := bytes.Clone(template.reply.frame)
	other[7] = 9
	if _, err := p.match(other); err == nil {
		t.Error("a reply with another correlation id was taken")
	}
	if used, err := p.match(template.reply.frame[:20]); used != 0 || err != nil {
		t.Errorf("half a reply: used %d, %v", used, err)
	}
}

func TestBudgetIsSpentExactly(t *testing.T) {
	b := &budget{counted: true}
	b.remaining.Store(10)
	now := time.Now()
	got := []int{b.take(4, now), b.take(4, now), b.take(4, now), b.take(4, now)}
	if got[0] != 4 || got[1] != 4 || got[2] != 2 || got[3] != 0 {
		t.Errorf("took %v of 10", got)
	}
	b = &budget{deadline: now}
	if got := b.take(1, now); got != 0 {
		t.Errorf("took %d at the deadline", got)
	}
}

// What was due and could not be sent in time is counted and told.
func TestUnsentRequestsAreTold(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	now := time.Now()
	p := &producer{
		socket: ours, depth: 1, slots: make([]slot, 1), writerWake: make(chan struct{}, 1), latency: NewHistogram(), records: 1,
		templates: []*produceTemplate{newProduceTemplate(9, "topic", 0, -1, make([]byte, 1000))}, budget: &budget{deadline: now},
		pace: newPace(now.Add(-time.Second), 100*time.Millisecond, 1, 2, time.Second),
	}
	if err := p.write(t.Context()); err != nil || p.unsent != 10 {
		t.Errorf("%d of 10 requests are called unsent, %v", p.unsent, err)
	}
	var report Report
	gather(&report, []*producer{p}, now)
	if report.UnsentRequests != 10 || len(report.Notes) != 1 {
		t.Errorf("%+v", report)
	}
}

func TestProcParsers(t *testing.T) {
	process := "17 (a name) with) S 1 17 17 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 1 0 1 2 3"
	if got := parseProcessStat(process); got != [2]time.Duration{2500 * time.Millisecond, 750 * time.Millisecond} {
		t.Errorf("process: %v", got)
	}
	machine := "cpu  100 20 30 4000 500 6 7 800 0 0\ncpu0 1 1 1 1\n"
	if got := parseMachineStat(machine); got != 1630*time.Millisecond {
		t.Errorf("machine: %v", got)
	}
	for _, broken := range []string{"", "17 (x", "cpu x y z 1 2 3 4 5"} {
		if parseProcessStat(broken) != [2]time.Duration{} || parseMachineStat(broken) != 0 {
			t.Errorf("%q means something", broken)
		}
	}
}

// A stamped batch is whole: its checksum follows the stamp without being computed
// again, and who reads it learns when it was due.
func TestStampsKeepTheChecksum(t *testing.T) {
	for _, size := range []int{stampBytes, 100, 70_000} {
		load := NewLoad()
		load.RecordBytes, load.Stamp = size, true
		if err := load.Validate(); err != nil {
			t.Fatal(err)
		}
		built, _, err := buildBatch(&load, 1)
		if err != nil {
			t.Fatal(err)
		}
		stamps, space := newStamper(built), make([]byte, stampEndMax)
		for _, at := range []time.Time{time.UnixMicro(0), time.UnixMicro(1), time.Now(), time.UnixMicro(1<<62 + 12345)} {
			prefix := stamps.stamp(space, at)
			batch := record.Batch(append(bytes.Clone(prefix), built[len(prefix):]...))
			if err := batch.Check(); err != nil {
				t.Errorf("records of %d bytes: %v", size, err)
			}
			if got, ok := stampOf(batch); !ok || got.UnixMicro() != at.UnixMicro() {
				t.Errorf("stamped with %v, read %v, %v", at, got, ok)
			}
		}
	}
	load := NewLoad()
	plain, _, err := buildBatch(&load, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range [][]byte{plain, plain[:record.HeaderBytes]} {
		if at, ok := stampOf(other); ok {
			t.Errorf("a batch without a stamp was due at %v", at)
		}
	}
	load.Stamp, load.RecordBytes = true, stampBytes-1
	if load.Validate() == nil {
		t.Error("a stamp was to go into a record that is too short")
	}
}
