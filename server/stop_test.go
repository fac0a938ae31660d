package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlog/buffer"
	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/record"
	"ringlog/replica"
)

// deafDisk takes operations and, while it is deaf, does nothing with them.
type deafDisk struct {
	*crash.Disk
	mu    sync.Mutex
	deaf  bool
	taken []*disk.Operation // while it was deaf
}

func (d *deafDisk) Submit(op *disk.Operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf {
		d.taken = append(d.taken, op)
		return
	}
	d.Disk.Submit(op)
}

func (d *deafDisk) Wait(finished []*disk.Operation, timeout time.Duration) ([]*disk.Operation, error) {
	d.mu.Lock()
	if !d.deaf {
		for _, op := range d.taken {
			d.Disk.Submit(op)
		}
		d.taken = nil
	}
	d.mu.Unlock()
	return d.Disk.Wait(finished, timeout)
}

func (d *deafDisk) setDeaf(deaf bool) {
	d.mu.Lock()
	d.deaf = deaf
	d.mu.Unlock()
	d.Wake()
}

// nobody waits for an answer.
type nobody struct{}

func (nobody) Consumed(*engine.AppendGroup) {}
func (nobody) Answered(*engine.AppendGroup) {}

// A device that takes a write and never answers: the stop ends all the same, says which
// log it has waited for, and is not a success.
func TestADiskThatDoesNotAnswerDoesNotHoldTheStopForEver(t *testing.T) {
	deaf := &deafDisk{Disk: crash.New(crash.Options{Blocking: true})}
	opened, err := engine.New(engine.Options{
		OpenDisk: func() (disk.Disk, error) { return deaf, nil },
		Tail:     buffer.NewPool("tail", 16<<20),
		Cold:     buffer.NewPool("cold", 16<<20),
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := engine.LogSpec{ID: engine.LogID{1}, Label: "orders-0", Replica: replica.New(replica.Options{})}
	made, err := opened.Create(t.Context(), spec)
	if err == nil {
		err = opened.Lead(t.Context(), spec.ID, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	var log journal
	s := &Server{
		config: &resolved{Config: Config{Logger: log.logger()}}, engine: opened,
		stopping: make(chan struct{}), settleTimeout: 100 * time.Millisecond,
	}
	appendOne := func() {
		t.Helper()
		var b record.Builder
		b.Reset(record.BuilderOptions{})
		b.Append(1, nil, []byte("a value"))
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		opened.Append(&engine.AppendGroup{Owner: nobody{}, Appends: []engine.Append{{Log: made, Batch: batch}}})
	}
	until := func(condition func(engine.Frontiers) bool) {
		for !condition(made.Frontiers()) {
			<-time.After(time.Millisecond)
		}
	}
	appendOne()
	until(func(f engine.Frontiers) bool { return f.Durable == 1 })
	deaf.setDeaf(true)
	appendOne() // there is space for it, and it is never written
	until(func(f engine.Frontiers) bool { return f.Next == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	for len(opened.Closing()) == 0 {
		select {
		case err := <-stopped:
			t.Fatalf("it has stopped, with %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel() // the time for requests in flight is over
	if err := <-stopped; !errors.Is(err, ErrStillStopping) {
		t.Errorf("the stop ends with %v, want %v", err, ErrStillStopping)
	}
	for _, line := range []string{"is still stopping", "does not come to rest"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, log.String())
		}
	}
	if strings.Count(log.String(), "logs=orders-0") != 2 {
		t.Errorf("the log does not name the log that is waited for:\n%s", log.String())
	}
	// The disk answers after all, and what was left where it was ends.
	deaf.setDeaf(false)
	<-opened.Ended()
	if labels := opened.Closing(); len(labels) > 0 {
		t.Errorf("%v are still closing after the end", labels)
	}
}
