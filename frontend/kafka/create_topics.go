package kafka

// CreateTopics (key 19): versions 2 to 7.
//
//	2    error messages, validate-only
//	4    -1 partitions and replicas are the broker's defaults (KIP-464); accepted in every version
//	5    flexible; partitions, replicas and configurations in the answer (KIP-525)
//	6    may be throttled
//	7    topic id in the answer (KIP-516)
//
// A topic is answered when its logs can be written. A name that comes twice is
// INVALID_REQUEST, answered once.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

func createTopics(ctx context.Context, c *call, asked *kmsg.CreateTopicsRequest, answer *kmsg.CreateTopicsResponse) {
	if asked.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	named := make(map[string]int, len(asked.Topics))
	for i := range asked.Topics {
		named[asked.Topics[i].Topic]++
	}
	answer.Topics = make([]kmsg.CreateTopicsResponseTopic, 0, len(named))
	var specs []broker.TopicSpec
	for i := range asked.Topics {
		name := asked.Topics[i].Topic
		spec, err := topicSpec(&asked.Topics[i])
		if named[name] != 1 {
			err = fmt.Errorf("%w: duplicate topic name", errInvalidRequest)
		}
		switch {
		case named[name] == 0: // answered already
		case err != nil:
			named[name] = 0
			answer.Topics = append(answer.Topics, c.createdTopic(broker.CreatedTopic{Name: name, Err: err}))
		default:
			specs = append(specs, spec)
		}
	}
	created, err := c.session.protocol.broker.CreateTopics(ctx, specs, asked.ValidateOnly)
	if err != nil {
		for i := range specs {
			answer.Topics = append(answer.Topics, c.createdTopic(broker.CreatedTopic{Name: specs[i].Name, Err: err}))
		}
		return
	}
	for i := range created {
		answer.Topics = append(answer.Topics, c.createdTopic(created[i]))
	}
}

// topicSpec is what the broker is asked for.
func topicSpec(asked *kmsg.CreateTopicsRequestTopic) (broker.TopicSpec, error) {
	spec := broker.TopicSpec{Name: asked.Topic, Partitions: asked.NumPartitions, ReplicationFactor: asked.ReplicationFactor,
		Configs: make(map[string]string, len(asked.Configs))}
	for _, config := range asked.Configs {
		if config.Value == nil {
			return spec, &meta.ConfigError{Name: config.Name, Value: "null", Reason: "a topic configuration needs a value"}
		}
		spec.Configs[config.Name] = *config.Value
	}
	if len(asked.ReplicaAssignment) == 0 {
		return spec, nil
	}
	if spec.Partitions != -1 {
		return spec, fmt.Errorf("%w: a manual partition assignment was specified, but the number of partitions was not set to -1", errInvalidRequest)
	}
	if spec.ReplicationFactor != -1 {
		return spec, fmt.Errorf("%w: a manual partition assignment was specified, but the replication factor was not set to -1", errInvalidRequest)
	}
	spec.Replicas = make([][]int32, len(asked.ReplicaAssignment))
	for _, assignment := range asked.ReplicaAssignment {
		at := assignment.Partition
		if at < 0 || int(at) >= len(spec.Replicas) || spec.Replicas[at] != nil {
			return spec, fmt.Errorf("%w: partitions should be a consecutive 0-based integer sequence", meta.ErrInvalidReplicaAssignment)
		}
		if len(assignment.Replicas) == 0 {
			return spec, fmt.Errorf("%w: partition %d has an empty replica list", meta.ErrInvalidReplicaAssignment, at)
		}
		spec.Replicas[at] = assignment.Replicas
	}
	return spec, nil
}

func (c *call) createdTopic(created broker.CreatedTopic) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = created.Name
	t.NumPartitions, t.ReplicationFactor = -1, -1
	t.ErrorCode, t.ErrorMessage = c.answerTo(created.Err)
	if created.Err != nil {
		return t
	}
	topic := created.Topic
	t.TopicID = topic.ID
	t.NumPartitions, t.ReplicationFactor = int32(len(topic.Partitions)), int16(topic.ReplicationFactor())
	for _, key := range meta.TopicConfigKeys() {
		value := c.session.protocol.broker.Defaults().DescribeTopic(topic, key)
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value = key.Name, shownValue(&value, value.Value)
		config.Source, config.IsSensitive = int8(configSource(value.Source)), key.Sensitive
		t.Configs = append(t.Configs, config)
	}
	return t
}
