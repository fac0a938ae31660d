package group

import (
	"strings"
	"testing"
)

// A group remembers its last rebalances, however many there were, and little of what clients say.
func TestTheHistoryOfAGroupIsBounded(t *testing.T) {
	s := &story{t: t}
	s.begin(nil)
	s.do("join a v=3 reason=" + strings.Repeat("x", 3*reasonBytesMax))
	s.do("pass 3000")
	for range 2 * rebalancesMax {
		s.do("sync a assign=(a:p0)")
		s.do("join a reason=again")
	}
	h := &s.machine.group("g").classic.history
	if len(h.rebalances) != rebalancesMax || h.total != 1+2*rebalancesMax {
		t.Errorf("%d of %d rebalances are remembered, want %d of %d", len(h.rebalances), h.total, rebalancesMax, 1+2*rebalancesMax)
	}
	if last := h.rebalances[len(h.rebalances)-1]; last.Generation != s.machine.group("g").classic.generation || last.Cause != CauseLeaderRejoined || last.Reason != "again" {
		t.Errorf("the last one is %+v", last)
	}
	s.begin(nil)
	s.do("join a v=3 reason=" + strings.Repeat("x", 3*reasonBytesMax))
	if got := len(s.machine.group("g").classic.history.rebalances[0].Reason); got != reasonBytesMax {
		t.Errorf("a reason of %d bytes is kept, want %d", got, reasonBytesMax)
	}
}

func TestEveryCauseHasAName(t *testing.T) {
	for cause := CauseMemberJoined; cause <= CauseGroupNotStored; cause++ {
		if cause.String() == "unknown" {
			t.Errorf("cause %d has no name", cause)
		}
	}
}
