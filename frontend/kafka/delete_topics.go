package kafka

// DeleteTopics (key 20): versions 1 to 6.
//
//	1    throttle time
//	3    TOPIC_DELETION_DISABLED
//	4    flexible
//	5    error messages (KIP-599)
//	6    topics by name or id (KIP-516): UNKNOWN_TOPIC_ID
//
// An answer without an error says that no request finds the topic any more; its
// files go in the background.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/meta"
)

func deleteTopics(ctx context.Context, c *call, asked *kmsg.DeleteTopicsRequest, answer *kmsg.DeleteTopicsResponse) {
	if asked.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(asked.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	topics := asked.Topics
	for i := range asked.TopicNames {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &asked.TopicNames[i]
		topics = append(topics, topic)
	}
	d := deletion{call: c, version: asked.Version, answer: answer, named: make(map[meta.TopicID]bool)}
	for i := range topics {
		d.find(&topics[i])
	}
	if len(d.ids) == 0 {
		return
	}
	deleted, err := c.session.protocol.broker.DeleteTopics(ctx, d.ids)
	for i := range d.found {
		topic := &d.found[i]
		topicErr := err
		if err == nil {
			topicErr = deleted[i].Err
		}
		d.respond(topic.Topic, topic.TopicID, topicErr)
	}
}

// deletion is one DeleteTopics on its way.
type deletion struct {
	call    *call
	version int16
	answer  *kmsg.DeleteTopicsResponse
	named   map[meta.TopicID]bool
	ids     []meta.TopicID
	found   []kmsg.DeleteTopicsRequestTopic // beside ids
}

// find looks a topic up and answers it at once if there is a fault.
func (d *deletion) find(asked *kmsg.DeleteTopicsRequestTopic) {
	image := d.call.session.protocol.broker.Image()
	id := meta.TopicID(asked.TopicID)
	var topic *meta.Topic
	var err error
	switch {
	case asked.Topic != nil && !id.IsZero():
		err = fmt.Errorf("%w: you may not specify both topic name and topic id", errInvalidRequest)
	case asked.Topic == nil && id.IsZero():
		err = fmt.Errorf("%w: neither topic name nor id were specified", errInvalidRequest)
	case asked.Topic != nil:
		var ok bool
		if topic, ok = image.Topic(*asked.Topic); !ok {
			err = fmt.Errorf("%w: %s", broker.ErrUnknownTopic, clip(*asked.Topic))
		}
	default:
		var ok bool
		if topic, ok = image.TopicByID(id); !ok {
			err = broker.ErrUnknownTopicID
		}
	}
	if err == nil && d.named[topic.ID] {
		err = fmt.Errorf("%w: duplicate topic name", errInvalidRequest)
	}
	if err == nil && !d.call.session.protocol.deleteTopics {
		err = errTopicDeletionOff
		if d.version < 3 {
			err = fmt.Errorf("%w: topic deletion is disabled", errInvalidRequest)
		}
	}
	if err != nil {
		d.respond(asked.Topic, id, err)
		return
	}
	d.named[topic.ID] = true
	d.ids = append(d.ids, topic.ID)
	found := kmsg.NewDeleteTopicsRequestTopic()
	found.Topic, found.TopicID = &topic.Name, topic.ID
	d.found = append(d.found, found)
}

func (d *deletion) respond(name *string, id meta.TopicID, err error) {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID = name, id
	t.ErrorCode, t.ErrorMessage = d.call.answerTo(err)
	d.answer.Topics = append(d.answer.Topics, t)
}
