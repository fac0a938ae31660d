package raftctl

import (
	"sync"

	"ringlog/meta"
)

// subscriber is one Subscribe.
type subscriber struct {
	wake chan struct{} // capacity 1: the image has changed since it was last taken
	stop chan struct{}
	once sync.Once
	done chan struct{} // its goroutine has ended
}

// Subscribe calls changed, on a goroutine of its own, for what has changed since
// the image since, in order and one call at a time, until cancel or Close.
// It may block: changes that come meanwhile are handed over as one delta, so that
// nothing is ever left out and nothing piles up. A topic that is created and deleted in such
// a time is not seen. The empty delta comes when only ControllerID or Index changed.
//
// cancel waits for a call in progress, so changed must not call it.
func (c *Controller) Subscribe(since *meta.Image, changed func(meta.Delta, *meta.Image)) (cancel func()) {
	s := &subscriber{wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	s.wake <- struct{}{} // look at once: there may be a newer image already
	c.subscribers.Lock()
	if c.subscribers.all == nil {
		s.cancel() // closed: nothing changes any more
	} else {
		c.subscribers.all[s] = struct{}{}
	}
	c.subscribers.Unlock()
	go s.run(c, since, changed)
	return func() {
		c.subscribers.Lock()
		delete(c.subscribers.all, s)
		c.subscribers.Unlock()
		s.cancel()
		<-s.done
	}
}

func (s *subscriber) cancel() { s.once.Do(func() { close(s.stop) }) }

func (s *subscriber) run(c *Controller, last *meta.Image, changed func(meta.Delta, *meta.Image)) {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		}
		if image := c.image.Load(); image != last {
			changed(meta.Diff(last, image), image)
			last = image
		}
	}
}

// publish makes image the newest and tells the subscribers.
func (c *Controller) publish(image *meta.Image) {
	if c.image.Load() == image {
		return
	}
	c.image.Store(image)
	c.subscribers.Lock()
	defer c.subscribers.Unlock()
	for s := range c.subscribers.all {
		select {
		case s.wake <- struct{}{}:
		default: // it has not looked since the last change
		}
	}
}

// cancelSubscribers ends all subscriptions and waits for the calls in progress.
func (c *Controller) cancelSubscribers() {
	c.subscribers.Lock()
	all := c.subscribers.all
	c.subscribers.all = nil
	c.subscribers.Unlock()
	for s := range all {
		s.cancel()
	}
	for s := range all {
		<-s.done
	}
}
