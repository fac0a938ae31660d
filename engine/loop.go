package engine

import (
	"context"
	"runtime"
)

// New opens a data directory and drives it with a goroutine locked to its
// thread, on which the disk is opened, used and closed (a ring belongs to one
// thread). Logs are opened one by one with Open and Create.
func New(options Options) (*Engine, error) {
	type outcome struct {
		engine *Engine
		err    error
	}
	made := make(chan outcome)
	go func() {
		// Never unlocked: the thread goes with the goroutine, and its ring's
		// pending work with it.
		runtime.LockOSThread()
		e, err := newEngine(options)
		made <- outcome{e, err}
		if err == nil {
			e.loop()
		}
	}()
	o := <-made
	if o.err != nil {
		return nil, o.err
	}
	if err := o.engine.begin(context.Background()); err != nil {
		_ = o.engine.Close(context.Background()) // the first error is the one that tells
		return nil, err
	}
	return o.engine, nil
}

// loop does turns until the shard is over.
func (e *Engine) loop() {
	// A ring locks its thread once more at its first Wait, and a coroutine cannot be
	// resumed under another count of locks than it was made under: that Wait
	// comes before the first job.
	if finished, err := e.shard.disk.Wait(nil, 0); err != nil || len(finished) > 0 {
		e.options.Logger.Error("the engine cannot use its disk and ends", "error", err)
		e.finish(err)
		return
	}
	for {
		err := e.shard.turn(-1)
		if err != nil {
			e.options.Logger.Error("the engine has lost its disk and ends", "error", err)
		}
		if err != nil || e.shard.closed {
			e.finish(err)
			return
		}
	}
}
