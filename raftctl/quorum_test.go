package raftctl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ringlog/meta"
)

// network carries messages between controllers of one test and loses those of
// brokers that are cut off.
type network struct {
	mu    sync.Mutex
	nodes map[int32]*Controller
	cut   map[int32]bool
	wires sync.WaitGroup
}

// wire is one broker's end of a network: a queue and a goroutine that
// delivers, so that Send does not block.
type wire struct {
	network *network
	from    int32
	queue   chan Message
}

func (n *network) plug(from int32) *wire {
	w := &wire{network: n, from: from, queue: make(chan Message, 4096)}
	n.wires.Go(func() {
		for message := range w.queue {
			w.deliver(message)
		}
	})
	return w
}

func (w *wire) Send(messages []Message) {
	for _, message := range messages {
		select {
		case w.queue <- message:
		default: // raft copes
		}
	}
}

func (w *wire) deliver(message Message) {
	n := w.network
	n.mu.Lock()
	source, target := n.nodes[w.from], n.nodes[message.To]
	lost := n.cut[w.from] || n.cut[message.To] || target == nil
	n.mu.Unlock()
	ctx := context.Background()
	var err error
	if lost {
		err = errors.New("cut off")
	} else {
		err = target.Receive(ctx, message.Data)
	}
	if source != nil {
		_ = source.Sent(ctx, message, err) // a controller that has ended needs no report
	}
}

func (n *network) set(id int32, cut bool) {
	n.mu.Lock()
	n.cut[id] = cut
	n.mu.Unlock()
}

// quorum is three brokers on one network.
type quorum struct {
	t       *testing.T
	network *network
	dirs    map[int32]string
}

func newQuorum(t *testing.T) *quorum {
	q := &quorum{t: t, network: &network{nodes: make(map[int32]*Controller), cut: make(map[int32]bool)}, dirs: make(map[int32]string)}
	var wires []*wire
	for id := int32(1); id <= 3; id++ {
		q.dirs[id] = t.TempDir()
		w := q.network.plug(id)
		wires = append(wires, w)
		q.open(id, w, true)
	}
	t.Cleanup(func() {
		for id := int32(1); id <= 3; id++ {
			q.node(id).Close()
		}
		for _, w := range wires {
			close(w.queue)
		}
		q.network.wires.Wait()
	})
	for id := int32(1); id <= 3; id++ {
		if err := q.node(id).Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

func (q *quorum) open(id int32, transport Transport, create bool) {
	q.t.Helper()
	options := testOptions()
	options.NodeID, options.Voters, options.Create, options.Transport = id, []int32{1, 2, 3}, create, transport
	options.SnapshotLogBytes = 1 << 10
	c, err := Open(q.t.Context(), q.dirs[id], options)
	if err != nil {
		q.t.Fatal(err)
	}
	q.network.mu.Lock()
	q.network.nodes[id] = c
	q.network.mu.Unlock()
}

func (q *quorum) node(id int32) *Controller {
	q.network.mu.Lock()
	defer q.network.mu.Unlock()
	return q.network.nodes[id]
}

// leader waits until the nodes given agree on a leader among themselves.
func (q *quorum) leader(ids ...int32) int32 {
	q.t.Helper()
	leader := int32(-1)
	q.eventually("a leader", func() bool {
		leader = q.node(ids[0]).Status().LeaderID
		agreed, among := true, false
		for _, id := range ids {
			agreed = agreed && q.node(id).Status().LeaderID == leader
			among = among || id == leader
		}
		return agreed && among
	})
	return leader
}

// eventually waits for a condition that messages in flight bring about.
func (q *quorum) eventually(what string, is func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-q.t.Context().Done():
			q.t.Errorf("no %s", what)
			return
		}
	}
}

// create creates a topic through a node, again while there is no leader.
func (q *quorum) create(id int32, name string) {
	topic := meta.NewTopic{Name: name, ReplicationFactor: 1}
	if err := topic.Draw(rand.Reader, 1); err != nil {
		q.t.Error(err)
	}
	q.eventually("topic "+name, func() bool {
		ctx, cancel := context.WithTimeout(q.t.Context(), time.Second)
		defer cancel()
		result, err := q.node(id).Propose(ctx, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
		if err != nil {
			return false
		}
		refusal := result.(meta.CreateTopicsResult).Topics[0].Err
		return refusal == nil || errors.Is(refusal, meta.ErrTopicExists) // an earlier try that was taken for lost
	})
}

// Clause 1G of the Kafka map: majority loss blocks changes, not data: the image
// stays readable; a change through any broker works otherwise.
func TestAQuorumOfThreeOutlivesOneAndStopsWithoutTwo(t *testing.T) {
	q := newQuorum(t)
	for id := int32(1); id <= 3; id++ {
		q.eventually("broker", func() bool {
			_, err := q.node(id).Propose(t.Context(), meta.StartBroker{ID: id, Host: "127.0.0.1", Port: 9092, LogsEpochMax: -1})
			return err == nil
		})
	}
	for id := int32(1); id <= 3; id++ {
		q.create(id, fmt.Sprintf("through-%d", id))
	}
	leader := q.leader(1, 2, 3)
	var others []int32
	for id := int32(1); id <= 3; id++ {
		if id != leader {
			others = append(others, id)
		}
	}

	q.network.set(leader, true)
	next := q.leader(others...)
	if next == leader {
		t.Fatal("a leader that is cut off stays leader")
	}
	var callers sync.WaitGroup
	for n := range 3 * trailingEntries { // past a snapshot: the leader cut off must be sent one
		callers.Go(func() { q.create(others[0], fmt.Sprintf("without-%03d", n)) })
	}
	callers.Wait()
	q.network.set(leader, false)
	q.eventually("snapshot for the broker that was cut off", func() bool {
		return q.node(leader).Image().TopicCount() == 3+3*trailingEntries
	})

	q.network.set(others[0], true)
	q.network.set(others[1], true)
	q.eventually("end of leadership", func() bool { return q.node(leader).Status().LeaderID == -1 })
	_, err := q.node(leader).Propose(t.Context(), meta.CreateTopics{Topics: []meta.NewTopic{newTopic(t, rand.Reader, "never", 1)}})
	if !errors.Is(err, ErrNoLeader) {
		t.Errorf("without a majority: got %v, want %v", err, ErrNoLeader)
	}
	if q.node(leader).Image().TopicCount() != 3+3*trailingEntries {
		t.Error("the image is not readable without a majority")
	}
	q.network.set(others[0], false)
	q.network.set(others[1], false)
	q.create(leader, "again")

	want := q.node(leader).Image()
	for id := int32(1); id <= 3; id++ {
		q.eventually("same image everywhere", func() bool { return q.node(id).Image().Index >= want.Index })
		sameMetadata(t, want, q.node(id).Image())
	}
}

func TestReceiveRefusesWhatIsNotForIt(t *testing.T) {
	c := startFresh(t, t.TempDir())
	for name, data := range map[string][]byte{
		"garbage":        {0xff, 0xff, 0xff},
		"empty message":  {},
		"to another one": {16, 9}, // field 2 (to), 9
	} {
		if err := c.Receive(t.Context(), data); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
