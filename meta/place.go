package meta

import (
	"fmt"
	"maps"
	"slices"
)

// placement chooses the brokers of new partitions: leaders go round the
// brokers from where the last partition ever placed left off, and the other
// replicas of a partition follow its leader, at a distance that grows by
// one each time round, so that the leaderships of a lost broker fall to
// different brokers.
type placement struct {
	brokers []int32
	held    map[int32]int // replicas that each broker holds
	next    uint64        // partitions ever placed
}

func (c *change) newPlacement() *placement {
	p := &placement{next: c.next.placements, held: maps.Clone(c.next.replicas)}
	if p.held == nil {
		p.held = make(map[int32]int)
	}
	for _, broker := range c.next.brokers {
		p.brokers = append(p.brokers, broker.ID)
	}
	return p
}

// place returns the replicas of each partition of topic, the leader first, or
// why there is no place for it; then nothing was placed.
func (p *placement) place(topic *NewTopic) ([][]int32, error) {
	if len(topic.LogIDs) == 0 {
		return nil, fmt.Errorf("%w: topic %q would have none", ErrInvalidPartitions, topic.Name)
	}
	replicas, err := p.choose(topic)
	if err != nil {
		return nil, err
	}
	added := make(map[int32]int, len(p.brokers))
	for _, partition := range replicas {
		for _, broker := range partition {
			added[broker]++
		}
	}
	for _, broker := range p.brokers {
		if p.held[broker]+added[broker] > PartitionsPerBrokerMax {
			return nil, fmt.Errorf("%w: broker %d would hold %d replicas, its limit is %d", ErrTooManyPartitions, broker, p.held[broker]+added[broker], PartitionsPerBrokerMax)
		}
	}
	for broker, count := range added { // any order: each broker's sum is its own
		p.held[broker] += count
	}
	p.next += uint64(len(replicas))
	return replicas, nil
}

func (p *placement) choose(topic *NewTopic) ([][]int32, error) {
	if topic.Replicas != nil {
		return topic.Replicas, p.checkReplicas(topic)
	}
	factor := int(topic.ReplicationFactor)
	switch {
	case factor < 1:
		return nil, fmt.Errorf("%w: %d; a partition has at least one replica", ErrInvalidReplicationFactor, factor)
	case factor > ReplicationFactorMax:
		return nil, fmt.Errorf("%w: %d, above the limit of %d", ErrInvalidReplicationFactor, factor, ReplicationFactorMax)
	case factor > len(p.brokers):
		return nil, fmt.Errorf("%w: %d replicas asked for, %d broker(s) registered", ErrInvalidReplicationFactor, factor, len(p.brokers))
	}
	replicas := make([][]int32, len(topic.LogIDs))
	backing := make([]int32, len(topic.LogIDs)*factor)
	brokers := uint64(len(p.brokers))
	for n := range replicas {
		replicas[n], backing = backing[:factor:factor], backing[factor:]
		number := p.next + uint64(n)
		replicas[n][0] = p.brokers[number%brokers]
		for r := 1; r < factor; r++ {
			// Never 0 modulo brokers, and different for each r: factor-1 < brokers.
			distance := 1 + (number/brokers+uint64(r-1))%(brokers-1)
			replicas[n][r] = p.brokers[(number+distance)%brokers]
		}
	}
	return replicas, nil
}

// checkReplicas checks an assignment made by hand.
func (p *placement) checkReplicas(topic *NewTopic) error {
	if len(topic.Replicas) != len(topic.LogIDs) {
		return fmt.Errorf("%w: topic %q has %d partitions, %d are assigned", ErrInvalidReplicaAssignment, topic.Name, len(topic.LogIDs), len(topic.Replicas))
	}
	if topic.ReplicationFactor != 0 {
		return fmt.Errorf("%w: topic %q names its replicas and a replication factor", ErrInvalidRequest, topic.Name)
	}
	factor := len(topic.Replicas[0])
	for n, replicas := range topic.Replicas {
		switch {
		case len(replicas) == 0:
			return fmt.Errorf("%w: partition %d of topic %q has no replica", ErrInvalidReplicaAssignment, n, topic.Name)
		case len(replicas) != factor:
			return fmt.Errorf("%w: partitions 0 and %d of topic %q have %d and %d replicas", ErrInvalidReplicaAssignment, n, topic.Name, factor, len(replicas))
		case len(replicas) > ReplicationFactorMax:
			return fmt.Errorf("%w: %d replicas, above the limit of %d", ErrInvalidReplicationFactor, len(replicas), ReplicationFactorMax)
		}
		for r, broker := range replicas {
			if slices.Contains(replicas[:r], broker) {
				return fmt.Errorf("%w: partition %d of topic %q names broker %d twice", ErrInvalidReplicaAssignment, n, topic.Name, broker)
			}
			if _, known := slices.BinarySearch(p.brokers, broker); !known {
				return fmt.Errorf("%w: partition %d of topic %q names broker %d, which is not registered", ErrInvalidReplicaAssignment, n, topic.Name, broker)
			}
		}
	}
	return nil
}
