package kafka

// Metadata (key 3): versions 0 to 13.
//
//	0    an empty list of topics is all of them
//	1    null is all topics, an empty list none; controller id, racks, internal topics
//	2    cluster id
//	4    topics are created on demand only if the request allows it
//	5    offline replicas (KIP-112)
//	7    leader epochs (KIP-320)
//	8    authorized operations, if asked for (KIP-430)
//	9    flexible
//	10   topic ids in the answer, and topics asked for by id (KIP-516): UNKNOWN_TOPIC_ID
//	11   no authorized operations of the cluster any more
//	12   null topic names
//	13   an error for the whole answer (KIP-1102)
//
// A topic that is created on demand is answered UNKNOWN_TOPIC_OR_PARTITION
// without partitions the first time, as Kafka's quorum controllers do; the client
// asks again until it is there.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

// Authorized operations as bits 1<<code of Kafka's AclOperation: without an
// authorizer everybody may do everything that makes sense on the resource.
const (
	operationsNotAsked = -1 << 31
	// READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8,
	// DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
	topicOperations = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	// CREATE 5, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10,
	// ALTER_CONFIGS 11, IDEMPOTENT_WRITE 12.
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func metadata(_ context.Context, c *call, asked *kmsg.MetadataRequest, answer *kmsg.MetadataResponse) {
	image := c.session.protocol.broker.Image()
	for _, b := range image.Brokers() {
		described := kmsg.NewMetadataResponseBroker()
		described.NodeID, described.Host, described.Port, described.Rack = b.ID, b.Host, b.Port, b.Rack
		answer.Brokers = append(answer.Brokers, described)
	}
	answer.ClusterID = kmsg.StringPtr(image.ClusterID)
	answer.ControllerID = image.ControllerID
	answer.AuthorizedOperations = operationsNotAsked
	if asked.IncludeClusterAuthorizedOperations {
		answer.AuthorizedOperations = clusterOperations
	}
	m := metadataAnswer{call: c, asked: asked, image: image}
	if asked.Topics == nil || asked.Version == 0 && len(asked.Topics) == 0 {
		answer.Topics = make([]kmsg.MetadataResponseTopic, 0, image.TopicCount())
		for topic := range image.Topics() {
			answer.Topics = append(answer.Topics, m.describe(topic))
		}
		return
	}
	seen := make(map[topicKey]bool, len(asked.Topics))
	for i := range asked.Topics {
		// Once each: a few bytes that name the same large topic again and again
		// must not make an answer of gigabytes.
		if key := keyOf(&asked.Topics[i]); !seen[key] {
			seen[key] = true
			answer.Topics = append(answer.Topics, m.find(&asked.Topics[i]))
		}
	}
}

// topicKey is how a request names a topic.
type topicKey struct {
	name string
	id   meta.TopicID
}

func keyOf(asked *kmsg.MetadataRequestTopic) topicKey {
	key := topicKey{id: asked.TopicID}
	if asked.Topic != nil {
		key.name = *asked.Topic
	}
	return key
}

// metadataAnswer is one answer in the making.
type metadataAnswer struct {
	call  *call
	asked *kmsg.MetadataRequest
	image *meta.Image
}

// find answers one topic that was asked for, by id if there is one.
func (m *metadataAnswer) find(asked *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	if id := meta.TopicID(asked.TopicID); !id.IsZero() {
		if topic, ok := m.image.TopicByID(id); ok {
			return m.describe(topic)
		}
		return m.refuse(asked, broker.ErrUnknownTopicID)
	}
	if asked.Topic == nil {
		return m.refuse(asked, meta.ErrInvalidTopicName)
	}
	if topic, ok := m.image.Topic(*asked.Topic); ok {
		return m.describe(topic)
	}
	return m.refuse(asked, m.maybeCreate(*asked.Topic))
}

// maybeCreate begins to create a topic that does not exist, if broker and
// client allow it, and returns what the client is told meanwhile.
func (m *metadataAnswer) maybeCreate(name string) error {
	if err := meta.CheckTopicName(name); err != nil {
		return err
	}
	p := m.call.session.protocol
	if !p.autoCreateTopics || m.asked.Version >= 4 && !m.asked.AllowAutoTopicCreation {
		return broker.ErrUnknownTopic
	}
	if err := p.broker.AutoCreateTopic(name); err != nil {
		return err
	}
	return broker.ErrUnknownTopic
}

func (m *metadataAnswer) refuse(asked *kmsg.MetadataRequestTopic, err error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = asked.Topic, asked.TopicID
	t.ErrorCode = m.call.failed(err)
	t.AuthorizedOperations = operationsNotAsked
	return t
}

func (m *metadataAnswer) describe(topic *meta.Topic) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = &topic.Name, topic.ID, topic.Internal
	t.AuthorizedOperations = operationsNotAsked
	if m.asked.IncludeTopicAuthorizedOperations {
		t.AuthorizedOperations = topicOperations
	}
	t.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(topic.Partitions))
	for i := range topic.Partitions {
		from, to := &topic.Partitions[i], &t.Partitions[i]
		*to = kmsg.NewMetadataResponseTopicPartition()
		to.Partition, to.Leader, to.LeaderEpoch = from.ID, from.Leader, from.LeaderEpoch
		to.Replicas, to.ISR = from.Replicas, from.ISR
		for _, id := range from.Replicas {
			if _, registered := m.image.Broker(id); !registered {
				to.OfflineReplicas = append(to.OfflineReplicas, id)
			}
		}
		// A leader that the list of brokers does not have would send clients
		// nowhere.
		if _, registered := m.image.Broker(from.Leader); !registered {
			to.Leader, to.ErrorCode = meta.NoLeader, kerr.LeaderNotAvailable.Code
		}
	}
	return t
}
