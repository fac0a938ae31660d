package loop

import (
	"errors"
	"fmt"
	"runtime"

	"ringlog/net/stream"
)

// ErrUnsupported is returned by Listen where there are no event loops; net/stream
// serves every platform.
var ErrUnsupported = errors.New("loop: event loops are not supported on this platform")

// Options configure a Listener. Zero means the default that the field names.
type Options struct {
	// Options are those of connections, light or heavy. Loops is set by Listen.
	stream.Options

	// LoopCount is the number of event loops. Default DefaultLoopCount.
	LoopCount int
}

// LoopCountMax is the largest number of loops: more than there are cores in a machine that runs this.
const LoopCountMax = 256

// loopCountDefaultMax bounds the default. What a loop does for a request is little
// beside what the rest of the broker does for it: more loops than these would not be busy, and
// each would be woken more often for less.
const loopCountDefaultMax = 8

// DefaultLoopCount is one loop for every two cores, 8 at most: storage and heavy connections want
// cores too. On two cores, 32 clients with one small produce each at a time got 30,700 answers a second
// with one loop, 27,000 with two.
func DefaultLoopCount() int { return min((runtime.NumCPU()+1)/2, loopCountDefaultMax) }

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	o.Options.EnsureDefaults()
	if o.LoopCount == 0 {
		o.LoopCount = DefaultLoopCount()
	}
}

// Validate reports everything that is wrong with options whose defaults are
// filled in.
func (o *Options) Validate() error {
	err := o.Options.Validate()
	if o.LoopCount < 1 || o.LoopCount > LoopCountMax {
		err = errors.Join(err, fmt.Errorf("LoopCount is %d, not 1 to %d", o.LoopCount, LoopCountMax))
	}
	if o.Loops != nil {
		err = errors.Join(err, fmt.Errorf("the field Loops is set, to %T", o.Loops))
	}
	return err
}
