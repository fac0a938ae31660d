package crash_test

import (
	"testing"

	"go.uber.org/goleak"

	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the engine sees of the crash disk is what it sees of a real one.
func TestConformance(t *testing.T) {
	for name, options := range map[string]crash.Options{
		"seed 1": {Seed: 1}, "seed 2": {Seed: 2}, "in order": {InOrder: true}, "blocking": {Blocking: true},
	} {
		t.Run(name, func(t *testing.T) {
			disktest.Run(t, func(*testing.T) disk.Disk { return crash.New(options) })
		})
	}
}
