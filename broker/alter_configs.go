package broker

import (
	"context"
	"fmt"
	"slices"

	"ringlog/meta"
)

// AlterConfigs changes configurations of topics, brokers and groups, each resource succeeding or
// failing for itself, and returns when this broker works by them. Base of changes is
// filled in here. Answers come in the order of alterations; the error is that of the
// request as a whole.
func (b *Broker) AlterConfigs(ctx context.Context, alterations []meta.ConfigAlteration, validateOnly bool) ([]error, error) {
	ctx, cancel := b.withClosing(ctx)
	defer cancel()
	answers := make([]error, len(alterations))
	image := b.Image()
	var command meta.AlterConfigs
	var at []int // of each resource in command, its place in answers
	for i := range alterations {
		withBases(&alterations[i])
		answers[i] = image.CheckAlteration(&alterations[i])
		if answers[i] == nil && alterations[i].Scope == meta.ConfigOfGroup {
			answers[i] = b.Defaults().CheckGroupLimits(image, &alterations[i])
		}
		if answers[i] == nil {
			command.Resources = append(command.Resources, alterations[i])
			at = append(at, i)
		}
	}
	if len(command.Resources) == 0 || validateOnly {
		return answers, nil
	}
	result, err := b.options.Controller.Propose(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("%w: alter configurations: %w", ErrControlPlane, err)
	}
	altered := result.(meta.AlterConfigsResult)
	for n, r := range altered.Resources {
		answers[at[n]] = r.Err
	}
	return answers, b.awaitIndex(ctx, altered.Index)
}

// withBases fills in from what lists start that are not set.
func withBases(a *meta.ConfigAlteration) {
	lookup := meta.TopicConfigKey
	switch a.Scope {
	case meta.ConfigOfBroker:
		lookup = meta.BrokerConfigKey
	case meta.ConfigOfGroup:
		lookup = meta.GroupConfigKey
	}
	for n := range a.Changes {
		change := &a.Changes[n]
		if change.Op != meta.ConfigAppend && change.Op != meta.ConfigSubtract {
			continue
		}
		if key, known := lookup(change.Name); known {
			change.Base = key.Default
		}
	}
}

// concerns reports whether this broker's defaults change when the configurations of
// those brokers did.
func (b *Broker) concerns(changed []int32) bool {
	return slices.Contains(changed, b.options.NodeID) || slices.Contains(changed, meta.EveryBroker)
}
