package frontendtest

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"ringlog/frontend"
)

// shortTimeout is a timeout that a story waits for.
const shortTimeout = 100 * time.Millisecond

func dialRaw(address net.Addr) (*net.TCPConn, error) {
	socket, err := net.Dial("tcp", address.String())
	if err != nil {
		return nil, err
	}
	return socket.(*net.TCPConn), socket.SetDeadline(time.Now().Add(patience))
}

// Security item 1: the claim is checked before anything is allocated for it.
func oversizeClaim(t *testing.T, start Start) {
	s := newScene(t, start, 64<<20, nil)
	for _, claim := range []uint32{frameBytesMax + 1, 1 << 31, 1<<32 - 1} {
		c := DialSilently(t, s.server.Addr())
		c.Send(binary.BigEndian.AppendUint32(nil, claim))
		c.ExpectEnd()
		c.Close()
	}
	await(t, "the sessions are closed", func() bool { return len(s.protocol.Reasons()) == 3 })
	for _, reason := range s.protocol.Reasons() {
		if !errors.Is(reason, frontend.ErrFrameTooLarge) {
			t.Errorf("reason is %v, not %v", reason, frontend.ErrFrameTooLarge)
		}
	}
}

// Security item 1: the claimed size is never allocated for bytes that did not come.
func claimWithoutBytes(t *testing.T, start Start) {
	const connections = 20
	s := newScene(t, start, 256<<20, nil)
	beginning := AppendRequest(nil, Echo, 1, make([]byte, frameBytesMax-requestHeaderBytes))[:100]
	for range connections {
		DialSilently(t, s.server.Addr()).Send(beginning)
	}
	await(t, "every claim was seen", func() bool { return s.protocol.framesClaimed.Load() == connections })
	c := s.dial(7) // the server goes on, and by now has nothing better to do than to allocate
	c.Send(AppendRequest(nil, Echo, 1, []byte("still here")))
	c.Expect(1, []byte("still here"))
	if held := s.pool.InUseBytes(); held > (connections+1)*128<<10 {
		t.Errorf("%d connections that sent 100 bytes each hold %d bytes, more than 128 KiB each", connections, held)
	}
}

func halfFrame(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, func(c *Config) { c.FrameTimeout = shortTimeout })
	whole := AppendRequest(nil, Echo, 5, pattern(3000, 5))
	for _, cut := range []int{1, 3, 4, 20, 2999} {
		c := s.dial(uint64(cut))
		c.Send(whole[:cut])
		c.ExpectEnd()
	}
	await(t, "the memory is back", func() bool { return s.pool.InUseBytes() == 0 })
}

// The peer is not to blame for time that the server did not read in: its second
// frame came in two pieces and waits, whole, for the first to be answered.
func stalledConnection(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, func(c *Config) {
		c.FrameTimeout, c.InFlightRequestsMax = shortTimeout, 1
	})
	c := s.dial(1)
	second := AppendRequest(nil, Echo, 2, []byte("second"))
	c.Send(append(AppendRequest(nil, Hold, 1, []byte("first")), second[:5]...))
	await(t, "the first request is held", func() bool { return s.protocol.Held() == 1 })
	c.Send(second[5:])
	for range 3 { // connections that do get closed tell how the time passes
		clock := DialSilently(t, s.server.Addr())
		clock.Send(second[:5])
		clock.ExpectEnd()
	}
	s.protocol.ReleaseHeld(1)
	c.Expect(1, []byte("first"))
	c.Expect(2, []byte("second"))
}

func quietConnections(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	for token := range uint64(50) {
		c := s.dial(token + 1)
		c.Send(AppendRequest(nil, Echo, 1, pattern(int(token)*1000, token)))
		c.Expect(1, pattern(int(token)*1000, token))
	}
	await(t, "no memory is held for 50 open connections", func() bool { return s.pool.InUseBytes() == 0 })
}

func idleConnection(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, func(c *Config) { c.IdleTimeout = shortTimeout })
	waiting := s.dial(1)
	waiting.Send(AppendRequest(nil, Hold, 1, []byte("long poll")))
	await(t, "the request is held", func() bool { return s.protocol.Held() == 1 })
	idle := s.dial(2)
	idle.ExpectEnd()
	never := DialSilently(t, s.server.Addr())
	never.ExpectEnd()
	s.protocol.ReleaseHeld(1)
	waiting.Expect(1, []byte("long poll"))
}

// Security item 6: output to a slow reader is capped in time, then it is closed.
func slowReader(t *testing.T, start Start) {
	// Long, since it counts for the quick reader too: on a busy machine the goroutine that
	// writes to it may be kept from a processor, with its peer not to blame.
	s := newScene(t, start, 64<<20, func(c *Config) { c.WriteTimeout = 10 * shortTimeout })
	slow := s.dial(1)
	if err := slow.Socket.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	var requests []byte
	for id := range uint64(16) {
		requests = AppendRequest(requests, Large, id, binary.BigEndian.AppendUint32(nil, 4<<20))
	}
	slow.Send(requests)
	quick := s.dial(2)
	closed := func() bool { return s.protocol.sessionsClosed.Load() == 1 }
	for id := uint64(0); !closed(); id++ {
		quick.Send(AppendRequest(nil, Echo, id, []byte("beside")))
		quick.Expect(id, []byte("beside"))
	}
	quick.Send(AppendRequest(nil, Echo, 1, []byte("after")))
	quick.Expect(1, []byte("after"))
}

// Rule: when the pool is spent, reading stops; it goes on when memory is released.
func spentPool(t *testing.T, start Start) {
	const poolBytes = 4 << 20
	s := newScene(t, start, poolBytes, func(c *Config) { c.InFlightBytesPerConnectionMax = poolBytes * 2 })
	payload := pattern(200<<10, 1)
	const requests = 60 // three times what the pool holds
	var clients sync.WaitGroup
	// Both say hello before either spends the pool: nobody would answer the second.
	for _, c := range []*Client{s.dial(1), s.dial(2)} {
		clients.Go(func() {
			for id := range uint64(requests / 2) {
				if _, err := c.Socket.Write(AppendRequest(nil, Hold, id, payload)); err != nil {
					t.Errorf("send: %v", err)
					return
				}
			}
		})
		clients.Go(func() {
			for id := range uint64(requests / 2) {
				if err := c.Receive(id, payload); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for released := 0; released < requests; {
		// As much is held as fits: a block of 256 KiB each.
		await(t, "a request is held", func() bool { return s.protocol.Held() > 0 })
		held := s.protocol.Held()
		if held > poolBytes/(256<<10) {
			t.Errorf("%d requests of 256 KiB are held in a pool of %d bytes", held, poolBytes)
		}
		s.protocol.ReleaseHeld(1)
		released++
	}
	clients.Wait()
}

// Security item 1: peers that announce large frames, send their beginnings and stop
// fill what large frames may fill. Small requests are served all the same, and a
// large one when its turn comes. No timeout is short enough to help anybody here.
func unfinishedLargeFrames(t *testing.T, start Start) {
	const (
		poolBytes = 16 << 20
		senders   = 200 // of which each would fill 128 KiB at once: 25 MiB
	)
	s := newScene(t, start, poolBytes, func(c *Config) {
		c.FrameBytesMax, c.FrameTimeout, c.MemoryTimeout = poolBytes/2, time.Hour, time.Hour
	})
	beginning := AppendRequest(nil, Echo, 1, make([]byte, 6<<20))[:100<<10]
	stuck := make([]*Client, senders)
	for i := range stuck {
		stuck[i] = DialSilently(t, s.server.Addr())
		stuck[i].Send(beginning)
	}
	await(t, "every claim was seen", func() bool { return s.protocol.framesClaimed.Load() == senders })
	for token := range uint64(20) {
		small := s.dial(token + 1)
		for id, size := range []int{10, 5000, 32<<10 - requestHeaderBytes} {
			small.Send(AppendRequest(nil, Echo, uint64(id), pattern(size, token)))
			small.Expect(uint64(id), pattern(size, token))
		}
	}
	if held := s.pool.InUseBytes(); held < poolBytes/2 {
		t.Fatalf("the large frames hold %d bytes of %d: they are no burden", held, poolBytes)
	}

	large, payload := s.dial(1000), pattern(3<<20, 1)
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := large.Socket.Write(AppendRequest(nil, Echo, 1, payload)); err != nil {
			t.Errorf("send: %v", err)
		}
	})
	defer sending.Wait()
	for _, c := range stuck {
		c.Close()
	}
	large.Expect(1, payload)
}

func requestBudget(t *testing.T, start Start) {
	const limit = 8
	s := newScene(t, start, 16<<20, func(c *Config) { c.InFlightRequestsMax = limit })
	c := s.dial(1)
	var requests []byte
	for id := range uint64(100) {
		requests = AppendRequest(requests, Hold, id, []byte("held"))
	}
	c.Send(requests)
	for id := range uint64(100) {
		await(t, "as many requests are held as may be", func() bool {
			return s.protocol.Held() == min(limit, int(100-id))
		})
		s.protocol.ReleaseHeld(1)
		c.Expect(id, []byte("held"))
	}
	if most := s.protocol.pendingMax.Load(); most >= limit {
		t.Errorf("a request was received while %d were pending, the limit is %d", most, limit)
	}
}

func byteBudget(t *testing.T, start Start) {
	const limit = 64 << 10
	s := newScene(t, start, 16<<20, func(c *Config) { c.InFlightBytesPerConnectionMax = limit })
	c := s.dial(1)
	payload := pattern(10_000, 1) // six fit
	var requests []byte
	for id := range uint64(30) {
		requests = AppendRequest(requests, Hold, id, payload)
	}
	large := pattern(3*limit, 2) // alone it may pass
	requests = AppendRequest(requests, Echo, 30, large)
	requests = AppendRequest(requests, Echo, 31, payload)
	c.Send(requests)
	for id := range uint64(30) {
		await(t, "a request is held", func() bool { return s.protocol.Held() > 0 })
		if held := s.protocol.Held(); held*len(payload) > limit {
			t.Errorf("%d bytes are in flight, the limit is %d", held*len(payload), limit)
		}
		s.protocol.ReleaseHeld(1)
		c.Expect(id, payload)
	}
	c.Expect(30, large)
	c.Expect(31, payload)
}
