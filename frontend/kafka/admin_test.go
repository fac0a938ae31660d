package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
)

// asked sends a request as it is, to the one broker.
func asked[R kmsg.Response](h *house, request kmsg.Request) R {
	h.t.Helper()
	response, err := h.client().Broker(brokertest.NodeID).RetriableRequest(h.context(), request)
	if err != nil {
		h.t.Fatal(err)
	}
	return response.(R)
}

// KIP-113: sizes are those of what is stored; what is unknown is left out.
func TestDescribeLogDirsShowsWhatIsStored(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 2, nil)
	h.topic("other", 1, nil)
	h.produceAll(h.client(kgo.ProducerBatchCompression(kgo.NoCompression())), &kgo.Record{Topic: "orders", Partition: 1, Value: make([]byte, 5000)})
	describe := func(topics []kmsg.DescribeLogDirsRequestTopic) (sizes []string) {
		request := kmsg.NewPtrDescribeLogDirsRequest()
		request.Topics = topics
		for _, dir := range asked[*kmsg.DescribeLogDirsResponse](h, request).Dirs {
			for _, topic := range dir.Topics {
				for _, p := range topic.Partitions {
					sizes = append(sizes, fmt.Sprintf("%s-%d %t lag %d", topic.Topic, p.Partition, p.Size >= 5000, p.OffsetLag))
				}
			}
		}
		return sizes
	}
	if got, want := describe(nil), []string{"orders-0 false lag 0", "orders-1 true lag 0", "other-0 false lag 0"}; !slices.Equal(got, want) {
		t.Errorf("all: %v, want %v", got, want)
	}
	some := []kmsg.DescribeLogDirsRequestTopic{{Topic: "orders", Partitions: []int32{1, 1, 77}}, {Topic: "missing", Partitions: []int32{0}}}
	if got, want := describe(some), []string{"orders-1 true lag 0"}; !slices.Equal(got, want) {
		t.Errorf("some: %v, want %v", got, want)
	}
}

// KIP-664: an idempotent producer is shown with its last sequence, also after a restart.
func TestDescribeProducersShowsWhoAppended(t *testing.T) {
	h := startHouse(t)
	h.topic("orders", 2, nil)
	producer := h.client()
	for range 3 {
		h.produceAll(producer, &kgo.Record{Topic: "orders", Value: []byte("x")})
	}
	id, epoch, err := producer.ProducerID(h.context())
	if err != nil {
		t.Fatal(err)
	}
	producer.Close()
	for life := range 2 {
		request := kmsg.NewPtrDescribeProducersRequest()
		request.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "orders", Partitions: []int32{0, 1, 77}}, {Topic: "missing", Partitions: []int32{0}}}
		described := asked[*kmsg.DescribeProducersResponse](h, request).Topics
		got := described[0].Partitions
		if len(got[0].ActiveProducers) != 1 {
			t.Fatalf("life %d: partition 0 has %+v", life, got[0])
		}
		one := got[0].ActiveProducers[0]
		if one.ProducerID != id || one.ProducerEpoch != int32(epoch) || one.LastSequence != 2 || one.LastTimestamp <= 0 || one.CurrentTxnStartOffset != -1 || one.CoordinatorEpoch != -1 {
			t.Errorf("life %d: partition 0 has %+v, want producer %d at sequence 2", life, one, id)
		}
		if got[1].ErrorCode != 0 || len(got[1].ActiveProducers) != 0 || got[2].ErrorCode != 3 || described[1].Partitions[0].ErrorCode != 3 {
			t.Errorf("life %d: %+v", life, described)
		}
		h.restart()
	}
}

// KIP-1142: topics and brokers by type, client metrics in version 0.
func TestListConfigResources(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "b", 1, nil)
	brokertest.CreateTopic(t, s.broker, "a", 1, nil)
	for _, c := range []struct {
		version int16
		types   []int8
		want    string
		code    int16
	}{
		{0, nil, "", 0},
		{1, nil, "a/2 b/2 1/4", 0},
		{1, []int8{4, 4, 16}, "1/4", 0},
		{1, []int8{2, 99}, "", 35},
	} {
		request := at(c.version, kmsg.NewPtrListConfigResourcesRequest())
		request.ResourceTypes = c.types
		got := ask[*kmsg.ListConfigResourcesResponse](s.client, request)
		var names []string
		for _, r := range got.ConfigResources {
			names = append(names, fmt.Sprintf("%s/%d", r.Name, r.Type))
		}
		if strings.Join(names, " ") != c.want || got.ErrorCode != c.code {
			t.Errorf("version %d, types %v: %v, code %d; want %q, %d", c.version, c.types, names, got.ErrorCode, c.want, c.code)
		}
	}
}

// KIP-966: pages of any size put together are the whole, each topic and partition once.
func TestDescribeTopicPartitionsGoesPageByPage(t *testing.T) {
	s := newScene(t, Options{})
	for name, partitions := range map[string]int32{"a": 3, "b": 1, "c": 4} {
		brokertest.CreateTopic(t, s.broker, name, partitions, nil)
	}
	read := func(limit int32, names ...string) (got []string, pages int) {
		var cursor *kmsg.DescribeTopicPartitionsRequestCursor
		for {
			request := kmsg.NewPtrDescribeTopicPartitionsRequest()
			request.ResponsePartitionLimit, request.Cursor = limit, cursor
			for _, name := range names {
				asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
				asked.Topic = name
				request.Topics = append(request.Topics, asked)
			}
			answer := ask[*kmsg.DescribeTopicPartitionsResponse](s.client, request)
			pages++
			for _, topic := range answer.Topics {
				if topic.ErrorCode != 0 {
					got = append(got, fmt.Sprintf("%s:%d", *topic.Topic, topic.ErrorCode))
				}
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprintf("%s-%d", *topic.Topic, p.Partition))
					if p.LeaderID != 1 || len(p.ISR) != 1 || p.EligibleLeaderReplicas == nil {
						t.Errorf("%+v", p)
					}
				}
			}
			if answer.NextCursor == nil {
				return got, pages
			}
			cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: answer.NextCursor.Topic, Partition: answer.NextCursor.Partition}
		}
	}
	all := "a-0 a-1 a-2 b-0 c-0 c-1 c-2 c-3"
	for limit, want := range map[int32]int{0: 8, 1: 8, 2: 4, 3: 3, 4: 2, 8: 1, 2000: 1} {
		if got, pages := read(limit); strings.Join(got, " ") != all || pages != want {
			t.Errorf("pages of %d: %v in %d pages, want %d", limit, got, pages, want)
		}
	}
	if got, _ := read(2, "c", "missing", "a", "c", "bad name!"); strings.Join(got, " ") != "a-0 a-1 a-2 bad name!:17 c-0 c-1 c-2 c-3 missing:3" {
		t.Errorf("by name: %v", got)
	}
	request := kmsg.NewPtrDescribeTopicPartitionsRequest()
	request.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "a", Partition: -1}
	if got := ask[*kmsg.DescribeTopicPartitionsResponse](s.client, request).Topics[0].ErrorCode; got != 42 {
		t.Errorf("a cursor before the first partition: code %d", got)
	}
}

// KIP-460: on one broker whoever can lead does.
func TestElectLeadersHasNothingToDo(t *testing.T) {
	s := newScene(t, Options{})
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	elect := func(kind int8, topics ...string) *kmsg.ElectLeadersResponse {
		request := at(2, kmsg.NewPtrElectLeadersRequest())
		request.ElectionType = kind
		for _, name := range topics {
			asked := kmsg.NewElectLeadersRequestTopic()
			asked.Topic, asked.Partitions = name, []int32{0, 1}
			request.Topics = append(request.Topics, asked)
		}
		return ask[*kmsg.ElectLeadersResponse](s.client, request)
	}
	for kind := range int8(2) {
		got := elect(kind, "orders", "missing")
		if p := got.Topics[0].Partitions; p[0].ErrorCode != 84 || p[1].ErrorCode != 3 || got.Topics[1].Partitions[0].ErrorCode != 3 {
			t.Errorf("type %d: %+v", kind, got.Topics)
		}
	}
	if got := elect(0); len(got.Topics) != 0 || got.ErrorCode != 0 {
		t.Errorf("all partitions: %+v", got)
	}
	if got := elect(5, "orders"); got.ErrorCode != 42 {
		t.Errorf("an unknown type: code %d", got.ErrorCode)
	}
	reassignments := ask[*kmsg.ListPartitionReassignmentsResponse](s.client, kmsg.NewPtrListPartitionReassignmentsRequest())
	if reassignments.ErrorCode != 0 || len(reassignments.Topics) != 0 {
		t.Errorf("reassignments: %+v", reassignments)
	}
}

// KIP-1242: a client that was led to the wrong broker hears so.
func TestApiVersionsChecksWhomTheClientMeans(t *testing.T) {
	s := newScene(t, Options{})
	ours, other := s.broker.Image().ClusterID, "other"
	for _, c := range []struct {
		cluster *string
		node    int32
		want    int16
	}{{nil, -1, 0}, {&ours, 1, 0}, {&other, 1, 129}, {&ours, 2, 129}, {&ours, -1, 42}, {nil, 1, 42}} {
		request := at(5, kmsg.NewPtrApiVersionsRequest())
		request.ClientSoftwareName, request.ClientSoftwareVersion = "tester", "1"
		request.ClusterID, request.NodeID = c.cluster, c.node
		if got := ask[*kmsg.ApiVersionsResponse](s.client, request); got.ErrorCode != c.want || (len(got.ApiKeys) == 0) == (c.want == 0) {
			t.Errorf("%+v: code %d with %d keys", c, got.ErrorCode, len(got.ApiKeys))
		}
	}
}

// As with Kafka's broker without an authorizer: everything about ACLs is SECURITY_DISABLED, each
// answered for itself.
func TestWithoutAnAuthorizerACLsAreDisabled(t *testing.T) {
	s := newScene(t, Options{})
	if got := ask[*kmsg.DescribeACLsResponse](s.client, at(3, kmsg.NewPtrDescribeACLsRequest())); got.ErrorCode != 54 || got.ErrorMessage == nil {
		t.Errorf("describe: %+v", got)
	}
	create := at(3, kmsg.NewPtrCreateACLsRequest())
	create.Creations = []kmsg.CreateACLsRequestCreation{kmsg.NewCreateACLsRequestCreation(), kmsg.NewCreateACLsRequestCreation()}
	if got := ask[*kmsg.CreateACLsResponse](s.client, create).Results; len(got) != 2 || got[1].ErrorCode != 54 {
		t.Errorf("create: %+v", got)
	}
	remove := at(3, kmsg.NewPtrDeleteACLsRequest())
	remove.Filters = []kmsg.DeleteACLsRequestFilter{kmsg.NewDeleteACLsRequestFilter()}
	if got := ask[*kmsg.DeleteACLsResponse](s.client, remove).Results; len(got) != 1 || got[0].ErrorCode != 54 {
		t.Errorf("delete: %+v", got)
	}
}
