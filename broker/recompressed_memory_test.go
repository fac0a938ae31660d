package broker

import (
	"testing"
	"time"
)

// Who compresses anew waits while the engine has yet to take what others have, and goes on when it does.
func TestRecompressionWaitsForTheEngine(t *testing.T) {
	var r recompressors
	r.init()
	r.hold(recompressedBytesMax - 1)
	r.awaitRoom() // one byte is left
	r.hold(1)
	went := make(chan struct{})
	go func() {
		r.awaitRoom()
		close(went)
	}()
	select {
	case <-went:
		t.Fatal("it goes on without room")
	case <-time.After(10 * time.Millisecond):
	}
	r.give(recompressedBytesMax)
	<-went
	if r.mu.held != 0 {
		t.Errorf("%d bytes are held after all", r.mu.held)
	}
}
