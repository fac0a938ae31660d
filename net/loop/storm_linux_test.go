package loop_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"ringlog/buffer"
	"ringlog/frontend/frontendtest"
	"ringlog/net/stream"
)

// Connections move to goroutines in the middle of pipelines, for every reason there is, while
// others come, go, and leave their descriptors to the next. Each request carries a number
// and each reply the number, its connection and a checksum: nothing is lost,
// doubled, reordered, or delivered to somebody else.
func TestMovingStorm(t *testing.T) {
	t.Run("wide budgets", func(t *testing.T) {
		m := movingStorm(t, stream.Options{})
		if moved, accepted := m.ConnectionsMoved.Load(), m.ConnectionsAccepted.Load(); moved < accepted/4 || moved == accepted {
			t.Errorf("%d of %d connections moved: not a storm", moved, accepted)
		}
	})
	t.Run("narrow budgets", func(t *testing.T) {
		m := movingStorm(t, stream.Options{InFlightRequestsMax: 16})
		if moved, accepted := m.ConnectionsMoved.Load(), m.ConnectionsAccepted.Load(); moved < accepted/4 {
			t.Errorf("%d of %d connections moved: not a storm", moved, accepted)
		}
	})
}

func movingStorm(t *testing.T, options stream.Options) *stream.Metrics {
	const workers, connections = 4, 12
	protocol := frontendtest.NewProtocol(t, 1<<20)
	options.Pool = buffer.NewPool(t.Name(), 32<<20)
	l := listen(t, protocol, options)
	var storm sync.WaitGroup
	for worker := range uint64(workers) {
		random := rand.NewChaCha8([32]byte{byte(worker)})
		for i := range uint64(connections) {
			// Dialled here, since Dial may end the test; told apart by their tokens.
			p := newPipeline(frontendtest.Dial(t, l.Addr(), worker<<16+i+1), random)
			storm.Go(func() {
				if err := p.run(); err != nil {
					t.Errorf("connection %d of worker %d: %v", i, worker, err)
				}
			})
		}
		if worker%2 == 1 {
			storm.Wait() // so that descriptors are free for the next
		}
	}
	storm.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	protocol.Verify(t, options.Pool)
	return l.Metrics()
}

// pipeline is the life of one connection, made in advance.
type pipeline struct {
	client   *frontendtest.Client
	requests [][]byte
	// replies are the numbers and payloads that are due, in order; giveUp is after how many
	// the client hangs up.
	replies []reply
	giveUp  int
	// rude clients reset their connection instead of closing it.
	rude bool
}

type reply struct {
	id      uint64
	payload []byte
}

func newPipeline(client *frontendtest.Client, source *rand.ChaCha8) *pipeline {
	random := rand.New(source)
	p := &pipeline{client: client, rude: random.IntN(2) == 0}
	small := []frontendtest.Operation{frontendtest.Echo, frontendtest.Later, frontendtest.Later, frontendtest.AtTurn, frontendtest.AtTurnInline, frontendtest.Silent}
	const count = 150
	heavyAt, kind := random.IntN(2*count), random.IntN(3) // half of them never
	for id := range uint64(count) {
		operation, payload := small[random.IntN(len(small))], make([]byte, random.IntN(2000))
		if int(id) == heavyAt {
			switch kind {
			case 0: // a frame that wants a block of its own
				operation, payload = frontendtest.Later, make([]byte, 40<<10+random.IntN(200<<10))
			case 1: // a reply that no socket takes whole
				operation, payload = frontendtest.AtTurn, make([]byte, 1<<20-20)
			case 2: // both, and nothing but the beginning arrives at first
				operation, payload = frontendtest.Echo, make([]byte, 700<<10)
			}
		}
		_, _ = source.Read(payload) // it never fails
		p.requests = append(p.requests, frontendtest.AppendRequest(nil, operation, id, payload))
		if operation != frontendtest.Silent {
			p.replies = append(p.replies, reply{id, payload})
		}
	}
	p.giveUp = len(p.replies)
	if random.IntN(4) == 0 {
		p.giveUp = random.IntN(len(p.replies))
	}
	return p
}

// run sends everything as fast as it goes, and reads as fast as it goes.
func (p *pipeline) run() error {
	var sending sync.WaitGroup
	sending.Go(func() {
		var burst []byte
		for i, request := range p.requests {
			// Bursts of up to 16 frames, ending anywhere within one.
			if burst = append(burst, request...); len(burst) > 1 && i%16 == int(binary.BigEndian.Uint32(request)%16) || i == len(p.requests)-1 {
				cut := len(burst) - len(request)/2
				for _, piece := range [][]byte{burst[:cut], burst[cut:]} {
					if _, err := p.client.Socket.Write(piece); err != nil {
						return // a client that has given up; else a reply will be missed
					}
				}
				burst = burst[:0]
			}
		}
	})
	var err error
	for _, reply := range p.replies[:p.giveUp] {
		if err = p.client.Receive(reply.id, reply.payload); err != nil {
			err = fmt.Errorf("of %d: %w", len(p.replies), err)
			break
		}
	}
	if p.rude && p.giveUp < len(p.replies) {
		_ = p.client.Socket.SetLinger(0)
	}
	p.client.Close()
	sending.Wait()
	return err
}

// The listener closes, or shuts down, in the middle of it all: everything ends, and all
// accounts balance.
func TestEndOfTheListenerInAStorm(t *testing.T) {
	for round := range uint64(6) {
		protocol := frontendtest.NewProtocol(t, 1<<20)
		pool := buffer.NewPool(t.Name(), 16<<20)
		l := listen(t, protocol, stream.Options{Pool: pool})
		random := rand.NewChaCha8([32]byte{byte(round), 1})
		var storm sync.WaitGroup
		for i := range uint64(16) {
			p := newPipeline(frontendtest.Dial(t, l.Addr(), i+1), random)
			storm.Go(func() { _ = p.run() }) // which may be cut off anywhere
		}
		requests := 16 * int64(random.Uint64()%150)
		frontendtest.Await(t, "the storm is under way", func() bool {
			m := l.Metrics()
			return m.Requests.Load() >= requests || m.ConnectionsOpen.Load() == 0
		})
		if round%2 == 0 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		} else if err := l.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		storm.Wait()
		protocol.Verify(t, pool)
	}
}
