package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// churnNames are few, so that names come back soon after they went.
const churnNames, churnPrefix = 8, "churn-"

// churn creates topics, puts records into them and deletes them.
type churn struct {
	topics           *Topics
	created, deleted atomic.Int64
	records          atomic.Int64
}

// life is one run of a churn, until its broker ends.
type life struct {
	*churn
	t       *testing.T
	address string
	plug    *plug
	admin   *kadm.Client
	dice    *rand.Rand
	stop    context.CancelFunc
	wait    sync.WaitGroup
}

func (c *churn) start(t *testing.T, address string, plug *plug, dice *rand.Rand) *life {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &life{
		churn: c, t: t, address: address, plug: plug, stop: stop, dice: dice,
		admin: kadm.NewClient(newClient(t, address, kgo.Dialer(plug.dial), kgo.RequestRetries(0))),
	}
	l.wait.Go(func() {
		for ctx.Err() == nil {
			if err := l.act(ctx); err != nil {
				if !plug.isOut() {
					t.Errorf("topics: %v", err)
				}
				return
			}
		}
	})
	return l
}

// finish ends a life whose broker hears nothing any more.
func (l *life) finish() {
	l.stop()
	l.wait.Wait()
	l.admin.Close()
}

// act does one thing to one topic.
func (l *life) act(ctx context.Context) error {
	name := fmt.Sprint(churnPrefix, l.dice.IntN(churnNames))
	switch {
	case !l.topics.Exists(name):
		l.topics.AskCreate(name)
		if _, err := l.admin.CreateTopic(ctx, 1+l.dice.Int32N(3), 1, nil, name); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		l.topics.Created(name)
		l.created.Add(1)
	case l.dice.IntN(3) == 0:
		l.topics.AskDelete(name)
		if _, err := l.admin.DeleteTopic(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		l.topics.Deleted(name)
		l.deleted.Add(1)
	default:
		l.topics.Send(name)
		if err := l.produce(ctx, name); err != nil {
			return fmt.Errorf("produce to %s: %w", name, err)
		}
		l.topics.Acknowledge(name)
		l.records.Add(1)
	}
	return nil
}

// produce sends one record, once. Its client is new: an older one remembers the
// topic that had the name before.
func (l *life) produce(ctx context.Context, name string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.address), kgo.Dialer(l.plug.dial),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte(name)}).FirstErr()
}

// check looks for the topics.
func (c *churn) check(t *testing.T, address string) {
	t.Helper()
	client := newClient(t, address)
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	listed, err := admin.ListTopics(ctx)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		t.Fatalf("listing topics: %v", err)
	}
	found := map[string]int64{}
	for name := range listed {
		if strings.HasPrefix(name, churnPrefix) {
			found[name] = 0
		}
	}
	if len(found) > 0 { // without a name, all are listed
		ends, err := admin.ListEndOffsets(ctx, sortedKeys(found)...)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			t.Fatalf("asking for the ends of topics: %v", err)
		}
		ends.Each(func(end kadm.ListedOffset) { found[end.Topic] += end.Offset })
	}
	for _, anomaly := range c.topics.Check(found) {
		t.Error(anomaly)
	}
}
