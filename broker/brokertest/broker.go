package brokertest

import (
	"context"
	"testing"

	"ringlog/broker"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/replica"
)

// NodeID is the id of the one broker.
const NodeID = 1

// Start starts a broker on store with a controller of its own, closed at the end of
// the test. configs are the broker's configurations by Kafka's names.
func Start(t testing.TB, store engine.API, configs map[string]string) (*broker.Broker, *Controller) {
	t.Helper()
	return StartAt(t, store, configs, "127.0.0.1", 9092)
}

// StartAt is Start for a broker that clients reach at host and port. The engine
// is closed with the broker.
func StartAt(t testing.TB, store engine.API, configs map[string]string, host string, port int32) (*broker.Broker, *Controller) {
	t.Helper()
	defaults, err := meta.NewDefaults(configs)
	if err != nil {
		t.Fatal(err)
	}
	controller := NewController(NodeID, host, port)
	b := broker.New(broker.Options{
		NodeID:     NodeID,
		Engine:     store,
		Controller: controller,
		NewReplica: func(string) engine.Replica { return replica.New(replica.Options{}) },
		Defaults:   defaults,
	})
	if err := b.Start(context.Background(), controller.Image()); err != nil {
		t.Fatal(err)
	}
	controller.Changed = b.Apply
	t.Cleanup(func() {
		b.Close()
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, controller
}

// CreateTopic creates a topic and fails the test if that fails.
func CreateTopic(t testing.TB, b *broker.Broker, name string, partitions int32, configs map[string]string) *meta.Topic {
	t.Helper()
	created, err := b.CreateTopics(context.Background(), []broker.TopicSpec{
		{Name: name, Partitions: partitions, ReplicationFactor: 1, Configs: configs},
	}, false)
	if err == nil {
		err = created[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return created[0].Topic
}
