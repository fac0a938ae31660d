package lag_test

import (
	"fmt"
	"testing"
	"time"

	"ringlog/lag"
)

// A group of 12,000 consumers that reads a million records per second, each of which dies once a day: what duplicates
// cost at a commit every five seconds, and what fewer of them cost.
func TestFewerDuplicatesCostCommits(t *testing.T) {
	slow := lag.Commits{RecordsPerSecond: 1e6, Interval: 5 * time.Second, Consumers: 12_000, RestartsPerDay: 1}
	fast := slow
	fast.Interval = 100 * time.Millisecond
	for _, c := range []struct{ what, got, want string }{
		{"duplicates a day at 5 s", fmt.Sprintf("%.0f", slow.Duplicates()), "5000000"},
		{"duplicates per second at 5 s", fmt.Sprintf("%.1f", slow.DuplicatesPerSecond()), "57.9"},
		{"share of duplicates at 5 s", fmt.Sprintf("%.7f", slow.DuplicateShare()), "0.0000579"},
		{"commits per second at 5 s", fmt.Sprintf("%.0f", slow.CommitsPerSecond()), "2400"},
		{"duplicates per second at 100 ms", fmt.Sprintf("%.1f", fast.DuplicatesPerSecond()), "1.2"},
		{"commits per second at 100 ms", fmt.Sprintf("%.0f", fast.CommitsPerSecond()), "120000"},
		{"of which one partition of 50 takes", fmt.Sprintf("%.0f", fast.CommitsPerPartition(50)), "2400"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	few := slow
	few.Consumers = 100
	if few.Duplicates() != slow.Duplicates() {
		t.Error("duplicates depend on the size of the group")
	}
}

// 10 ms a record and five minutes between polls: 30,000 records are safe.
func TestAPollMustBeWorkedOffInTime(t *testing.T) {
	if got := lag.RecordsPerPollMax(300*time.Second, 10*time.Millisecond); got != 30_000 {
		t.Errorf("%d records", got)
	}
	if got := lag.RecordsPerPollMax(time.Second, 2*time.Second); got != 0 {
		t.Errorf("%d records of which one takes longer than all may", got)
	}
}
