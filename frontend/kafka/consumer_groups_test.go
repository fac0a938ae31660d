package kafka

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
)

// joiningBeat is a heartbeat of a member of group g that joins.
func joiningBeat(version int16, member string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := at(version, kmsg.NewPtrConsumerGroupHeartbeatRequest())
	r.Group, r.MemberID, r.RebalanceTimeoutMillis = "g", member, 60_000
	r.SubscribedTopicNames, r.Topics = topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

// KIP-848 on the wire: a member of either version joins, is told all, and leaves. In version 0 the coordinator draws
// the member's id, in version 1 the member does (KIP-1082).
func TestAConsumerGroupMemberJoinsAndLeaves(t *testing.T) {
	s := newGroupScene(t)
	brokertest.CreateTopic(t, s.broker, "orders", 3, nil)
	everyVersion(t, kmsg.ConsumerGroupHeartbeat, func(t *testing.T, version int16) {
		id := []string{"", "drawn-by-the-client"}[version]
		joined := ask[*kmsg.ConsumerGroupHeartbeatResponse](s.client, joiningBeat(version, id, "orders"))
		if joined.ErrorCode != 0 || joined.MemberID == nil || *joined.MemberID == "" || joined.MemberEpoch == 0 || joined.HeartbeatIntervalMillis != 5000 ||
			joined.Assignment == nil || len(joined.Assignment.Topics) != 1 || !slices.Equal(joined.Assignment.Topics[0].Partitions, []int32{0, 1, 2}) {
			t.Fatalf("joined: %+v", joined)
		}
		describe := at(version, kmsg.NewPtrConsumerGroupDescribeRequest())
		describe.Groups, describe.IncludeAuthorizedOperations = []string{"g", "nobody", "g"}, true
		described := ask[*kmsg.ConsumerGroupDescribeResponse](s.client, describe).Groups
		if len(described) != 2 {
			t.Fatalf("%d groups are described", len(described))
		}
		if described[1].ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("a group that is not there: code %d", described[1].ErrorCode)
		}
		g := described[0]
		if g.ErrorCode != 0 || g.State != "Stable" || g.Epoch != joined.MemberEpoch || g.AssignorName != "uniform" || len(g.Members) != 1 || g.AuthorizedOperations == -2147483648 {
			t.Fatalf("described: %+v", g)
		}
		member := g.Members[0]
		if member.MemberID != *joined.MemberID || member.ClientHost == "" || !slices.Equal(member.SubscribedTopics, []string{"orders"}) ||
			member.Assignment.TopicPartitions[0].Topic != "orders" || member.TargetAssignment.TopicPartitions[0].TopicID != joined.Assignment.Topics[0].TopicID {
			t.Errorf("described member: %+v", member)
		}
		if want := []int8{-1, 1}[version]; member.MemberType != want {
			t.Errorf("member type %d, want %d", member.MemberType, want)
		}
		// A classic client does not find it.
		if old := describeGroup6(s.client); old.ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("DescribeGroups: %+v", old)
		}
		leave := at(version, kmsg.NewPtrConsumerGroupHeartbeatRequest())
		leave.Group, leave.MemberID, leave.MemberEpoch = "g", *joined.MemberID, -1
		if left := ask[*kmsg.ConsumerGroupHeartbeatResponse](s.client, leave); left.ErrorCode != 0 || left.MemberEpoch != -1 || left.Assignment != nil {
			t.Errorf("left: %+v", left)
		}
	})
}

func describeGroup6(c *client) kmsg.DescribeGroupsResponseGroup { return describe(c, 6, "g") }

// Each error that KIP-848 names has its code, and a text.
func TestConsumerGroupHeartbeatErrors(t *testing.T) {
	s := newGroupScene(t)
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	expression, unknown, instance := "x(", "sticky", "i"
	for name, row := range map[string]struct {
		change func(*kmsg.ConsumerGroupHeartbeatRequest)
		want   *kerr.Error
	}{
		"no such group":  {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group, r.MemberEpoch = "nobody", 1 }, kerr.GroupIDNotFound},
		"no group":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, kerr.InvalidRequest},
		"no member id":   {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		"unknown member": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "other", 1 }, kerr.UnknownMemberID},
		"fenced":         {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 99 }, kerr.FencedMemberEpoch},
		"no expression":  {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &expression }, kerr.InvalidRegularExpression},
		"no assignor":    {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &unknown }, kerr.UnsupportedAssignor},
		"unreleased":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.InstanceID = "other", &instance }, kerr.UnreleasedInstanceID},
		"fenced instance id": {func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.MemberID, r.InstanceID, r.MemberEpoch = "other", &instance, 1
		}, kerr.FencedInstanceID},
	} {
		first := joiningBeat(1, "m", "orders")
		first.InstanceID = &instance
		if joined := ask[*kmsg.ConsumerGroupHeartbeatResponse](s.client, first); joined.ErrorCode != 0 {
			t.Fatalf("joined: %+v", joined)
		}
		r := joiningBeat(1, "m", "orders")
		row.change(r)
		got := ask[*kmsg.ConsumerGroupHeartbeatResponse](s.client, r)
		if got.ErrorCode != row.want.Code || got.ErrorMessage == nil {
			t.Errorf("%s: %+v, want %v", name, got, row.want)
		}
	}
}

// KIP-848: groups have configurations of their own, within the broker's limits, stored like those of topics.
func TestGroupsHaveConfigurations(t *testing.T) {
	s := newGroupScene(t)
	const ofGroup = kmsg.ConfigResourceTypeGroupConfig
	const session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
	s.expectConfig(ofGroup, "g", session, "45000", kmsg.ConfigSourceDefaultConfig)
	for _, row := range []struct {
		changes []change
		want    int16
	}{
		{[]change{{session, opSet, "50000"}, {heartbeat, opSet, "6000"}}, 0},
		{[]change{{session, opSet, "44999"}}, kerr.InvalidConfig.Code}, // group.consumer.min.session.timeout.ms
		{[]change{{heartbeat, opSet, "15001"}}, kerr.InvalidConfig.Code},
		{[]change{{session, opSet, "soon"}}, kerr.InvalidConfig.Code},
		{[]change{{"retention.ms", opSet, "1"}}, kerr.InvalidConfig.Code},
		{[]change{{heartbeat, opDelete, ""}}, 0},
	} {
		if code, text := s.alter(ofGroup, "g", row.changes...); code != row.want {
			t.Errorf("%+v: code %d (%s), want %d", row.changes, code, text, row.want)
		}
	}
	s.expectConfig(ofGroup, "g", session, "50000", kmsg.ConfigSourceGroupConfig)
	s.expectConfig(ofGroup, "g", heartbeat, "5000", kmsg.ConfigSourceDefaultConfig)
	if code, _ := s.alter(ofGroup, "", change{session, opSet, "50000"}); code != kerr.InvalidRequest.Code {
		t.Errorf("configurations of no group: code %d", code)
	}
	list := at(1, kmsg.NewPtrListConfigResourcesRequest())
	list.ResourceTypes = []int8{int8(ofGroup)}
	if listed := ask[*kmsg.ListConfigResourcesResponse](s.client, list).ConfigResources; len(listed) != 1 || listed[0].Name != "g" {
		t.Errorf("listed: %+v", listed)
	}
	// What is set holds for the members.
	brokertest.CreateTopic(t, s.broker, "orders", 1, nil)
	if code, text := s.alter(ofGroup, "g", change{heartbeat, opSet, "7000"}); code != 0 {
		t.Fatal(text)
	}
	if joined := ask[*kmsg.ConsumerGroupHeartbeatResponse](s.client, joiningBeat(1, "m", "orders")); joined.HeartbeatIntervalMillis != 7000 {
		t.Errorf("joined: %+v", joined)
	}
}

// KIP-584: clients take consumer groups for served when the feature is there. Version 3 is not told of a feature
// that begins at 0.
func TestApiVersionsNamesConsumerGroups(t *testing.T) {
	s := newGroupScene(t)
	for version := int16(0); version <= 5; version++ {
		r := at(version, kmsg.NewPtrApiVersionsRequest())
		r.ClientSoftwareName, r.ClientSoftwareVersion = "tester", "1.0"
		got := ask[*kmsg.ApiVersionsResponse](s.client, r)
		supported, finalized := version >= 4, version >= 3
		if len(got.SupportedFeatures) == 1 != supported || len(got.FinalizedFeatures) == 1 != finalized || got.FinalizedFeaturesEpoch >= 0 != finalized {
			t.Errorf("version %d: %+v %+v at %d", version, got.SupportedFeatures, got.FinalizedFeatures, got.FinalizedFeaturesEpoch)
		}
		if finalized && (got.FinalizedFeatures[0].Name != "group.version" || got.FinalizedFeatures[0].MaxVersionLevel != 1) {
			t.Errorf("version %d: %+v", version, got.FinalizedFeatures)
		}
	}
}
