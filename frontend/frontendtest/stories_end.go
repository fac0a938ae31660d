package frontendtest

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"ringlog/frontend"
)

// frontend.Session.Receive: an error closes the connection after the replies in
// order before it were written.
func malformedFrame(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	var requests []byte
	for id := range uint64(40) {
		requests = AppendRequest(requests, Later, id, pattern(500, id))
	}
	requests = AppendRequest(requests, Hold, 40, []byte("last"))
	requests = AppendRequest(requests, Fail, 41, nil)
	requests = AppendRequest(requests, Echo, 42, []byte("too late"))
	c.Send(requests)
	for id := range uint64(40) {
		c.Expect(id, pattern(500, id))
	}
	await(t, "the request is held", func() bool { return s.protocol.Held() == 1 })
	s.protocol.ReleaseHeld(1)
	c.Expect(40, []byte("last"))
	c.ExpectEnd()
	c.Close()
	await(t, "the session is closed", func() bool { return len(s.protocol.Reasons()) == 1 })
	if reason := s.protocol.Reasons()[0]; !errors.Is(reason, frontend.ErrMalformed) {
		t.Errorf("reason is %v, not %v", reason, frontend.ErrMalformed)
	}
}

func sessionHangsUp(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	c.Send(AppendRequest(AppendRequest(nil, Hold, 1, nil), Hangup, 2, nil))
	c.ExpectEnd()
	await(t, "the session is closed", func() bool { return len(s.protocol.Reasons()) == 1 })
	if reason := s.protocol.Reasons()[0]; !errors.Is(reason, frontend.ErrMalformed) {
		t.Errorf("reason is %v, not %v", reason, frontend.ErrMalformed)
	}
}

// Scenario 52: memory is poisoned when it is released, readers stall while
// it is reused, and clients leave in the middle of a write.
func poisonedMemory(t *testing.T, start Start) {
	s := newScene(t, start, 64<<20, nil)
	var clients sync.WaitGroup
	for token := range uint64(3) {
		c := s.dial(token + 1)
		if token == 0 {
			if err := c.Socket.SetReadBuffer(64 << 10); err != nil {
				t.Fatal(err)
			}
		}
		clients.Go(func() {
			e := newExchange(token+1, 60, 100_000, Echo, Later, AtTurn)
			if err := e.pipeline(c, 8+int(token)*8); err != nil {
				t.Errorf("connection %d: %v", token+1, err)
			}
		})
	}
	clients.Go(func() {
		random := rand.New(rand.NewPCG(5, 5))
		for range 20 {
			socket, err := dialRaw(s.server.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			request := AppendRequest(nil, Large, 1, binary.BigEndian.AppendUint32(nil, 4<<20))
			if _, err := socket.Write(append(request, AppendRequest(nil, Echo, 2, pattern(90_000, 2))...)); err != nil {
				t.Error(err)
			}
			scratch := make([]byte, 1+random.IntN(2<<20))
			if _, err := socket.Read(scratch); err != nil {
				t.Error(err)
			}
			_ = socket.Close() // with most of the reply unread: the server's write fails
		}
	})
	clients.Wait()
}

func lateCompletion(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	for token := range uint64(10) {
		c := s.dial(token + 1)
		c.Send(AppendRequest(AppendRequest(nil, Hold, 1, pattern(100, 1)), Hold, 2, pattern(100, 2)))
		await(t, "the requests are held", func() bool { return s.protocol.Held() == 2*int(token+1) })
		c.Close()
	}
	await(t, "the sessions are closed", func() bool { return s.protocol.sessionsClosed.Load() == 10 })
	s.protocol.ReleaseHeld(20)
	await(t, "the replies are released", func() bool {
		return s.protocol.repliesReleased.Load() == s.protocol.turnsTaken.Load()
	})
}

func shutdownDrains(t *testing.T, start Start) {
	s := newScene(t, start, 64<<20, nil)
	waiting, idle, half := s.dial(1), s.dial(2), s.dial(3)
	var requests []byte
	for id := range uint64(10) {
		requests = AppendRequest(requests, Hold, id, pattern(300_000, id))
	}
	waiting.Send(requests)
	half.Send(AppendRequest(nil, Echo, 1, pattern(500, 1))[:100])
	await(t, "the requests are held", func() bool { return s.protocol.Held() == 10 })

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	finished := make(chan error, 1)
	go func() { finished <- s.server.Shutdown(ctx) }()

	idle.ExpectEnd() // the shutdown has begun
	idle.Close()
	half.ExpectEnd()
	half.Close()
	if socket, err := dialRaw(s.server.Addr()); err == nil {
		t.Error("a connection was accepted during the shutdown")
		_ = socket.Close()
	}
	waiting.Send(AppendRequest(nil, Echo, 99, []byte("too late")))
	s.protocol.ReleaseHeld(10)
	for id := range uint64(10) {
		waiting.Expect(id, pattern(300_000, id))
	}
	waiting.ExpectEnd()
	waiting.Close()
	if err := <-finished; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func shutdownExpires(t *testing.T, start Start) {
	s := newScene(t, start, 16<<20, nil)
	c := s.dial(1)
	c.Send(AppendRequest(nil, Hold, 1, []byte("never")))
	await(t, "the request is held", func() bool { return s.protocol.Held() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), shortTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown returned %v, not the error of its context", err)
	}
	c.ExpectEnd()
}
