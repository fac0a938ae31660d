package kafka

// ListConfigResources (key 74): versions 0 to 1.
//
//	0    client metrics resources (KIP-1000): there are none
//	1    resources of any type (KIP-1142)
//
// Listed are topics, brokers, and the groups on which something is set. Loggers and client metrics have no
// configurations here; a type that Kafka does not list either is UNSUPPORTED_VERSION, as there.

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func listConfigResources(_ context.Context, c *call, asked *kmsg.ListConfigResourcesRequest, answer *kmsg.ListConfigResourcesResponse) {
	wanted := asked.ResourceTypes
	switch {
	case asked.Version == 0:
		wanted = []int8{int8(kmsg.ConfigResourceTypeClientMetrics)}
	case len(wanted) == 0:
		wanted = []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeGroupConfig)}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		resource := kmsg.NewListConfigResourcesResponseConfigResource()
		resource.Name, resource.Type = name, int8(kind)
		answer.ConfigResources = append(answer.ConfigResources, resource)
	}
	image := c.session.protocol.broker.Image()
	listed := make(map[int8]bool)
	for _, kind := range wanted {
		if listed[kind] {
			continue
		}
		listed[kind] = true
		switch kind := kmsg.ConfigResourceType(kind); kind {
		case kmsg.ConfigResourceTypeTopic:
			for topic := range image.Topics() {
				add(kind, topic.Name)
			}
		case kmsg.ConfigResourceTypeBroker:
			for _, b := range image.Brokers() {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		case kmsg.ConfigResourceTypeGroupConfig:
			for _, g := range image.GroupsWithConfigs() {
				add(kind, g.Group)
			}
		case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		default:
			answer.ConfigResources = nil
			answer.ErrorCode = c.failed(fmt.Errorf("%w: resource type %d", errUnsupportedVersion, kind))
			return
		}
	}
}
