package coord

import "sync"

// question is a request on its way to a machine.
type question struct {
	partition int32
	body      any
	done      func(answer any, err error)
}

// event is what the loop takes from its inbox: a question, or something to do.
type event struct {
	question question
	do       func()
}

// inbox is what the loop has to take, in the order in which it came.
type inbox struct {
	// wake has a token while the loop has something to take.
	wake        chan struct{}
	requestsMax int

	mu struct {
		sync.Mutex
		events []event
		// waiting counts the questions that no machine has seen, also those that the loop has taken.
		waiting int
		closed  bool
	}
	spare []event // the slice that is not in use; the loop's
}

func (i *inbox) init(requestsMax int) {
	i.wake = make(chan struct{}, 1)
	i.requestsMax = requestsMax
}

// ask puts a question in, unless the inbox is full or closed.
func (i *inbox) ask(q question) error {
	i.mu.Lock()
	switch {
	case i.mu.closed:
		i.mu.Unlock()
		return ErrNotCoordinator
	case i.mu.waiting >= i.requestsMax:
		i.mu.Unlock()
		return ErrUnavailable
	}
	i.mu.waiting++
	i.mu.events = append(i.mu.events, event{question: q})
	i.mu.Unlock()
	i.ring()
	return nil
}

// post puts in something to do; it is dropped when the inbox is closed. There is as much of that as there are
// changes of the cluster and appends under way, which are bounded.
func (i *inbox) post(do func()) {
	i.mu.Lock()
	if !i.mu.closed {
		i.mu.events = append(i.mu.events, event{do: do})
	}
	i.mu.Unlock()
	i.ring()
}

// close puts in the last thing to do. Closing again does nothing.
func (i *inbox) close(last func()) {
	i.mu.Lock()
	if !i.mu.closed {
		i.mu.closed = true
		i.mu.events = append(i.mu.events, event{do: last})
	}
	i.mu.Unlock()
	i.ring()
}

func (i *inbox) ring() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// take returns all events; giveBack returns their memory. Both are the loop's.
func (i *inbox) take() []event {
	i.mu.Lock()
	defer i.mu.Unlock()
	events := i.mu.events
	i.mu.events, i.spare = i.spare[:0], nil
	return events
}

func (i *inbox) giveBack(events []event) {
	clear(events)
	i.spare = events[:0]
}

// stepped says that so many questions do not wait any more.
func (i *inbox) stepped(count int) {
	i.mu.Lock()
	i.mu.waiting -= count
	i.mu.Unlock()
}

// waiting is how many questions wait.
func (i *inbox) waiting() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mu.waiting
}
