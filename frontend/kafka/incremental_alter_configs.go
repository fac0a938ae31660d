package kafka

// IncrementalAlterConfigs (key 44): versions 0 to 1.
//
//	0    set, delete, append, subtract (KIP-339)
//	1    flexible
//
// Topics, brokers and groups are altered; what is answered without an error is stored by the
// quorum, and this broker works by it. Each resource is altered as a whole or not at all.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/meta"
)

func incrementalAlterConfigs(ctx context.Context, c *call, asked *kmsg.IncrementalAlterConfigsRequest, answer *kmsg.IncrementalAlterConfigsResponse) {
	a := newAlteration(c)
	for i := range asked.Resources {
		resource := &asked.Resources[i]
		changes := make([]askedChange, len(resource.Configs))
		for n := range resource.Configs {
			config := &resource.Configs[n]
			changes[n] = askedChange{name: config.Name, op: int8(config.Op), value: config.Value}
		}
		a.add(resourceKey{resource.ResourceType, resource.ResourceName}, false, changes)
	}
	answer.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(a.resources))
	for i, err := range a.run(ctx, asked.ValidateOnly) {
		altered := kmsg.NewIncrementalAlterConfigsResponseResource()
		altered.ResourceType, altered.ResourceName = a.resources[i].key.kind, a.resources[i].key.name
		altered.ErrorCode, altered.ErrorMessage = c.answerTo(err)
		answer.Resources[i] = altered
	}
}

// askedChange is one configuration of a request to alter some.
type askedChange struct {
	name  string
	op    int8
	value *string
}

// configOp returns the operation that a request numbers so.
func configOp(number int8) (meta.ConfigOp, error) {
	if number < 0 || number > int8(meta.ConfigSubtract) {
		return 0, fmt.Errorf("%w: unknown operation type %d", errInvalidRequest, number)
	}
	return meta.ConfigOp(number), nil
}
