package kafka

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker"
	"ringlog/broker/brokertest"
	"ringlog/meta"
	"ringlog/record"
)

// KIP-951: who asks the wrong broker is told the leader, its epoch and where it is.
func TestTheWrongBrokerNamesTheLeader(t *testing.T) {
	s := newScene(t, Options{})
	ctx := context.Background()
	if _, err := s.controller.Propose(ctx, meta.StartBroker{ID: 2, Host: "elsewhere", Port: 9093, LogsEpochMax: -1}); err != nil {
		t.Fatal(err)
	}
	created, err := s.broker.CreateTopics(ctx, []broker.TopicSpec{{Name: "theirs", Replicas: [][]int32{{2}}}}, false)
	if err != nil || created[0].Err != nil {
		t.Fatal(err, created)
	}
	id := created[0].Topic.ID

	produced := ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", id, batch(record.CodecNone, "a")))
	part := produced.Topics[0].Partitions[0]
	if part.ErrorCode != 6 || part.CurrentLeader.LeaderID != 2 || part.CurrentLeader.LeaderEpoch != 0 {
		t.Errorf("produce: code %d, leader %+v", part.ErrorCode, part.CurrentLeader)
	}
	if len(produced.Brokers) != 1 || produced.Brokers[0].NodeID != 2 || produced.Brokers[0].Host != "elsewhere" || produced.Brokers[0].Port != 9093 {
		t.Errorf("produce names the brokers %+v", produced.Brokers)
	}
	fetched := ask[*kmsg.FetchResponse](s.client, fetchRequest(16, "", id, 0))
	if p := fetched.Topics[0].Partitions[0]; p.ErrorCode != 6 || p.CurrentLeader.LeaderID != 2 {
		t.Errorf("fetch: code %d, leader %+v", p.ErrorCode, p.CurrentLeader)
	}
	if len(fetched.Brokers) != 1 || fetched.Brokers[0].NodeID != 2 {
		t.Errorf("fetch names the brokers %+v", fetched.Brokers)
	}
	for _, version := range []int16{12, 15} { // these have the leader, and no endpoints
		older := ask[*kmsg.FetchResponse](s.client, fetchRequest(version, "theirs", id, 0))
		if p := older.Topics[0].Partitions[0]; p.CurrentLeader.LeaderID != 2 || len(older.Brokers) != 0 {
			t.Errorf("fetch version %d: leader %+v, brokers %+v", version, p.CurrentLeader, older.Brokers)
		}
	}
	if got := ask[*kmsg.ProduceResponse](s.client, produceRequest(9, "theirs", [16]byte{}, batch(record.CodecNone, "a"))); got.Topics[0].Partitions[0].ErrorCode != 6 || len(got.Brokers) != 0 {
		t.Errorf("produce version 9 answers %+v", got)
	}
}

// KIP-320: after a leader change, who still has the old epoch is fenced.
func TestAnOlderLeaderEpochIsFenced(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", topic.ID, batch(record.CodecNone, "a")))
	if _, err := s.controller.Propose(context.Background(), meta.StartBroker{ID: brokertest.NodeID, Host: "127.0.0.1", Port: 9092, LogsEpochMax: 5}); err != nil {
		t.Fatal(err)
	}
	for epoch, want := range map[int32]int16{-1: 0, 0: 74, 5: 74, 6: 0, 7: 75} {
		request := fetchRequest(16, "", topic.ID, 0)
		request.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		got := fetched(s, request)
		if got.ErrorCode != want {
			t.Errorf("epoch %d: code %d, want %d", epoch, got.ErrorCode, want)
		}
		if want == 74 && (got.CurrentLeader.LeaderID != brokertest.NodeID || got.CurrentLeader.LeaderEpoch != 6) {
			t.Errorf("epoch %d: the leader is said to be %+v", epoch, got.CurrentLeader)
		}
		if want == 0 && len(got.RecordBatches) == 0 {
			t.Errorf("epoch %d: no records: the log was made anew", epoch)
		}
	}
	// What is appended now carries the new epoch.
	ask[*kmsg.ProduceResponse](s.client, produceRequest(13, "", topic.ID, batch(record.CodecNone, "b")))
	if got := record.Batch(fetched(s, fetchRequest(13, "", topic.ID, 1)).RecordBatches); got.LeaderEpoch() != 6 {
		t.Errorf("the next batch has leader epoch %d, want 6", got.LeaderEpoch())
	}
}
