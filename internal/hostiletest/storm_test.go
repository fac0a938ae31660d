package hostiletest

import (
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	framesFlag   = flag.Int("frames", 20_000, "how many malformed frames are sent")
	halfOpenFlag = flag.Int("half-open", 10_000, "how many connections are opened and left")
	seedFlag     = flag.Uint64("seed", 1, "seed of the mutations")
)

// raceShare is the part of a storm that a build with the race detector gets.
const raceShare = 5

// createVictim makes the topic that requests name.
func createVictim(t *testing.T, address string) author {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	created, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 1, nil, victim)
	if err != nil {
		t.Fatal(err)
	}
	return author{topicID: created.ID, batch: plainBatch("a record")}
}

// TestStorm: 20,000 spoiled requests of every API and version, and 10,000 connections that begin and do not
// go on, beside a healthy producer and consumer. Afterwards the broker is alive and within its memory, and
// the healthy clients have every record once. Scenarios 51 to 53 of docs/reliability.md.
func TestStorm(t *testing.T) {
	frames, halfOpen := *framesFlag, *halfOpenFlag
	if raceDetector {
		frames, halfOpen = frames/raceShare, halfOpen/raceShare
	}
	b := startTarget(t, "max.connections=12000", "max.connections.per.ip=2000")
	storm := &storm{t: t, address: b.Address, author: createVictim(t, b.Address), apis: served(t, b.Address)}
	h := startHealthy(t, b.Address, "before")
	h.awaitRecords("before", 300)
	b.forgetPeak()

	h.enter("opening")
	left := storm.openHalf(halfOpen)
	await(t, "the half-open connections are there", func() bool { return int(b.Metric("ringlog_network_connections")) >= halfOpen*9/10 })
	h.enter("half-open")
	h.awaitRecords("half-open", 300)
	h.enter("during")
	began := time.Now()
	storm.send(frames)
	t.Logf("%d spoiled frames in %v: %d connections were ended by the broker, %d requests were answered, %d left to wait",
		frames, time.Since(began).Round(time.Millisecond), storm.ended.Load(), storm.answered.Load(), storm.waited.Load())
	h.awaitRecords("during", 50)
	h.enter("after")
	open := int(b.Metric("ringlog_network_connections"))
	for _, socket := range left {
		_ = socket.Close()
	}
	h.finish()
	h.report("before", "opening", "half-open", "during")
	b.expectAlive()
	b.expectFramesBack()
	await(t, "the half-open connections are gone", func() bool { return b.Metric("ringlog_network_connections") < 100 })
	if open < halfOpen*9/10 {
		t.Errorf("%d connections were open at the end of the storm: the half-open ones were no burden", open)
	}
	malformed := b.Metric(`ringlog_kafka_sessions_closed_total{cause="malformed"}`) + b.Metric(`ringlog_kafka_sessions_closed_total{cause="unsupported"}`)
	if malformed < float64(frames)/4 {
		t.Errorf("the broker counts %v malformed requests of %d: the storm was none", malformed, frames)
	}
}

// storm is an attack with spoiled requests.
type storm struct {
	t       *testing.T
	address string
	author  author
	apis    []kmsg.ApiVersionsResponseApiKey

	ended, answered, waited atomic.Int64
}

// openHalf opens connections from a few addresses and leaves them: silent, in the middle of a length, of a
// header, of a body.
func (s *storm) openHalf(count int) []net.Conn {
	s.t.Helper()
	whole := frameOf(s.author.request(int16(kmsg.Produce), 9), 1)
	cuts := []int{0, 2, 9, len(whole) / 2}
	const perAddress = 1000
	sockets := make([]net.Conn, count)
	var opening sync.WaitGroup
	const openers = 4
	for opener := range openers {
		opening.Go(func() {
			for i := opener; i < count; i += openers {
				socket, err := dial(s.address, byte(2+i/perAddress))
				if err != nil {
					s.t.Errorf("half-open connection %d: %v", i, err)
					return
				}
				sockets[i] = socket
				if _, err := socket.Write(whole[:cuts[i%len(cuts)]]); err != nil {
					s.t.Errorf("half-open connection %d: %v", i, err)
				}
			}
		})
	}
	opening.Wait()
	return slices.DeleteFunc(sockets, func(socket net.Conn) bool { return socket == nil })
}

// send sends spoiled frames by a few clients at a time.
func (s *storm) send(frames int) {
	const clients = 8
	var sending sync.WaitGroup
	for client := range clients {
		random := rand.New(rand.NewPCG(*seedFlag, uint64(client)))
		sending.Go(func() {
			attacker := &attacker{storm: s, random: random, source: byte(100 + client)}
			defer attacker.hangUp()
			for range frames / clients {
				if !attacker.attack() {
					return
				}
			}
		})
	}
	sending.Wait()
}

// attacker is one client that keeps its connection for as long as the broker does.
type attacker struct {
	storm  *storm
	random *rand.Rand
	source byte
	socket *net.TCPConn
	probes int32
}

// attack sends one spoiled frame, with a sound request behind it, and reads until that is answered or the
// broker hangs up.
func (a *attacker) attack() bool {
	s := a.storm
	if a.socket == nil {
		socket, err := dial(s.address, a.source)
		if err != nil {
			s.t.Errorf("an attacker cannot connect: %v", err)
			return false
		}
		a.socket = socket
	}
	api := s.apis[a.random.IntN(len(s.apis))]
	version := api.MinVersion + int16(a.random.IntN(int(api.MaxVersion-api.MinVersion)+1))
	mutation := &mutations[a.random.IntN(len(mutations))]
	frame := mutation.spoil(a.random, frameOf(s.author.request(api.ApiKey, version), 1))
	if mutation.hangs {
		// What the broker waits for does not come.
		_, _ = a.socket.Write(frame) // fails when the broker has hung up
		s.waited.Add(1)
		a.hangUp()
		return true
	}
	a.probes++
	probe := frameOf(at(0, kmsg.NewPtrApiVersionsRequest()), -a.probes)
	if _, err := a.socket.Write(append(frame, probe...)); err != nil {
		s.ended.Add(1)
		a.hangUp()
		return true
	}
	a.readUntil(-a.probes)
	return true
}

// answerPatience is how long an attacker waits for an answer: a spoiled request may ask the broker to wait.
const answerPatience = 300 * time.Millisecond

// readUntil reads replies until the one to the probe, or the end.
func (a *attacker) readUntil(probe int32) {
	if err := a.socket.SetReadDeadline(time.Now().Add(answerPatience)); err != nil {
		a.hangUp()
		return
	}
	for {
		reply, err := receive(a.socket)
		switch {
		case ended(err) || err == io.EOF:
			a.storm.ended.Add(1)
			a.hangUp()
			return
		case err != nil:
			a.storm.waited.Add(1)
			a.hangUp()
			return
		case len(reply) >= 4 && int32(binary.BigEndian.Uint32(reply)) == probe:
			a.storm.answered.Add(1)
			return
		}
	}
}

func (a *attacker) hangUp() {
	if a.socket != nil {
		_ = a.socket.Close()
		a.socket = nil
	}
}
