package brokertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"ringlog/broker"
	"ringlog/engine"
	"ringlog/meta"
	"ringlog/replica"
)

// NodeID is the id of the one broker.
const NodeID = 1

// Options say how a broker is started; the zero value is a broker of a new cluster.
type Options struct {
	Controller *Controller       // nil makes a new cluster
	Configs    map[string]string // the broker's configurations, by Kafka's names
	Host       string            // where clients reach it; "" is 127.0.0.1
	Port       int32             // 0 is 9092
	// OfflineRetryInterval is that of broker.Options.
	OfflineRetryInterval time.Duration
}

// Start starts a broker on store as a server would: it recovers the logs, gets an
// epoch and carries the image out. Stop, which is also called at the end of the test,
// closes it and the store.
func Start(t testing.TB, store engine.API, o Options) (b *broker.Broker, stop func()) {
	t.Helper()
	if o.Controller == nil {
		o.Controller = NewController()
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Port == 0 {
		o.Port = 9092
	}
	defaults, err := meta.NewDefaults(o.Configs)
	if err != nil {
		t.Fatal(err)
	}
	b = broker.New(broker.Options{
		NodeID:               NodeID,
		Engine:               store,
		Controller:           o.Controller,
		NewReplica:           func(string) engine.Replica { return replica.New(replica.Options{}) },
		Defaults:             defaults,
		OfflineRetryInterval: o.OfflineRetryInterval,
	})
	ctx := context.Background()
	epochMax, err := b.Recover(ctx, o.Controller.Image())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Controller.Propose(ctx, meta.StartBroker{ID: NodeID, Host: o.Host, Port: o.Port, LogsEpochMax: epochMax}); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(ctx, o.Controller.Image()); err != nil {
		t.Fatal(err)
	}
	o.Controller.follow(b.Apply)
	stop = sync.OnceFunc(func() {
		o.Controller.follow(nil)
		b.Close()
		if err := store.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return b, stop
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
