package kafka

// AlterConfigs (key 33): versions 0 to 2.
//
//	0    the whole of a resource's configurations (KIP-133): what is not named is unset
//	1    may be throttled
//	2    flexible
//
// It is deprecated, because of two clients that alter at a time one undoes what the other did,
// and still all that kafkajs and aiokafka have.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

func alterConfigs(ctx context.Context, c *call, asked *kmsg.AlterConfigsRequest, answer *kmsg.AlterConfigsResponse) {
	a := newAlteration(c)
	for i := range asked.Resources {
		resource := &asked.Resources[i]
		changes := make([]askedChange, len(resource.Configs))
		for n := range resource.Configs {
			changes[n] = askedChange{name: resource.Configs[n].Name, op: int8(meta.ConfigSet), value: resource.Configs[n].Value}
		}
		a.add(resourceKey{resource.ResourceType, resource.ResourceName}, true, changes)
	}
	answer.Resources = make([]kmsg.AlterConfigsResponseResource, len(a.resources))
	for i, err := range a.run(ctx, asked.ValidateOnly) {
		altered := kmsg.NewAlterConfigsResponseResource()
		altered.ResourceType, altered.ResourceName = a.resources[i].key.kind, a.resources[i].key.name
		altered.ErrorCode, altered.ErrorMessage = c.answerTo(err)
		answer.Resources[i] = altered
	}
}

// quorumTimeout bounds how long a request waits for the quorum that brings no timeout of
// its own; it is what Kafka's brokers give their controller (request.timeout.ms).
const quorumTimeout = 30 * time.Second

// alteration is one request to alter configurations, of either API, on its way.
type alteration struct {
	call      *call
	broker    *broker.Broker
	resources []alteredResource
	named     map[resourceKey]int // how often
}

// alteredResource is one resource of an alteration. The broker is asked unless err says why not.
type alteredResource struct {
	key    resourceKey
	change meta.ConfigAlteration
	err    error
}

func newAlteration(c *call) *alteration {
	return &alteration{call: c, broker: c.session.protocol.broker, named: make(map[resourceKey]int)}
}

// add takes a resource as the request has it.
func (a *alteration) add(key resourceKey, replace bool, changes []askedChange) {
	resource := alteredResource{key: key}
	a.named[key]++
	if resource.change.Changes, resource.err = configChanges(changes); resource.err == nil {
		resource.err = a.resolve(key, &resource.change)
	}
	resource.change.Replace = replace
	a.resources = append(a.resources, resource)
}

// configChanges checks changes as far as that needs no knowledge of the resource.
func configChanges(asked []askedChange) ([]meta.ConfigChange, error) {
	named := make(map[string]bool, len(asked))
	changes := make([]meta.ConfigChange, 0, len(asked))
	var null []string
	for _, one := range asked {
		if named[one.name] {
			return nil, fmt.Errorf("%w: error due to duplicate config keys", errInvalidRequest)
		}
		named[one.name] = true
		op, err := configOp(one.op)
		if err != nil {
			return nil, err
		}
		change := meta.ConfigChange{Name: one.name, Op: op}
		switch {
		case op == meta.ConfigDelete:
		case one.value == nil:
			null = append(null, clip(one.name))
		default:
			change.Value = *one.value
		}
		changes = append(changes, change)
	}
	if len(null) > 0 {
		return nil, fmt.Errorf("%w: null value not supported for: %s", errInvalidRequest, strings.Join(null, ","))
	}
	return changes, nil
}

// resolve finds the resource.
func (a *alteration) resolve(key resourceKey, change *meta.ConfigAlteration) error {
	switch key.kind {
	case kmsg.ConfigResourceTypeTopic:
		change.Scope = meta.ConfigOfTopic
		if key.name == "" {
			return fmt.Errorf("%w: default topic resources are not allowed", errInvalidRequest)
		}
		if err := meta.CheckTopicName(key.name); err != nil {
			return err
		}
		topic, ok := a.broker.Image().Topic(key.name)
		if !ok {
			return fmt.Errorf("%w: the topic '%s' does not exist", broker.ErrUnknownTopic, key.name)
		}
		change.Topic = topic.ID
		return nil
	case kmsg.ConfigResourceTypeBroker:
		change.Scope, change.Broker = meta.ConfigOfBroker, meta.EveryBroker
		if key.name == "" {
			return nil
		}
		id, err := strconv.ParseInt(key.name, 10, 32)
		if err != nil {
			return fmt.Errorf("%w: node id must be an integer, but it is: %s", errInvalidRequest, clip(key.name))
		}
		if int32(id) != a.broker.NodeID() {
			return fmt.Errorf("%w: unexpected broker id, expected %d or an empty string, but received %s", broker.ErrUnknownBroker, a.broker.NodeID(), clip(key.name))
		}
		change.Broker = int32(id)
		return nil
	case kmsg.ConfigResourceTypeGroupConfig:
		change.Scope, change.Group = meta.ConfigOfGroup, key.name
		return nil
	}
	return fmt.Errorf("%w: configurations of resource type %d are not served", errInvalidRequest, key.kind)
}

// run has the sound resources altered and returns what became of each.
func (a *alteration) run(ctx context.Context, validateOnly bool) []error {
	answers := make([]error, len(a.resources))
	var changes []meta.ConfigAlteration
	var at []int
	for i := range a.resources {
		resource := &a.resources[i]
		switch {
		case a.named[resource.key] > 1:
			answers[i] = fmt.Errorf("%w: each resource must appear at most once", errInvalidRequest)
		case resource.err != nil:
			answers[i] = resource.err
		default:
			changes, at = append(changes, resource.change), append(at, i)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, quorumTimeout)
	defer cancel()
	altered, err := a.broker.AlterConfigs(ctx, changes, validateOnly)
	for n, i := range at {
		if answers[i] = err; err == nil {
			answers[i] = ofScope(changes[n].Scope, altered[n])
		}
	}
	return answers
}

// ofScope gives a refused configuration of a broker the code that Kafka's broker has for it:
// INVALID_REQUEST, where a topic's is INVALID_CONFIG (KAFKA-13609 says why that stays).
func ofScope(scope meta.ConfigScope, err error) error {
	if scope == meta.ConfigOfBroker && errors.Is(err, meta.ErrInvalidConfig) {
		return fmt.Errorf("%w: %w", errInvalidRequest, err)
	}
	return err
}
