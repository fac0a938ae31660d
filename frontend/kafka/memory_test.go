package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/frontend"
)

// waits returns how many requests are in line.
func (m *memory) inLine() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.waiting)
}

// awaitLine waits until so many requests are in line.
func awaitLine(t *testing.T, m *memory, count int) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for began := time.Now(); m.inLine() != count; <-again.C {
		if time.Since(began) > patience {
			t.Fatalf("%d requests are in line, want %d", m.inLine(), count)
		}
	}
}

// Who asks for memory that is not there waits in line, a small one behind a large one; one that gives up
// lets the next go on; and what wants more than there is at all is given everything, alone.
func TestLargeRequestsWaitInLine(t *testing.T) {
	m := &memory{limit: 100}
	var first, second, third, last holding
	if err := m.take(t.Context(), &first, 70); err != nil {
		t.Fatal(err)
	}
	impatient, giveUp := context.WithCancel(t.Context())
	line := func(ctx context.Context, h *holding, bytes int64) <-chan error {
		done, before := make(chan error, 1), m.inLine()
		go func() { done <- m.take(ctx, h, bytes) }()
		awaitLine(t, m, before+1)
		return done
	}
	large, small := line(impatient, &second, 90), line(t.Context(), &third, 20)
	giveUp()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up: %v", err)
	}
	if err := <-small; err != nil || third.bytes != 20 {
		t.Errorf("the one behind it: %v, %d bytes", err, third.bytes)
	}
	whole := line(t.Context(), &last, 1000)
	m.give(&first)
	if m.inLine() != 1 {
		t.Error("all of the memory was granted while some was in use")
	}
	m.give(&third)
	if err := <-whole; err != nil || last.bytes != 100 {
		t.Errorf("the one that wants more than there is: %v, %d bytes", err, last.bytes)
	}
	m.give(&last)
	m.give(&second) // holds nothing
	if m.mu.used != 0 || m.mu.waits != 3 {
		t.Errorf("%d bytes are in use after all, %d requests have waited", m.mu.used, m.mu.waits)
	}
}

// While others wait, the connection goes whose answer has been unread for longest; one that is fresh
// has its second first, and nobody goes when nobody waits.
func TestAnUnreadAnswerMakesPlace(t *testing.T) {
	s := newScene(t, Options{})
	m := &memory{limit: 100}
	first, second := newClient(t, s.protocol), newClient(t, s.protocol)
	var older, newer holding
	m.answered(&older, first.session.(*session), 60)
	m.answered(&newer, second.session.(*session), 40)
	m.evict(older.since.Add(unreadMin - 1))
	if len(first.closed)+len(second.closed) > 0 {
		t.Fatal("a connection was closed before its time")
	}
	m.evict(older.since.Add(unreadMin))
	if reason := <-first.closed; !errors.Is(reason, errUnread) {
		t.Errorf("the first is closed by %v", reason)
	}
	if len(second.closed) > 0 {
		t.Error("the other one is closed too")
	}
	m.give(&older)
	m.evict(newer.since.Add(unreadMin))
	if reason := <-second.closed; !errors.Is(reason, errUnread) {
		t.Errorf("the second is closed by %v", reason)
	}
	m.give(&newer)
	m.evict(time.Now().Add(time.Hour)) // nothing is left
	if m.mu.used != 0 || m.mu.evicted != 2 {
		t.Errorf("%d bytes are in use, %d were evicted", m.mu.used, m.mu.evicted)
	}
}

// tagBomb is a Metadata of so many topics that take four bytes and each have a field that nobody knows: the
// worst that kmsg can be made to allocate for a byte.
func tagBomb(count int) []byte {
	body := binary.AppendUvarint(nil, uint64(count+1))
	for range count {
		body = append(body, 1, 1, 5, 0) // an empty name; one field, number 5, of no bytes
	}
	return header(int16(kmsg.Metadata), 9, append(body, 0, 0, 0, 0))
}

// A client sends large requests one behind the other, the first of which waits. They wait as bytes: the
// second is decoded when the first is answered, and so on. When the connection ends, all is given back.
func TestRequestsWaitUndecoded(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	parked := fetchRequest(12, "orders", [16]byte{}, 0)
	parked.MaxWaitMillis, parked.MinBytes = int32(time.Hour/time.Millisecond), 1
	s.send(parked)
	const requests, elements = 20, 50_000
	bomb := tagBomb(elements)
	if got := allocated(func() {
		for range requests {
			if err := s.receive(bomb); err != nil {
				t.Fatal(err)
			}
		}
	}); got > 1<<20 {
		t.Errorf("%d requests of %d bytes that wait allocate %d", requests, len(bomb), got)
	}
	small := s.frame(at(9, kmsg.NewPtrMetadataRequest()))
	for range 100 {
		if err := s.receive(small); err != nil {
			t.Fatal(err)
		}
	}
	// What is small waits as a copy, what is large in its frame.
	if in, want := s.pool.InUseBytes(), int64(requests*len(bomb)); in < want || in > 2*want {
		t.Errorf("%d bytes of frames are in use for requests of %d", in, want)
	}
	if copies := s.protocol.copies.Load(); copies == 0 || copies > int64(100*len(small)) {
		t.Errorf("%d bytes of copies for 100 requests of %d bytes", copies, len(small))
	}
	s.session.Closed(net.ErrClosed)
	if in, copies := s.pool.InUseBytes(), s.protocol.copies.Load(); in != 0 || copies != 0 {
		t.Errorf("after the end %d bytes of frames and %d of copies are in use", in, copies)
	}
	s.client = newClient(t, s.protocol) // for the scene's own end
}

// A request that waited and turns out to be malformed ends its connection when its turn comes: those
// before it are answered.
func TestAMalformedRequestThatWaitedEndsTheConnection(t *testing.T) {
	for name, frame := range map[string][]byte{
		"small": header(int16(kmsg.Metadata), 9, []byte{0xff, 0xff, 0xff, 0xff, 0x07}),
		"large": header(int16(kmsg.Metadata), 9, append([]byte{0xff, 0xff, 0xff, 0xff, 0x07}, make([]byte, 100_000)...)),
		"fetch": header(int16(kmsg.Fetch), 12, make([]byte, 10)),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Options{})
			release := make(chan struct{})
			row := *lookup(int16(kmsg.DescribeCluster))
			row.handle = func(context.Context, *call) kmsg.Response {
				<-release
				return at(1, kmsg.NewPtrDescribeClusterRequest()).ResponseKind()
			}
			s.session.(*session).start(&request{requestHeader: requestHeader{version: 1}, api: &row}, at(1, kmsg.NewPtrDescribeClusterRequest()), nil)
			if err := s.receive(frame); err != nil {
				t.Fatalf("it is refused before its turn: %v", err)
			}
			close(release)
			<-s.replies
			if reason := <-s.closed; !errors.Is(reason, frontend.ErrMalformed) {
				t.Errorf("the connection is closed by %v", reason)
			}
			if in := s.pool.InUseBytes(); in != 0 {
				t.Errorf("%d bytes of frames are in use", in)
			}
			if got := s.protocol.metrics.Malformed.Load(); got != 1 {
				t.Errorf("%d malformed requests are counted", got)
			}
		})
	}
}

// Reliability section 4, item 3: what kmsg makes of the bytes of a body is within the factor by which bodies are
// accounted, for every API and version, also when each element has fields that nobody knows.
func TestDecodingStaysInProportion(t *testing.T) {
	const bodyBytes = 20_000
	worst, worstOf := 0.0, ""
	for _, row := range registry {
		if row == nil || row.receive != nil {
			continue
		}
		for version := row.min; version <= row.max; version++ {
			for pattern, element := range map[string][]byte{
				"empty names": {1, 0}, "unknown fields": {1, 1, 5, 0}, "zeros": {0}, "ones": {1}, "null names": {0, 1, 5, 0},
				"names and numbers": {1, 0, 0, 0, 1, 1, 5, 0}, "ids": append(make([]byte, 16), 1, 1, 5, 0), "short names": {0, 0}, "nothing": {0xff, 0xff},
			} {
				count := bodyBytes / len(element)
				for _, body := range [][]byte{binary.AppendUvarint(nil, uint64(count+1)), binary.BigEndian.AppendUint32(nil, uint32(count))} {
					for range count {
						body = append(body, element...)
					}
					r := request{requestHeader: requestHeader{key: int16(row.key), version: version}, api: row, body: body}
					got := allocated(func() { _, _ = decodeBody(&r) }) // most are malformed somewhere
					if got > uint64(len(body))*decodedFactor {
						t.Errorf("%s version %d: %d bytes of %s become %d", row.key.Name(), version, len(body), pattern, got)
					}
					if factor := float64(got) / float64(len(body)); factor > worst {
						worst, worstOf = factor, row.key.Name()+", "+pattern
					}
				}
			}
		}
	}
	t.Logf("at worst a byte becomes %.0f: %s", worst, worstOf)
}

// What answers are expected to take is what they take: the estimate is by which they wait for memory.
func TestAnswersTakeWhatTheyWaitFor(t *testing.T) {
	s := newScene(t, Options{RequestMemoryBytes: 1 << 30})
	for _, name := range []string{"a", "b", "c"} {
		brokertest.CreateTopic(t, s.broker, name, 2000, nil)
	}
	names := []string{"a", "b", "c"}
	describe, create := at(4, kmsg.NewPtrDescribeConfigsRequest()), at(7, kmsg.NewPtrCreateTopicsRequest())
	describe.IncludeDocumentation, describe.IncludeSynonyms = true, true
	create.ValidateOnly = true
	some := at(12, kmsg.NewPtrMetadataRequest())
	for i := range names {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, names[i]
		describe.Resources = append(describe.Resources, resource)
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "new-"+names[i], 1, 1
		create.Topics = append(create.Topics, topic)
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &names[i]
		some.Topics = append(some.Topics, asked)
	}
	broker := kmsg.NewDescribeConfigsRequestResource()
	broker.ResourceType, broker.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	describe.Resources = append(describe.Resources, broker)
	list := at(1, kmsg.NewPtrListConfigResourcesRequest())
	for _, body := range []kmsg.Request{at(12, kmsg.NewPtrMetadataRequest()), some, describe, create, at(4, kmsg.NewPtrDescribeLogDirsRequest()), list} {
		row := lookup(body.Key())
		c := &call{session: s.session.(*session), api: row, version: body.GetVersion(), body: body}
		want, got := uint64(row.answerBytes(c)), uint64(1<<63)
		for range 3 { // others allocate beside it, now and then
			const runs = 4 // small objects are counted late
			got = min(got, allocated(func() {
				for range runs {
					row.handle(t.Context(), c).AppendTo(nil)
				}
			})/runs)
		}
		t.Logf("%T: %d bytes expected, %d allocated", body, want, got)
		if got > want+smallRequestBytes {
			t.Errorf("%T allocates %d bytes for its answer, expected are %d", body, got, want)
		}
	}
}
