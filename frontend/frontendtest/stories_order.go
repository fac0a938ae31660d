package frontendtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// exchange is a list of requests and the replies that are due, made from a seed.
type exchange struct {
	requests [][]byte
	ids      []uint64 // of the requests that are answered, in order
	payloads [][]byte
}

func newExchange(seed uint64, count, payloadBytesMax int, operations ...Operation) *exchange {
	random := rand.New(rand.NewPCG(seed, 2))
	e := new(exchange)
	for i := range count {
		id := seed<<32 + uint64(i)
		payload := pattern(random.IntN(payloadBytesMax+1), id)
		operation := operations[random.IntN(len(operations))]
		e.requests = append(e.requests, AppendRequest(nil, operation, id, payload))
		if operation != Silent {
			e.ids = append(e.ids, id)
			e.payloads = append(e.payloads, payload)
		}
	}
	return e
}

// pipeline sends the requests with at most depth unanswered and checks each reply.
func (e *exchange) pipeline(c *Client, depth int) error {
	window := make(chan struct{}, depth)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	var sendErr error
	sending.Go(func() {
		for _, request := range e.requests {
			if Operation(request[prefixBytes]) != Silent {
				select {
				case window <- struct{}{}:
				case <-stop:
					return
				}
			}
			if _, err := c.Socket.Write(request); err != nil {
				sendErr = err
				return
			}
		}
	})
	var err error
	for i, id := range e.ids {
		if err = c.Receive(id, e.payloads[i]); err != nil {
			break
		}
		<-window
	}
	close(stop)
	if err != nil {
		c.Close() // so that the sender ends too
	}
	sending.Wait()
	return errors.Join(err, sendErr)
}

// Scenario 53: 64 requests in flight, correlation ids checked; four connections
// at once, whose replies must not cross.
func orderUnderRandomCompletion(t *testing.T, start Start) {
	s := newScene(t, start, 64<<20, nil)
	var clients sync.WaitGroup
	for token := range uint64(4) {
		c := s.dial(token + 1)
		clients.Go(func() {
			e := newExchange(token+1, 400, 3000, Echo, Later, Later, AtTurn, AtTurnInline, Silent)
			if err := e.pipeline(c, 64); err != nil {
				t.Errorf("connection %d: %v", token+1, err)
			}
		})
	}
	clients.Wait()
}

// frontend.Conn.Turn: onTurn is called when every earlier place has been
// written. The session checks it against Pending; here the first place is held.
func lateBinding(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	for round := range uint64(50) {
		id := 10 * round
		var requests []byte
		requests = AppendRequest(requests, Hold, id+2, []byte("held"))
		requests = AppendRequest(requests, AtTurn, id+3, []byte("bound late"))
		requests = AppendRequest(requests, AtTurnInline, id+4, []byte("bound late, at once"))
		requests = AppendRequest(requests, Echo, id+5, []byte("behind"))
		c.Send(requests)
		await(t, "the request is held", func() bool { return s.protocol.Held() == 1 })
		s.protocol.ReleaseHeld(1)
		c.Expect(id+2, []byte("held"))
		c.Expect(id+3, []byte("bound late"))
		c.Expect(id+4, []byte("bound late, at once"))
		c.Expect(id+5, []byte("behind"))
	}
}

func silentRequests(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	e := newExchange(2, 1000, 500, Silent, Silent, Silent, Echo)
	if err := e.pipeline(c, 16); err != nil {
		t.Fatal(err)
	}
	if e.ids[len(e.ids)-1] == 0 {
		t.Fatal("nothing was answered")
	}
}

func anyCut(t *testing.T, start Start) {
	s := newScene(t, start, 64<<20, nil)
	for seed := range uint64(12) {
		c := s.dial(seed + 1)
		// Sizes around every boundary of a carrier's blocks: powers of two, a prefix more or less.
		random := rand.New(rand.NewPCG(seed, 3))
		e := newExchange(seed+100, 20, 200, Echo, Later, Silent)
		for i := range 24 {
			size := 1<<(6+random.IntN(13)) + random.IntN(17) - 8 - requestHeaderBytes
			id := seed<<32 + 1000 + uint64(i)
			payload := pattern(max(size, 0), id)
			e.requests = append(e.requests, AppendRequest(nil, Echo, id, payload))
			e.ids, e.payloads = append(e.ids, id), append(e.payloads, payload)
		}
		var stream []byte
		for _, request := range e.requests {
			stream = append(stream, request...)
		}
		var sending sync.WaitGroup
		sending.Go(func() {
			for len(stream) > 0 {
				piece := min(len(stream), 1+random.IntN(1<<(1+random.IntN(18))))
				if _, err := c.Socket.Write(stream[:piece]); err != nil {
					t.Errorf("send: %v", err)
					return
				}
				stream = stream[piece:]
			}
		})
		for i, id := range e.ids {
			if err := c.Receive(id, e.payloads[i]); err != nil {
				t.Error(err)
				c.Close()
				break
			}
		}
		sending.Wait()
		c.Close()
	}
}

func byteByByte(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	for id := range uint64(20) {
		payload := pattern(int(id)*3, id)
		for _, b := range AppendRequest(nil, Echo, id, payload) {
			c.Send([]byte{b})
		}
		c.Expect(id, payload)
	}
}

func largeFrames(t *testing.T, start Start) {
	s := newScene(t, start, 256<<20, nil)
	c := s.dial(1)
	for round := range uint64(2) {
		e := new(exchange)
		for i, size := range []int{1 << 20, 33 << 10, 3<<20 + 1, 10, 128<<10 - requestHeaderBytes, 9 << 20, 64 << 10, 64 << 10, 1<<20 - requestHeaderBytes} {
			id := round<<32 + uint64(i)
			payload := pattern(size, id)
			e.requests = append(e.requests, AppendRequest(nil, Later, id, payload))
			e.ids, e.payloads = append(e.ids, id), append(e.payloads, payload)
		}
		if err := e.pipeline(c, 3); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for id := range uint64(3) {
		c.Send(AppendRequest(nil, Large, id, binary.BigEndian.AppendUint32(nil, 5<<20)))
		c.Expect(id, pattern(5<<20, id))
	}
}

// Scenario 53, close and reopen storms: descriptors and memory are reused at
// once while completions of the dead connections are still on their way.
func closingStorm(t *testing.T, start Start) {
	s := newScene(t, start, 128<<20, nil)
	steady := s.dial(1 << 40)
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for round := uint64(1); ; round++ {
			select {
			case <-done:
				return
			default:
			}
			if err := newExchange(round<<20, 64, 2000, Echo, Later, AtTurn).pipeline(steady, 64); err != nil {
				t.Errorf("the steady connection: %v", err)
				return
			}
		}
	})
	var storm sync.WaitGroup
	for worker := range uint64(4) {
		storm.Go(func() {
			if err := stormOfConnections(s, worker); err != nil {
				t.Error(err)
			}
		})
	}
	storm.Wait()
	close(done)
	running.Wait()
}

// stormOfConnections opens connections, sends 64 requests on each, reads some replies and hangs up.
func stormOfConnections(s *scene, worker uint64) error {
	random := rand.New(rand.NewPCG(worker, 4))
	for i := range uint64(40) {
		token := worker<<16 + i + 1
		socket, err := dialRaw(s.server.Addr())
		if err != nil {
			return err
		}
		c := &Client{t: s.t, Socket: socket, token: token}
		e := newExchange(token, 64, 4000, Echo, Later, AtTurn, AtTurnInline, Silent)
		stream := AppendRequest(nil, Hello, token, binary.BigEndian.AppendUint64(nil, token))
		for _, request := range e.requests {
			stream = append(stream, request...)
		}
		cut := len(stream)
		if random.IntN(2) == 0 {
			cut = random.IntN(len(stream)) // hang up within a frame
		}
		if _, err := socket.Write(stream[:cut]); err != nil {
			return fmt.Errorf("connection %#x: send: %w", token, err)
		}
		if cut == len(stream) {
			if err := c.Receive(token, binary.BigEndian.AppendUint64(nil, token)); err != nil {
				return err
			}
			for j := range random.IntN(len(e.ids)) {
				if err := c.Receive(e.ids[j], e.payloads[j]); err != nil {
					return err
				}
			}
		}
		if random.IntN(2) == 0 {
			if err := socket.SetLinger(0); err != nil { // a reset, not a good-bye
				return err
			}
		}
		c.Close()
	}
	return nil
}
