package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// set is one configuration to be set.
func set(name, value string) []kadm.AlterConfig {
	return []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}
}

// What was altered is there after a restart: on a topic, on this broker, on all of them, and
// so are partitions that came later.
func TestWhatWasAlteredIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	admin := kadm.NewClient(client(t, s))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	alter := func(altered kadm.AlterConfigsResponses, err error) {
		t.Helper()
		if err == nil {
			err = altered[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	alter(admin.AlterTopicConfigs(t.Context(), set("retention.ms", "777000"), "orders"))
	alter(admin.AlterBrokerConfigs(t.Context(), set("log.segment.bytes", "2097152")))
	alter(admin.AlterBrokerConfigs(t.Context(), set("log.flush.interval.messages", "9"), 1))
	if _, err := admin.UpdatePartitions(t.Context(), 3, "orders"); err != nil {
		t.Fatal(err)
	}
	for life := range 2 {
		producer := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		record := &kgo.Record{Topic: "orders", Partition: 2, Value: []byte("x")}
		if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil || record.Offset != int64(life) {
			t.Errorf("life %d: partition 2 takes a record at offset %d, %v", life, record.Offset, err)
		}
		described, err := kadm.NewClient(client(t, s)).DescribeTopicConfigs(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]kadm.Config)
		for _, config := range described[0].Configs {
			got[config.Key] = config
		}
		for name, want := range map[string]struct {
			value  string
			source kmsg.ConfigSource
		}{
			"retention.ms":   {"777000", kmsg.ConfigSourceDynamicTopicConfig},
			"segment.bytes":  {"2097152", kmsg.ConfigSourceDynamicDefaultBrokerConfig},
			"flush.messages": {"9", kmsg.ConfigSourceDynamicBrokerConfig},
		} {
			if config := got[name]; config.MaybeValue() != want.value || config.Source != want.source {
				t.Errorf("life %d: %s is %s from %v, want %s from %v", life, name, config.MaybeValue(), config.Source, want.value, want.source)
			}
		}
		stop(t, s)
		s = start(t, testConfig(t, dir))
	}
}

// KIP-827 and KIP-595: the volume, and the quorum of one.
func TestDirectoryAndQuorumAreDescribed(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	c := client(t, s)
	// To one broker: what is asked of all is put together without the bytes of the volumes.
	dirs, err := c.Broker(1).RetriableRequest(t.Context(), kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		t.Fatal(err)
	}
	if got := dirs.(*kmsg.DescribeLogDirsResponse).Dirs[0]; got.Dir != filepath.Join(dir, "logs") || got.TotalBytes <= got.UsableBytes || got.UsableBytes <= 0 {
		t.Errorf("directory %+v", got)
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorum.Topics = append(quorum.Topics, topic)
	described, err := quorum.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := described.Topics[0].Partitions[0]
	if described.ErrorCode != 0 || got.ErrorCode != 0 || got.LeaderID != 1 || got.LeaderEpoch < 1 || len(got.CurrentVoters) != 1 ||
		got.CurrentVoters[0].LogEndOffset != got.HighWatermark || len(described.Nodes) != 1 || int(described.Nodes[0].Listeners[0].Port) == 0 {
		t.Errorf("quorum %+v, nodes %+v", got, described.Nodes)
	}
}

// KIP-226: a broker turns connections away by a limit that it was not started with.
func TestTheLimitOfConnectionsChangesWhileTheBrokerRuns(t *testing.T) {
	s := start(t, testConfig(t, t.TempDir()))
	admin := kadm.NewClient(client(t, s))
	limit := func(change []kadm.AlterConfig) {
		t.Helper()
		altered, err := admin.AlterBrokerConfigs(t.Context(), change, 1)
		if err == nil {
			err = altered[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// refused dials until a connection is refused or accepted as wanted.
	refused := func(want bool) {
		t.Helper()
		var dialer net.Dialer
		for began := time.Now(); ; {
			connection, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err = connection.Read(make([]byte, 1))
			_ = connection.Close()
			if got := !errors.Is(err, os.ErrDeadlineExceeded); got == want {
				return
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("connections are refused: %t, want %t", !want, want)
			}
		}
	}
	refused(false)
	limit(set("max.connections", "1"))
	refused(true)
	limit([]kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "max.connections"}})
	refused(false)
}
