package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is the control plane of a run: it finds out where the raw
// connections have to go and what they may say.
type cluster struct {
	client *kgo.Client
	seeds  []string
}

func newCluster(brokers []string) (*cluster, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ClientID(clientID), kgo.DisableClientMetrics())
	if err != nil {
		return nil, fmt.Errorf("perf: brokers: %w", err)
	}
	return &cluster{client: client, seeds: brokers}, nil
}

func (c *cluster) close() { c.client.Close() }

// version returns the newest version of a request that broker and generator
// both speak, from ours, lowest to highest.
func (c *cluster) version(ctx context.Context, key kmsg.Key, lowest, highest int16) (int16, error) {
	reply, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, c.client)
	if err != nil {
		return 0, fmt.Errorf("perf: api versions of %v: %w", c.seeds, err)
	}
	if err := kerr.ErrorForCode(reply.ErrorCode); err != nil {
		return 0, fmt.Errorf("perf: api versions of %v: %w", c.seeds, err)
	}
	for _, k := range reply.ApiKeys {
		if k.ApiKey == key.Int16() {
			if version := min(highest, k.MaxVersion); version >= max(lowest, k.MinVersion) {
				return version, nil
			}
			return 0, fmt.Errorf("%w: %s %d to %d, the broker has %d to %d", ErrVersion, key.Name(), lowest, highest, k.MinVersion, k.MaxVersion)
		}
	}
	return 0, fmt.Errorf("%w: the broker has no %s", ErrVersion, key.Name())
}

// errUnsettled says that metadata is not complete yet: elections go on.
var errUnsettled = errors.New("not every partition has a leader")

// targets returns the leaders of a topic's partitions.
func (c *cluster) targets(ctx context.Context, topic string) ([]target, error) {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	request.Topics = append(request.Topics, asked)
	reply, err := request.RequestWith(ctx, c.client)
	if err != nil {
		return nil, fmt.Errorf("perf: metadata of topic %s: %w", topic, err)
	}
	if len(reply.Topics) != 1 {
		return nil, fmt.Errorf("%w: metadata of %d topics where one was asked for", ErrProtocol, len(reply.Topics))
	}
	if err := kerr.ErrorForCode(reply.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("perf: metadata of topic %s: %w", topic, err)
	}
	addresses := make(map[int32]string)
	var order []int32
	for _, b := range reply.Brokers {
		addresses[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		order = append(order, b.NodeID)
	}
	led := make(map[int32][]int32)
	for _, p := range reply.Topics[0].Partitions {
		if _, known := addresses[p.Leader]; p.ErrorCode != 0 || !known {
			return nil, fmt.Errorf("perf: topic %s, partition %d: %w", topic, p.Partition, errUnsettled)
		}
		led[p.Leader] = append(led[p.Leader], p.Partition)
	}
	var targets []target
	for _, id := range order {
		if partitions := led[id]; len(partitions) > 0 {
			targets = append(targets, target{addresses[id], partitions})
		}
	}
	return targets, nil
}

// settledTargets waits until every partition has a leader.
func (c *cluster) settledTargets(ctx context.Context, topic string) ([]target, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		targets, err := c.targets(ctx, topic)
		if err == nil && len(targets) > 0 {
			return targets, nil
		}
		if err != nil && !errors.Is(err, errUnsettled) && !kerr.IsRetriable(err) {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("perf: topic %s: %w: %w", topic, context.Cause(ctx), err)
		}
	}
}

// ensureTopic creates the topic when it is missing, and otherwise checks that
// its durability is the one to be measured.
func (c *cluster) ensureTopic(ctx context.Context, topic string, load *Load, replicationFactor int16) (notes []string, err error) {
	_, err = c.targets(ctx, topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, c.createTopic(ctx, topic, load, replicationFactor)
	}
	if err != nil && !errors.Is(err, errUnsettled) && !kerr.IsRetriable(err) {
		return nil, err
	}
	return c.checkDurability(ctx, topic, load.Durability)
}

func (c *cluster) createTopic(ctx context.Context, topic string, load *Load, replicationFactor int16) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = topic
	t.NumPartitions = int32(load.Partitions)
	t.ReplicationFactor = replicationFactor
	flush := kmsg.NewCreateTopicsRequestTopicConfig()
	flush.Name = "flush.messages"
	flush.Value = kmsg.StringPtr(load.Durability.flushMessages())
	t.Configs = append(t.Configs, flush)
	request.Topics = append(request.Topics, t)
	reply, err := request.RequestWith(ctx, c.client)
	if err != nil {
		return fmt.Errorf("perf: create topic %s: %w", topic, err)
	}
	if len(reply.Topics) != 1 {
		return fmt.Errorf("%w: creation of %d topics where one was asked for", ErrProtocol, len(reply.Topics))
	}
	if err := kerr.ErrorForCode(reply.Topics[0].ErrorCode); err != nil {
		message := ""
		if m := reply.Topics[0].ErrorMessage; m != nil {
			message = ": " + *m
		}
		return fmt.Errorf("perf: create topic %s: %w%s", topic, err, message)
	}
	return nil
}

// checkDurability compares flush.messages of a topic that was there before. A
// broker that does not tell gets a note in the report.
func (c *cluster) checkDurability(ctx context.Context, topic string, durability Durability) ([]string, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeTopic
	r.ResourceName = topic
	r.ConfigNames = []string{"flush.messages"}
	request.Resources = append(request.Resources, r)
	reply, err := request.RequestWith(ctx, c.client)
	if err == nil {
		for _, resource := range reply.Resources {
			for _, config := range resource.Configs {
				if config.Name != "flush.messages" || config.Value == nil {
					continue
				}
				if want := durability.flushMessages(); *config.Value != want {
					return nil, fmt.Errorf("%w: topic %s has flush.messages=%s, %s means %s", ErrDurability, topic, *config.Value, durability, want)
				}
				return nil, nil
			}
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return []string{fmt.Sprintf("the broker does not tell flush.messages of topic %s, which was there before: its durability is unproven", topic)}, nil
}

// listOffsets returns the offset of each partition at a time stamp: -2 is the
// earliest, -1 the latest.
func (c *cluster) listOffsets(ctx context.Context, topic string, partitions []int32, timestamp int64) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, partition := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
	offsets := make(map[int32]int64)
	for _, shard := range c.client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return nil, fmt.Errorf("perf: offsets of topic %s: %w", topic, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("perf: offset of topic %s, partition %d: %w", topic, p.Partition, err)
				}
				offsets[p.Partition] = p.Offset
			}
		}
	}
	if len(offsets) != len(partitions) {
		return nil, fmt.Errorf("%w: offsets of %d partitions where %d were asked for", ErrProtocol, len(offsets), len(partitions))
	}
	return offsets, nil
}
