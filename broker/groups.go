package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"ringlog/coord"
	"ringlog/group"
	"ringlog/meta"
)

// groups are the coordinators of consumer groups: one machine for each partition of the offsets topic that
// this broker leads.
//
//	reconciler ──leads, resigns, image──▶ coord.Runtime ──▶ group.Machine, one a partition
//	frontends ──AskGroup──────────────────────▲    │
//	                                               └──▶ groupsLog ──▶ engine
type groups struct {
	broker  *Broker
	config  *group.Config
	runtime *coord.Runtime // nil before Broker.Start

	// creating is held by who creates the offsets topic; a channel, because waiting for it ends
	// with the caller's context.
	creating chan struct{}
}

func (g *groups) init(b *Broker) {
	g.broker = b
	g.config = groupConfig(b.options.Defaults)
	g.creating = make(chan struct{}, 1)
}

// groupConfig reads what operators have set for groups.
func groupConfig(d *meta.Defaults) *group.Config {
	const millisPerMinute = 60_000
	return &group.Config{
		OffsetMetadataBytesMax:     int(configInteger(d, "offset.metadata.max.bytes")),
		OffsetsRetentionMillis:     configInteger(d, "offsets.retention.minutes") * millisPerMinute,
		OffsetsCheckIntervalMillis: configInteger(d, "offsets.retention.check.interval.ms"),

		SessionTimeoutMinMillis:     configInteger(d, "group.min.session.timeout.ms"),
		SessionTimeoutMaxMillis:     configInteger(d, "group.max.session.timeout.ms"),
		InitialRebalanceDelayMillis: configInteger(d, "group.initial.rebalance.delay.ms"),
		MembersMax:                  int(configInteger(d, "group.max.size")),

		Consumer: consumerGroupConfig(d),
	}
}

// consumerGroupConfig reads what operators have set for consumer groups.
func consumerGroupConfig(d *meta.Defaults) group.ConsumerConfig {
	setting := func(name string) group.SettingMillis {
		return group.SettingMillis{
			Value: configInteger(d, "group.consumer."+name), Min: configInteger(d, "group.consumer.min."+name), Max: configInteger(d, "group.consumer.max."+name),
		}
	}
	migration, known := group.ParseMigrationPolicy(configText(d, "group.consumer.migration.policy"))
	if !known {
		panic("broker: group.consumer.migration.policy was not checked")
	}
	return group.ConsumerConfig{
		SessionTimeoutMillis:     setting("session.timeout.ms"),
		HeartbeatIntervalMillis:  setting("heartbeat.interval.ms"),
		AssignmentIntervalMillis: setting("assignment.interval.ms"),
		MembersMax:               int(configInteger(d, "group.consumer.max.size")),
		Assignors:                meta.ParseConfigList(configText(d, "group.consumer.assignors")),
		Migration:                migration,
	}
}

// start begins to coordinate, with nothing to lead yet.
func (g *groups) start() {
	g.runtime = coord.New(coord.Options{
		Log: groupsLog{g.broker},
		NewMachine: func(int32) coord.Machine {
			return group.New(g.config, g.broker.Image())
		},
		Logger: g.broker.log,
	})
}

// StopGroups answers whoever waits for other members of its group, and all later requests of groups, that this broker is
// not the coordinator: a join may wait for minutes, and would hold up a stop for as long.
func (b *Broker) StopGroups() {
	if b.groups.runtime != nil {
		b.groups.runtime.Close()
	}
}

// apply tells the coordinators of a change that requests see by now.
func (g *groups) apply(delta *meta.Delta, image *meta.Image) {
	if len(delta.TopicsCreated)+len(delta.TopicsChanged)+len(delta.TopicsDeleted)+len(delta.GroupConfigsChanged) > 0 {
		changed := &group.ImageChanged{Image: image}
		for _, topic := range delta.TopicsDeleted {
			changed.Deleted = append(changed.Deleted, group.DeletedTopic{Name: topic.Name, ID: topic.ID})
		}
		g.runtime.Notify(changed)
	}
	for _, topic := range delta.TopicsDeleted {
		if topic.Name == meta.OffsetsTopic {
			for i := range topic.Partitions {
				g.runtime.Resign(topic.Partitions[i].ID)
			}
		}
	}
	for _, topics := range [][]*meta.Topic{delta.TopicsCreated, delta.TopicsChanged} {
		for _, topic := range topics {
			if topic.Name == meta.OffsetsTopic {
				g.lead(topic)
			}
		}
	}
}

// lead coordinates by the partitions that this broker leads, and no others.
func (g *groups) lead(topic *meta.Topic) {
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if p.Leader == g.broker.options.NodeID {
			g.runtime.Lead(p.ID, p.LeaderEpoch)
		} else {
			g.runtime.Resign(p.ID)
		}
	}
}

// FindGroupCoordinator returns the broker that coordinates a group. The offsets topic is created when it is not there yet, which
// is waited for.
func (b *Broker) FindGroupCoordinator(ctx context.Context, groupID string) (*meta.Broker, error) {
	topic, err := b.ensureOffsetsTopic(ctx)
	if err != nil {
		return nil, err
	}
	image := b.Image()
	leader := topic.Partitions[groupPartition(groupID, len(topic.Partitions))].Leader
	coordinator, ok := image.Broker(leader)
	if !ok {
		return nil, fmt.Errorf("%w: the partition of group %q has no leader", ErrCoordinatorUnavailable, groupID)
	}
	return coordinator, nil
}

// ensureOffsetsTopic returns the offsets topic and creates it if need be.
func (b *Broker) ensureOffsetsTopic(ctx context.Context) (*meta.Topic, error) {
	if topic, ok := b.Image().Topic(meta.OffsetsTopic); ok {
		return topic, nil
	}
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	select {
	case b.groups.creating <- struct{}{}:
		defer func() { <-b.groups.creating }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrCoordinatorUnavailable, context.Cause(ctx))
	}
	if topic, ok := b.Image().Topic(meta.OffsetsTopic); ok {
		return topic, nil // somebody was faster
	}
	created, err := b.createOffsetsTopic(ctx)
	if err != nil {
		b.limitedLogger.Error("the topic of committed offsets cannot be created", "topic", meta.OffsetsTopic, "error", err)
		return nil, fmt.Errorf("%w: %w", ErrCoordinatorUnavailable, err)
	}
	b.reconciler.settle() // until the coordinators know of it, too
	return created, nil
}

// createOffsetsTopic creates the topic with what is set for it. Its configurations are not checked as those of clients are:
// they come from here.
func (b *Broker) createOffsetsTopic(ctx context.Context) (*meta.Topic, error) {
	d := b.options.Defaults
	topic := meta.NewTopic{
		Name: meta.OffsetsTopic, Internal: true,
		ReplicationFactor: int16(min(configInteger(d, "offsets.topic.replication.factor"), int64(len(b.Image().Brokers())))),
		Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    strconv.FormatInt(configInteger(d, "offsets.topic.segment.bytes"), 10),
		},
	}
	if err := topic.Draw(rand.Reader, int(configInteger(d, "offsets.topic.num.partitions"))); err != nil {
		return nil, err
	}
	result, err := b.options.Controller.Propose(ctx, meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrControlPlane, err)
	}
	made := result.(meta.CreateTopicsResult).Topics[0]
	answers := []CreatedTopic{{Name: made.Name, Topic: made.Topic, Err: made.Err}}
	if errors.Is(made.Err, meta.ErrTopicExists) { // another broker was faster
		err := b.await(ctx, func(image *meta.Image) bool {
			_, ok := image.Topic(meta.OffsetsTopic)
			return ok
		})
		found, ok := b.Image().Topic(meta.OffsetsTopic)
		if err == nil && !ok {
			err = ErrUnknownTopic
		}
		return found, err
	}
	b.awaitCreated(ctx, answers)
	return answers[0].Topic, answers[0].Err
}

// AskGroup has the coordinator of a group take a request, one of package group's request types, and waits for its answer, which
// has type A. The request belongs to the coordinator. When ctx ends first the request
// may take effect nevertheless.
func AskGroup[A any](ctx context.Context, b *Broker, groupID string, request any) (A, error) {
	return awaitAnswer[A](ctx, b.StartAskGroup(groupID, request))
}

// GroupAnswer is an answer that may not have come yet.
type GroupAnswer struct{ from chan answered }

// answered is what came.
type answered struct {
	answer any
	err    error
}

// StartAskGroup is AskGroup without the wait, so that many groups can be asked at once; see AwaitGroup.
func (b *Broker) StartAskGroup(groupID string, request any) GroupAnswer {
	topic, ok := b.Image().Topic(meta.OffsetsTopic)
	if !ok {
		return groupRefused(fmt.Errorf("%w: there is no topic %s", ErrNotCoordinator, meta.OffsetsTopic))
	}
	return b.groups.ask(int32(groupPartition(groupID, len(topic.Partitions))), request)
}

// AwaitGroup waits for the answer of StartAskGroup.
func AwaitGroup[A any](ctx context.Context, pending GroupAnswer) (A, error) {
	return awaitAnswer[A](ctx, pending)
}

// AskAllGroups has the coordinators of all partitions that this broker leads take a request each, made by request, and returns
// their answers. The error is the first one in the order of partitions, beside the answers of the others.
func AskAllGroups[A any](ctx context.Context, b *Broker, request func() any) ([]A, error) {
	topic, ok := b.Image().Topic(meta.OffsetsTopic)
	if !ok {
		return nil, nil
	}
	var pending []GroupAnswer
	for i := range topic.Partitions {
		if topic.Partitions[i].Leader == b.options.NodeID {
			pending = append(pending, b.groups.ask(int32(i), request()))
		}
	}
	answers := make([]A, 0, len(pending))
	var first error
	for _, p := range pending {
		answer, err := awaitAnswer[A](ctx, p)
		switch {
		case err == nil:
			answers = append(answers, answer)
		case errors.Is(err, ErrNotCoordinator): // another broker has the partition by now
		case first == nil:
			first = err
		}
	}
	return answers, first
}

func (g *groups) ask(partition int32, request any) GroupAnswer {
	pending := GroupAnswer{from: make(chan answered, 1)}
	g.runtime.Ask(partition, request, func(answer any, err error) { pending.from <- answered{answer, err} })
	return pending
}

func groupRefused(err error) GroupAnswer {
	pending := GroupAnswer{from: make(chan answered, 1)}
	pending.from <- answered{err: err}
	return pending
}

func awaitAnswer[A any](ctx context.Context, pending GroupAnswer) (answer A, err error) {
	select {
	case came := <-pending.from:
		if came.err != nil {
			return answer, came.err
		}
		return came.answer.(A), nil
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}

// GroupMetrics returns the figures of the coordinators. REQUIRES: the broker was started.
func (b *Broker) GroupMetrics() *coord.Metrics { return b.groups.runtime.Metrics() }

// CountGroups returns how much the coordinators that are loaded hold.
func (b *Broker) CountGroups(ctx context.Context) (total group.Counts) {
	counts, _ := AskAllGroups[*group.Counts](ctx, b, func() any { return new(group.Count) }) // of the others nothing is known
	for _, c := range counts {
		total.Groups += c.Groups
		total.Offsets += c.Offsets
	}
	return total
}

// groupPartition is the partition of the offsets topic that a group belongs to, as Kafka has it: Java's hash of
// the id, without its sign. Tools that look into the topic count on it.
func groupPartition(groupID string, partitions int) int {
	var hash int32
	for _, r := range groupID {
		if r < 0x10000 {
			hash = 31*hash + r
			continue
		}
		r -= 0x10000 // Java hashes the two halves that it makes of this one
		hash = 31*hash + (0xd800 + r>>10)
		hash = 31*hash + (0xdc00 + r&0x3ff)
	}
	if hash == -1<<31 {
		hash = 0
	}
	return int(max(hash, -hash)) % partitions
}
