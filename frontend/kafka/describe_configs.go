package kafka

// DescribeConfigs (key 32): versions 1 to 4.
//
//	1    sources and synonyms (KIP-226)
//	3    types and documentation (KIP-569)
//	4    flexible
//
// Topics, groups (KIP-848) and this broker are described; a broker's name is its node id. The
// empty name has what is set dynamically on all brokers. Values are
// never null but where there is none; secrets always are.

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

func describeConfigs(_ context.Context, c *call, asked *kmsg.DescribeConfigsRequest, answer *kmsg.DescribeConfigsResponse) {
	seen := make(map[resourceKey]bool, len(asked.Resources))
	for i := range asked.Resources {
		resource := &asked.Resources[i]
		// Once each, so that what is answered stays in proportion to what there is.
		key := resourceKey{resource.ResourceType, resource.ResourceName}
		if seen[key] {
			continue
		}
		seen[key] = true
		described := kmsg.NewDescribeConfigsResponseResource()
		described.ResourceType, described.ResourceName = resource.ResourceType, resource.ResourceName
		configs, err := c.describeResource(resource)
		described.ErrorCode, described.ErrorMessage = c.answerTo(err)
		for _, value := range configs {
			described.Configs = append(described.Configs, describeConfig(value, asked))
		}
		answer.Resources = append(answer.Resources, described)
	}
}

// resourceKey names a resource.
type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

// describeResource returns the configurations of one resource that were asked for.
func (c *call) describeResource(asked *kmsg.DescribeConfigsRequestResource) ([]meta.ConfigValue, error) {
	b := c.session.protocol.broker
	wanted := func(name string) bool {
		return asked.ConfigNames == nil || slices.Contains(asked.ConfigNames, name)
	}
	var values []meta.ConfigValue
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := meta.CheckTopicName(asked.ResourceName); err != nil {
			return nil, err
		}
		topic, ok := b.Image().Topic(asked.ResourceName)
		if !ok {
			return nil, fmt.Errorf("%w: %s", broker.ErrUnknownTopic, asked.ResourceName)
		}
		for _, key := range meta.TopicConfigKeys() {
			if wanted(key.Name) {
				values = append(values, b.Defaults().DescribeTopic(topic, key))
			}
		}
	case kmsg.ConfigResourceTypeBroker:
		if asked.ResourceName == "" {
			return slices.DeleteFunc(meta.DescribeEveryBroker(b.Image()), func(v meta.ConfigValue) bool { return !wanted(v.Key.Name) }), nil
		}
		if asked.ResourceName != strconv.Itoa(int(b.NodeID())) {
			return nil, fmt.Errorf("%w: unexpected broker id, expected %d or an empty string, but received %s", broker.ErrUnknownBroker, b.NodeID(), clip(asked.ResourceName))
		}
		for _, key := range meta.BrokerConfigKeys() {
			if wanted(key.Name) {
				values = append(values, b.Defaults().DescribeBroker(key))
			}
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		if asked.ResourceName == "" {
			return nil, fmt.Errorf("%w: group name must not be empty", errInvalidRequest)
		}
		for _, key := range meta.GroupConfigKeys() {
			if wanted(key.Name) {
				values = append(values, b.Defaults().DescribeGroup(b.Image().GroupConfigs(asked.ResourceName), key))
			}
		}
	default:
		return nil, fmt.Errorf("%w: configurations of resource type %d are not served", errInvalidRequest, asked.ResourceType)
	}
	return values, nil
}

func describeConfig(value meta.ConfigValue, asked *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	described := kmsg.NewDescribeConfigsResponseResourceConfig()
	described.Name = value.Key.Name
	described.Value = shownValue(&value, value.Value)
	described.Source = configSource(value.Source)
	described.IsDefault = value.Source == meta.ConfigSourceDefault
	described.IsSensitive = value.Key.Sensitive
	described.ReadOnly = !value.Key.Dynamic
	described.ConfigType = kmsg.ConfigType(value.Key.Type)
	if asked.IncludeDocumentation {
		described.Documentation = &value.Key.Documentation
	}
	if asked.IncludeSynonyms {
		for i := range value.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name = value.Synonyms[i].Name
			synonym.Value = shownValue(&value, value.Synonyms[i].Value)
			synonym.Source = configSource(value.Synonyms[i].Source)
			described.ConfigSynonyms = append(described.ConfigSynonyms, synonym)
		}
	}
	return described
}

func shownValue(value *meta.ConfigValue, text string) *string {
	if value.Null || value.Key.Sensitive {
		return nil
	}
	return &text
}

func configSource(source meta.ConfigSource) kmsg.ConfigSource {
	switch source {
	case meta.ConfigSourceTopic:
		return kmsg.ConfigSourceDynamicTopicConfig
	case meta.ConfigSourceGroup:
		return kmsg.ConfigSourceGroupConfig
	case meta.ConfigSourceBrokerDynamic:
		return kmsg.ConfigSourceDynamicBrokerConfig
	case meta.ConfigSourceEveryBroker:
		return kmsg.ConfigSourceDynamicDefaultBrokerConfig
	case meta.ConfigSourceBroker:
		return kmsg.ConfigSourceStaticBrokerConfig
	case meta.ConfigSourceDefault:
		return kmsg.ConfigSourceDefaultConfig
	}
	panic(fmt.Sprintf("kafka: configuration source %d", source))
}
