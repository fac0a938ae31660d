package crashtest

import (
	"fmt"

	"ringlog/buffer"
)

// pools is the memory of one life.
type pools struct {
	tail, cold *buffer.Pool
	lives      int
}

// livesMax is how many lives share a pair of pools: making one costs more than
// a short life, and a pool remembers every engine that asked to be notified.
const livesMax = 64

func (x *explorer) takePools() *pools {
	if n := len(x.idlePools); n > 0 {
		p := x.idlePools[n-1]
		x.idlePools = x.idlePools[:n-1]
		return p
	}
	return &pools{tail: buffer.NewPool("tail", poolBytes), cold: buffer.NewPool("cold", poolBytes)}
}

// givePools takes back the memory of a life that is over. All of it must be there.
func (x *explorer) givePools(p *pools) error {
	for _, pool := range []*buffer.Pool{p.tail, p.cold} {
		if n := pool.InUseBytes(); n > 0 {
			return fmt.Errorf("%d bytes of pool %s are still in use after the engine's end", n, pool.Name())
		}
	}
	if p.lives++; p.lives < livesMax {
		x.idlePools = append(x.idlePools, p)
		return nil
	}
	return p.close()
}

func (p *pools) close() error {
	if err := p.tail.Close(); err != nil {
		return err
	}
	return p.cold.Close()
}

// closePools ends an exploration.
func (x *explorer) closePools() error {
	for _, p := range x.idlePools {
		if err := p.close(); err != nil {
			return err
		}
	}
	x.idlePools = nil
	return nil
}
