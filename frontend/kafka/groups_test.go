package kafka

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
)

// newGroupScene is a scene whose groups do not wait for members that might still come, with its coordinator
// found: that creates the topic of committed offsets.
func newGroupScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{engine: brokertest.NewEngine(), controller: brokertest.NewController()}
	s.broker, _ = brokertest.Start(t, s.engine, brokertest.Options{Controller: s.controller, Configs: map[string]string{
		"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3", "group.min.session.timeout.ms": "1000"}})
	s.protocol = New(Options{Broker: s.broker})
	s.client = newClient(t, s.protocol)
	t.Cleanup(func() {
		if s.protocol.metrics.Panics.Load() != 0 {
			t.Error("a handler panicked")
		}
	})
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	if code := ask[*kmsg.FindCoordinatorResponse](s.client, find).ErrorCode; code != 0 {
		t.Fatalf("FindCoordinator: code %d", code)
	}
	for ask[*kmsg.ListGroupsResponse](s.client, kmsg.NewPtrListGroupsRequest()).ErrorCode == 14 { // while it loads
	}
	return s
}

// connect is another connection to the scene's protocol.
func (s *scene) connect() *client { return newClient(s.client.t, s.protocol) }

// member is a member of a classic group on a connection of its own.
type member struct {
	*client
	group, id  string
	generation int32
	leads      bool
	members    []string
}

// joinRequest asks for membership, with metadata and one protocol.
func (m *member) joinRequest(version int16, metadata string) *kmsg.JoinGroupRequest {
	r := at(version, kmsg.NewPtrJoinGroupRequest())
	r.Group, r.MemberID, r.SessionTimeoutMillis, r.ProtocolType = m.group, m.id, 30_000, "consumer"
	r.RebalanceTimeoutMillis = 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte(metadata)
	r.Protocols = append(r.Protocols, protocol)
	return r
}

// join joins, with the id that it is given if need be, and returns the last answer.
func (m *member) join(version int16, metadata string) *kmsg.JoinGroupResponse {
	m.t.Helper()
	answer := ask[*kmsg.JoinGroupResponse](m.client, m.joinRequest(version, metadata))
	if answer.ErrorCode == 79 { // MEMBER_ID_REQUIRED
		m.id = answer.MemberID
		answer = ask[*kmsg.JoinGroupResponse](m.client, m.joinRequest(version, metadata))
	}
	m.joined(answer)
	return answer
}

// joined remembers what the member was told.
func (m *member) joined(answer *kmsg.JoinGroupResponse) {
	m.t.Helper()
	if answer.ErrorCode != 0 || answer.Protocol == nil || *answer.Protocol != "range" {
		m.t.Fatalf("JoinGroup %d: %+v", answer.Version, answer)
	}
	m.id, m.generation, m.leads, m.members = answer.MemberID, answer.Generation, answer.LeaderID == answer.MemberID, nil
	for _, one := range answer.Members {
		m.members = append(m.members, one.MemberID)
	}
}

// syncRequest asks for the assignment. The leader assigns each member its place in the list.
func (m *member) syncRequest(version int16) *kmsg.SyncGroupRequest {
	r := at(version, kmsg.NewPtrSyncGroupRequest())
	protocolType, protocol := "consumer", "range"
	r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = m.group, m.id, m.generation, &protocolType, &protocol
	for i, id := range m.members {
		assignment := kmsg.NewSyncGroupRequestGroupAssignment()
		assignment.MemberID, assignment.MemberAssignment = id, fmt.Append(nil, i)
		r.GroupAssignment = append(r.GroupAssignment, assignment)
	}
	return r
}

func (m *member) heartbeat(version int16) int16 {
	m.t.Helper()
	r := at(version, kmsg.NewPtrHeartbeatRequest())
	r.Group, r.MemberID, r.Generation = m.group, m.id, m.generation
	return ask[*kmsg.HeartbeatResponse](m.client, r).ErrorCode
}

func (m *member) leave(version int16) int16 {
	m.t.Helper()
	r := at(version, kmsg.NewPtrLeaveGroupRequest())
	r.Group, r.MemberID = m.group, m.id
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = m.id
	r.Members = append(r.Members, one)
	answer := ask[*kmsg.LeaveGroupResponse](m.client, r)
	if answer.ErrorCode != 0 || version < 3 {
		return answer.ErrorCode
	}
	return answer.Members[0].ErrorCode
}

func describe(c *client, version int16, group string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	r := at(version, kmsg.NewPtrDescribeGroupsRequest())
	r.Groups = []string{group}
	return ask[*kmsg.DescribeGroupsResponse](c, r).Groups[0]
}

// kafka-map 2: kafka-go lives on version 0 of SyncGroup, Heartbeat and LeaveGroup, librdkafka on 5, 3, 3, 1; they meet in one group.
func TestAMemberLivesInEveryVersion(t *testing.T) {
	s := newGroupScene(t)
	everyVersion(t, kmsg.JoinGroup, func(t *testing.T, version int16) {
		m := &member{client: s.connect(), group: fmt.Sprint("g", version)}
		m.client.t = t
		answer := m.join(version, "subscription")
		if answer.Generation != 1 || !m.leads || len(m.members) != 1 || string(answer.Members[0].ProtocolMetadata) != "subscription" {
			t.Errorf("joined: %+v", answer)
		}
		synced := ask[*kmsg.SyncGroupResponse](m.client, m.syncRequest(min(version, 5)))
		if synced.ErrorCode != 0 || string(synced.MemberAssignment) != "0" {
			t.Errorf("synced: %+v", synced)
		}
		if code := m.heartbeat(min(version, 4)); code != 0 {
			t.Errorf("heartbeat: code %d", code)
		}
		if got := describe(m.client, min(version, 6), m.group); got.State != "Stable" || got.Protocol != "range" || len(got.Members) != 1 || got.Members[0].ClientHost != "/127.0.0.1" {
			t.Errorf("described: %+v", got)
		}
		if code := m.leave(min(version, 5)); code != 0 {
			t.Errorf("leave: code %d", code)
		}
		if got := describe(m.client, min(version, 6), m.group); got.State != "Empty" || len(got.Members) != 0 {
			t.Errorf("described after it left: %+v", got)
		}
	})
}

// Two members share a group: the one that is there finds out by its heartbeat, its JoinGroup waits for nobody but the
// other, and what they said of themselves is theirs, whatever became of the frames that it came in.
func TestTwoMembersShareAGroup(t *testing.T) {
	s := newGroupScene(t)
	first, second := &member{client: s.connect(), group: "g"}, &member{client: s.connect(), group: "g"}
	first.join(9, "of the first")
	ask[*kmsg.SyncGroupResponse](first.client, first.syncRequest(5))

	required := ask[*kmsg.JoinGroupResponse](second.client, second.joinRequest(9, "of the second"))
	if required.ErrorCode != 79 || required.MemberID == "" {
		t.Fatalf("JoinGroup without an id: %+v, want MEMBER_ID_REQUIRED", required)
	}
	second.id = required.MemberID
	request := second.joinRequest(9, "of the second")
	second.send(request)
	for first.heartbeat(4) == 0 { // until the coordinator has taken the second's JoinGroup
	}
	if code := first.heartbeat(4); code != 27 {
		t.Fatalf("heartbeat: code %d, want REBALANCE_IN_PROGRESS (27)", code)
	}
	first.join(9, "of the first")
	second.joined(decode(t, request, second.next(request)).(*kmsg.JoinGroupResponse))
	if first.generation != 2 || second.generation != 2 || !first.leads || second.leads || len(first.members) != 2 || len(second.members) != 0 {
		t.Fatalf("first %+v, second %+v", first, second)
	}

	waiting := second.syncRequest(5)
	second.send(waiting)
	mine := ask[*kmsg.SyncGroupResponse](first.client, first.syncRequest(5))
	theirs := decode(t, waiting, second.next(waiting)).(*kmsg.SyncGroupResponse)
	if got := []string{string(mine.MemberAssignment), string(theirs.MemberAssignment)}; !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("assigned %q", got)
	}
	for range 50 { // other frames in the memory of the first ones
		first.heartbeat(4)
		second.heartbeat(4)
	}
	metadata := map[string]string{}
	for _, one := range describe(first.client, 6, "g").Members {
		metadata[one.MemberID] = string(one.ProtocolMetadata) + " " + string(one.MemberAssignment)
	}
	if metadata[first.id] != "of the first 0" || metadata[second.id] != "of the second 1" {
		t.Errorf("described: %q", metadata)
	}
}

// A connection that closes while its JoinGroup waits takes nobody out of the group: the client may come
// back on another one.
func TestAClosedConnectionLeavesItsMemberInTheGroup(t *testing.T) {
	s := newGroupScene(t)
	first, second := &member{client: s.connect(), group: "g"}, &member{client: s.connect(), group: "g"}
	first.join(9, "first")
	ask[*kmsg.SyncGroupResponse](first.client, first.syncRequest(5))
	second.send(second.joinRequest(3, "second"))
	for first.heartbeat(4) == 0 {
	}
	second.session.Closed(net.ErrClosed)
	first.join(9, "first")
	if len(first.members) != 2 {
		t.Errorf("members %q, want the one whose connection closed among them", first.members)
	}
}

// Kafka's codes for what members ask in vain.
func TestGroupRequestsAreRefusedWithKafkasCodes(t *testing.T) {
	s := newGroupScene(t)
	stranger := &member{client: s.client, group: "g", id: "nobody", generation: 1}
	nameless := &member{client: s.client}
	short := (&member{client: s.client, group: "g"}).joinRequest(9, "x")
	short.SessionTimeoutMillis = 999
	mute := stranger.syncRequest(5)
	mute.ProtocolType = nil
	typeless := (&member{client: s.client, group: "g"}).joinRequest(2, "x")
	typeless.ProtocolType = ""
	for what, c := range map[string]struct{ got, want int16 }{
		"JoinGroup without a group":            {ask[*kmsg.JoinGroupResponse](s.client, nameless.joinRequest(9, "x")).ErrorCode, 24},
		"JoinGroup of a stranger":              {ask[*kmsg.JoinGroupResponse](s.client, stranger.joinRequest(9, "x")).ErrorCode, 25},
		"JoinGroup with a short session":       {ask[*kmsg.JoinGroupResponse](s.client, short).ErrorCode, 26},
		"JoinGroup without a type of protocol": {ask[*kmsg.JoinGroupResponse](s.client, typeless).ErrorCode, 23},
		"SyncGroup of an unknown group":        {ask[*kmsg.SyncGroupResponse](s.client, stranger.syncRequest(3)).ErrorCode, 25},
		"SyncGroup 5 without its protocol":     {ask[*kmsg.SyncGroupResponse](s.client, mute).ErrorCode, 23},
		"SyncGroup without a group":            {ask[*kmsg.SyncGroupResponse](s.client, nameless.syncRequest(5)).ErrorCode, 24},
		"Heartbeat of an unknown group":        {stranger.heartbeat(4), 25},
		"Heartbeat without a group":            {nameless.heartbeat(0), 24},
		"LeaveGroup 2 of an unknown group":     {stranger.leave(2), 25},
		"LeaveGroup 5 of an unknown group":     {stranger.leave(5), 25},
		"LeaveGroup without a group":           {nameless.leave(5), 24},
	} {
		if c.got != c.want {
			t.Errorf("%s: code %d, want %d", what, c.got, c.want)
		}
	}
}

// KIP-1043: from DescribeGroups 6 on a group that is not there is an error with a message; before it is Dead. KIP-430: operations
// are named if asked for.
func TestDescribeGroupsOfWhatIsNotThere(t *testing.T) {
	s := newGroupScene(t)
	everyVersion(t, kmsg.DescribeGroups, func(t *testing.T, version int16) {
		got := describe(s.client, version, "missing")
		want := int16(0)
		if version >= 6 {
			want = 69
		}
		if got.ErrorCode != want || got.State != "Dead" || (got.ErrorMessage != nil) != (version >= 6) || got.AuthorizedOperations != operationsNotAsked {
			t.Errorf("%+v", got)
		}
	})
	(&member{client: s.client, group: "g"}).join(9, "x")
	r := at(6, kmsg.NewPtrDescribeGroupsRequest())
	r.Groups, r.IncludeAuthorizedOperations = []string{"g"}, true
	if got := ask[*kmsg.DescribeGroupsResponse](s.client, r).Groups[0].AuthorizedOperations; got != groupOperations {
		t.Errorf("operations %b, want %b", got, groupOperations)
	}
}

// KIP-518 and KIP-848: ListGroups filters by state and by type, over all partitions of the coordinator; KIP-229: groups
// without members are deleted.
func TestGroupsAreListedAndDeleted(t *testing.T) {
	s := newGroupScene(t)
	for i := range 5 {
		m := &member{client: s.client, group: fmt.Sprint("g", i)}
		m.join(9, "x")
		ask[*kmsg.SyncGroupResponse](s.client, m.syncRequest(5))
		if i >= 3 {
			m.leave(5)
		}
	}
	list := func(version int16, states, types []string) (ids []string) {
		r := at(version, kmsg.NewPtrListGroupsRequest())
		r.StatesFilter, r.TypesFilter = states, types
		for _, one := range ask[*kmsg.ListGroupsResponse](s.client, r).Groups {
			if one.ProtocolType != "consumer" || version >= 5 && one.GroupType != "classic" {
				t.Errorf("listed: %+v", one)
			}
			ids = append(ids, one.Group)
		}
		slices.Sort(ids)
		return ids
	}
	for what, c := range map[string]struct{ got, want []string }{
		"all":          {list(0, nil, nil), []string{"g0", "g1", "g2", "g3", "g4"}},
		"stable":       {list(4, []string{"stable"}, nil), []string{"g0", "g1", "g2"}},
		"empty":        {list(5, []string{"Empty"}, []string{"Classic"}), []string{"g3", "g4"}},
		"of consumers": {list(5, nil, []string{"consumer"}), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	everyVersion(t, kmsg.DeleteGroups, func(t *testing.T, version int16) {
		r := at(version, kmsg.NewPtrDeleteGroupsRequest())
		r.Groups = []string{"g0", "g3", "g3", "missing"}
		codes := map[string]int16{}
		for _, one := range ask[*kmsg.DeleteGroupsResponse](s.client, r).Groups {
			codes[one.Group] = one.ErrorCode
		}
		gone := int16(0)
		if version > 0 {
			gone = 69 // the first version has deleted it
		}
		if len(codes) != 3 || codes["g0"] != 68 || codes["g3"] != gone || codes["missing"] != 69 {
			t.Errorf("codes %v", codes)
		}
	})
}

// A broker that stops does not wait for members: who waits is told to look for another coordinator.
func TestWaitingMembersAreSentAwayWhenTheBrokerStops(t *testing.T) {
	s := newGroupScene(t)
	m := &member{client: s.connect(), group: "g"}
	m.join(9, "x")
	ask[*kmsg.SyncGroupResponse](m.client, m.syncRequest(5))
	other := &member{client: s.connect(), group: "g"}
	request := other.joinRequest(3, "y")
	other.send(request)
	for m.heartbeat(4) == 0 {
	}
	s.broker.StopGroups()
	if code := decode(t, request, other.next(request)).(*kmsg.JoinGroupResponse).ErrorCode; code != 16 {
		t.Errorf("code %d, want NOT_COORDINATOR (16)", code)
	}
}

// groupRequests are requests of groups in every version, of a member that is not there.
func groupRequests() map[kmsg.Key]func(version int16) kmsg.Request {
	stranger := &member{group: "g", id: "nobody"}
	return map[kmsg.Key]func(version int16) kmsg.Request{
		kmsg.ConsumerGroupHeartbeat: func(version int16) kmsg.Request { return joiningBeat(version, "m", "orders") },
		kmsg.ConsumerGroupDescribe: func(int16) kmsg.Request {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Groups = []string{"g", "nobody"}
			return r
		},
		kmsg.JoinGroup: func(version int16) kmsg.Request { return stranger.joinRequest(version, "metadata") },
		kmsg.SyncGroup: func(version int16) kmsg.Request { return stranger.syncRequest(version) },
		kmsg.Heartbeat: func(int16) kmsg.Request {
			r := kmsg.NewPtrHeartbeatRequest()
			r.Group, r.MemberID = "g", "nobody"
			return r
		},
		kmsg.LeaveGroup: func(int16) kmsg.Request {
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Group, r.MemberID = "g", "nobody"
			r.Members = make([]kmsg.LeaveGroupRequestMember, 2)
			return r
		},
		kmsg.DescribeGroups: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = []string{"g", "missing"}
			return r
		},
		kmsg.ListGroups: func(int16) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.StatesFilter, r.TypesFilter = []string{"Stable"}, []string{"classic"}
			return r
		},
		kmsg.DeleteGroups: func(int16) kmsg.Request {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = []string{"missing"}
			return r
		},
	}
}
