package hostiletest

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStories tells one kind of attack after the other to one broker, beside one healthy
// producer and consumer.
func TestStories(t *testing.T) {
	b := startTarget(t, "max.connections=4000", "max.connections.per.ip=2000")
	createVictim(t, b.Address)
	h := startHealthy(t, b.Address, "before")
	h.awaitRecords("before", 100)
	phases := []string{"before"}
	for _, story := range []struct {
		name string
		tell func(*testing.T, target)
	}{
		{"byte by byte", slowWriters},
		{"never reading", slowReaders},
		{"pipelines", pipelines},
		{"bombs", bombs},
		{"claims", claims},
		{"names", names},
		{"complaints", complaints},
	} {
		t.Run(story.name, func(t *testing.T) {
			b := target{b.Broker, t}
			b.forgetPeak()
			h.enter(story.name)
			phases = append(phases, story.name)
			story.tell(t, b)
			h.awaitRecords(story.name, 10)
			b.expectAlive()
		})
	}
	h.finish()
	h.report(phases...)
	b.expectFramesBack()
}

// slowWriters: requests of a megabyte that come a byte at a time. A connection has no more memory than what it
// has sent is worth, and those who send whole requests are served.
func slowWriters(t *testing.T, b target) {
	const writers, each = 300, 40
	large := frameOf(produce(newBatch(0, 1, newRecord(0, make([]byte, 1<<20)))), 1)
	var sockets []*net.TCPConn
	for i := range writers {
		sockets = append(sockets, mustDial(t, b.Address, byte(10+i%50)))
	}
	for n := range each {
		for _, socket := range sockets {
			send(t, socket, large[n:n+1])
		}
	}
	if in := b.Metric(`ringlog_memory_in_use_bytes{pool="frames"}`); in > (writers+50)*128<<10 {
		t.Errorf("%d connections that sent %d bytes each hold %v bytes", writers, each, in)
	}
	ask[*kmsg.MetadataResponse](t, mustDial(t, b.Address, 1), at(9, kmsg.NewPtrMetadataRequest()))
}

// slowReaders: everybody asks for megabytes, again and again, and reads nothing. A reply holds memory
// only while it is written (docs/architecture.md).
func slowReaders(t *testing.T, b target) {
	writer := mustDial(t, b.Address, 1)
	for range 16 {
		request := produce(newBatch(0, 1, newRecord(0, make([]byte, 900<<10))))
		if got := ask[*kmsg.ProduceResponse](t, writer, request).Topics[0].Partitions[0].ErrorCode; got != 0 {
			t.Fatalf("a produce fails with %v", kerr.ErrorForCode(got))
		}
	}
	requests := bytes.Repeat(frameOf(fetch(0, 0, 1, 16<<20), 1), 20)
	readers := 100
	if raceDetector {
		readers /= raceShare
	}
	for i := range readers {
		send(t, mustDial(t, b.Address, byte(10+i%50)), requests)
	}
	ask[*kmsg.MetadataResponse](t, mustDial(t, b.Address, 1), at(9, kmsg.NewPtrMetadataRequest()))
}

// pipelines: hundreds of requests at once, behind one that waits, of the kind that becomes a
// hundred times as large when it is decoded: each element has a field that nobody knows.
func pipelines(t *testing.T, b target) {
	const elements, clients, requests = 20_000, 20, 20
	head := frameOf(fetch(1<<40, 0, 1, 1), 1) // answered at once; those after it wait for the next
	waits := frameOf(fetch(0, 20_000, 1<<30, 50<<20), 2)
	body := binary.AppendUvarint(nil, elements+1)
	for range elements {
		body = append(body, 1, 1, 5, 0) // a topic without a name, one tagged field, number 5, of no bytes
	}
	body = append(body, 0, 0, 0, 0) // three booleans and no tagged fields
	bomb := frameOf(at(9, kmsg.NewPtrMetadataRequest()), 3)
	bomb = relength(append(bomb[:len(bomb)-5:len(bomb)-5], body...))
	var sockets []*net.TCPConn
	var sending sync.WaitGroup
	for i := range clients {
		socket := mustDial(t, b.Address, byte(10+i))
		sockets = append(sockets, socket)
		sending.Go(func() {
			_, _ = socket.Write(append(append(head[:len(head):len(head)], waits...), bytes.Repeat(bomb, requests)...)) // as far as it is read
		})
	}
	ask[*kmsg.MetadataResponse](t, mustDial(t, b.Address, 1), at(9, kmsg.NewPtrMetadataRequest()))
	for range 5 { // and those that need not wait
		impatient := mustDial(t, b.Address, 80)
		send(t, impatient, bomb)
		if _, err := receive(impatient); err != nil {
			t.Errorf("a large request with fields that nobody knows: %v", err)
		}
	}
	for _, socket := range sockets {
		_ = socket.Close()
	}
	sending.Wait()
}

// claims: what a frame says of its contents is believed only as far as there are bytes. A header,
// a count of two thousand million, and nothing.
func claims(t *testing.T, b target) {
	count := 0
	before, _, known := b.residentBytes()
	for _, api := range served(t, b.Address) {
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			for _, large := range largeCounts {
				frame := frameOf(author{}.request(api.ApiKey, version), 1)
				end := min(len(frame), headerBytes+len("hostile")+3)
				body := append(bytes.Repeat(large, 8), make([]byte, 40)...)
				socket, err := dial(b.Address, byte(10+count%50))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = socket.Write(relength(append(frame[:end:end], body...))) // may be refused at once
				_ = socket.Close()
				count++
			}
		}
	}
	now, _, _ := b.residentBytes()
	t.Logf("%d claims: %d MiB more are resident", count, (now-before)>>20)
	const allowanceBytes = heapAllowanceBytes / 2 // one of the claims may have made a topic of fifty partitions
	if known && !raceDetector && now-before > allowanceBytes {
		t.Errorf("%d claims have cost %d MiB", count, (now-before)>>20)
	}
}

// names: what looks like a path or a terminal's command is no name. None of it reaches a path or, as it is, the log.
func names(t *testing.T, b target) {
	socket := mustDial(t, b.Address, 1)
	hostile := []string{"../../evil", "/etc/evil", "..", ".", "evil\x00", "evil\nlevel=ERROR msg=forged", "\x1b[2Jevil", "evil/../x", "é-evil", "evil ", strings.Repeat("e", 250)}
	create := at(7, kmsg.NewPtrCreateTopicsRequest())
	create.TimeoutMillis = 5000
	for _, name := range hostile {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, topic)
	}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](t, socket, create).Topics {
		if topic.ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("creating %q is answered %v", topic.Topic, kerr.ErrorForCode(topic.ErrorCode))
		}
	}
	alter := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	for _, value := range hostile {
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, victim
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = "cleanup.policy", &value
		resource.Configs = append(resource.Configs, config)
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{resource}
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, socket, alter).Resources[0].ErrorCode; got != kerr.InvalidConfig.Code {
			t.Errorf("setting cleanup.policy to %q is answered %v", value, kerr.ErrorForCode(got))
		}
	}
	for i, id := range hostile { // a client id is anybody's, and what is refused is logged
		frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, at(9, kmsg.NewPtrMetadataRequest()), 1)
		frame[7] = 99 // a version that is not served
		rude := mustDial(t, b.Address, byte(20+i))
		send(t, rude, frame)
		if _, err := receive(rude); !ended(err) {
			t.Errorf("a version that is not served is answered: %v", err)
		}
	}
	checkLog(t, b.Log())
	err := filepath.WalkDir(b.DataDirectory, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), "evil") {
			t.Errorf("there is a file %q", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkLog fails the test unless every line of a log is one of the logger's, of printable characters.
func checkLog(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if raceDetector && strings.HasPrefix(line, "====") {
			return // the race detector has something to say, and ends the test for it
		}
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("a line of the log begins otherwise: %.200q", line)
		}
		if at := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("a line of the log has a control character: %.200q", line)
		}
	}
}

// complaints: thousands of refused requests and connections are a few lines in the log, which say how
// many they stand for.
func complaints(t *testing.T, b target) {
	const rude = 2000
	before, began := strings.Count(b.Log(), "\n"), time.Now()
	frame := frameOf(at(9, kmsg.NewPtrMetadataRequest()), 1)
	frame[7] = 99
	for i := range rude {
		socket, err := dial(b.Address, byte(10+i%100))
		if err != nil {
			t.Fatal(err)
		}
		send(t, socket, frame)
		if _, err := receive(socket); !ended(err) {
			t.Fatalf("a version that is not served is answered: %v", err)
		}
		_ = socket.Close()
	}
	const kinds = 4 // of lines that clients can provoke here, one a second each
	lines, most := strings.Count(b.Log(), "\n")-before, kinds*(int(time.Since(began)/time.Second)+2)
	if lines > most {
		t.Errorf("%d refused requests are %d lines in the log, more than %d", rude, lines, most)
	}
	t.Logf("%d refused requests are %d lines in the log", rude, lines)
}
