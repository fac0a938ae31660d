package kafka

import (
	"net"
	"sync/atomic"
	"testing"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/engine"
)

// fullEngine refuses appends while it is full.
type fullEngine struct {
	*brokertest.Engine
	full atomic.Bool
}

func (e *fullEngine) Append(group *engine.AppendGroup) {
	if !e.full.Load() {
		e.Engine.Append(group)
		return
	}
	for i := range group.Appends {
		group.Appends[i].Err = engine.ErrNoSpace
	}
	group.Owner.Consumed(group)
	group.Owner.Answered(group)
}

// A commit that cannot be stored is refused with a code at which clients try again; what was committed before is
// still there, and when there is space again everything goes on without a restart.
func TestCommitsGoOnWhenThereIsSpaceAgain(t *testing.T) {
	disk := &fullEngine{Engine: brokertest.NewEngine()}
	on, _ := brokertest.Start(t, disk, brokertest.Options{})
	brokertest.CreateTopic(t, on, "orders", 1, nil)
	s := &scene{client: newClient(t, New(Options{Broker: on})), broker: on}
	if number := s.findGroup("readers").ErrorCode; number != 0 {
		t.Fatalf("FindCoordinator: code %d", number)
	}
	if number := s.commitOffset("readers", "orders", 1); number != 0 {
		t.Fatalf("code %d", number)
	}
	disk.full.Store(true)
	if number := s.commitOffset("readers", "orders", 2); number != 15 {
		t.Errorf("no space: code %d, want COORDINATOR_NOT_AVAILABLE", number)
	}
	disk.full.Store(false)
	if offset := s.offsetAfterFailure("readers", "orders"); offset != 1 {
		t.Errorf("offset %d, want what was acknowledged, 1", offset)
	}
	if number := s.commitOffset("readers", "orders", 3); number != 0 {
		t.Errorf("with space again: code %d", number)
	}
	if metrics := on.GroupMetrics(); metrics.AppendFailures.Load() != 1 || metrics.Panics.Load() != 0 {
		t.Errorf("%d failed appends, %d panics", metrics.AppendFailures.Load(), metrics.Panics.Load())
	}
	s.session.Closed(net.ErrClosed)
}

// offsetAfterFailure asks until the coordinator is there again.
func (s *scene) offsetAfterFailure(group, topic string) int64 {
	for {
		offset, number := s.fetchOffset(group, topic)
		switch number {
		case 0:
			return offset
		case 15: // as clients do, which wait in between
		default:
			s.t.Fatalf("code %d", number)
		}
	}
}

// A fault of ours in a coordinator costs a reload of its partition, and neither the process nor other groups.
func TestAnUnknownRequestOfACoordinatorIsContained(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	s.findGroup("readers")
	if number := s.commitOffset("readers", "orders", 1); number != 0 {
		t.Fatalf("code %d", number)
	}
	if _, err := broker.AskGroup[int](s.t.Context(), s.broker, "readers", "no request at all"); err == nil {
		t.Fatal("it is answered")
	}
	if offset := s.offsetAfterFailure("readers", "orders"); offset != 1 {
		t.Errorf("offset %d, want 1", offset)
	}
	if n := s.broker.GroupMetrics().Panics.Load(); n != 1 {
		t.Errorf("%d panics are counted, want 1", n)
	}
}
