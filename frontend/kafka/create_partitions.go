package kafka

// CreatePartitions (key 37): versions 0 to 3.
//
//	0    partitions are added, placed by the cluster or by hand (KIP-195)
//	2    flexible
//	3    may be throttled (KIP-599)
//
// A topic is answered when the logs of its new partitions can be written. Partitions are
// never taken away: INVALID_PARTITIONS. A topic that comes twice is INVALID_REQUEST, answered
// once.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

func createPartitions(ctx context.Context, c *call, asked *kmsg.CreatePartitionsRequest, answer *kmsg.CreatePartitionsResponse) {
	if asked.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	respond := func(name string, err error) {
		topic := kmsg.NewCreatePartitionsResponseTopic()
		topic.Topic = name
		topic.ErrorCode, topic.ErrorMessage = c.answerTo(err)
		answer.Topics = append(answer.Topics, topic)
	}
	named := make(map[string]int, len(asked.Topics))
	for i := range asked.Topics {
		named[asked.Topics[i].Topic]++
	}
	var specs []broker.PartitionsSpec
	for i := range asked.Topics {
		topic := &asked.Topics[i]
		spec, err := partitionsSpec(topic)
		if named[topic.Topic] > 1 {
			err = fmt.Errorf("%w: duplicate topic name", errInvalidRequest)
		}
		switch {
		case named[topic.Topic] == 0: // answered already
		case err != nil:
			named[topic.Topic] = 0
			respond(topic.Topic, err)
		default:
			specs = append(specs, spec)
		}
	}
	created, err := c.session.protocol.broker.CreatePartitions(ctx, specs, asked.ValidateOnly)
	for i := range specs {
		topicErr := err
		if err == nil {
			topicErr = created[i]
		}
		respond(specs[i].Name, topicErr)
	}
}

// partitionsSpec is what the broker is asked for.
func partitionsSpec(asked *kmsg.CreatePartitionsRequestTopic) (broker.PartitionsSpec, error) {
	spec := broker.PartitionsSpec{Name: asked.Topic, Count: asked.Count}
	if asked.Assignment == nil {
		return spec, nil
	}
	spec.Replicas = make([][]int32, len(asked.Assignment))
	for n := range asked.Assignment {
		if len(asked.Assignment[n].Replicas) == 0 {
			return spec, fmt.Errorf("%w: the manual partition assignment includes a partition with an empty replica list", meta.ErrInvalidReplicaAssignment)
		}
		spec.Replicas[n] = asked.Assignment[n].Replicas
	}
	return spec, nil
}
