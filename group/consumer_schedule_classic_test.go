package group

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
	"ringlog/group/assign"
	"ringlog/meta"
)

// classicMillis is the session timeout of clients of the classic protocol.
const classicMillis = 45_000

// classicState is what a client of the classic protocol knows beside what all clients know. Its generation is in epoch.
type classicState struct {
	speaks bool // the classic protocol
	// waits is the token of the request in which it waits, or 0; joins says that this is JoinGroup.
	waits uint64
	joins bool
	// rejoin: it has to join; unsynced: it has to ask for its assignment; leads: it is the leader, of these.
	rejoin, unsynced bool
	leads            []JoinedMember
	// seen is the image in which a leader found the topics' partitions: with another it joins again.
	seen uint64
}

// isUnderWay says that a client of the classic protocol has not got what it wants yet, or hangs and has not noticed that its
// session is over.
func (c *scheduledClient) isUnderWay() bool {
	at := &c.classic
	if c.silent {
		return at.speaks && len(c.owned) > 0
	}
	return at.speaks && (!c.in || at.waits != 0 || at.rejoin || at.unsynced)
}

// classicTurn is what a client of the classic protocol does next.
func (s *schedule) classicTurn(client *scheduledClient) {
	at := &client.classic
	switch {
	case at.waits != 0 && !s.calm && s.one(200): // it has waited long enough, and asks again
		at.waits, at.rejoin = 0, true
	case at.waits != 0:
	case !client.in || at.rejoin:
		s.classicJoin(client)
	case at.unsynced:
		s.classicSync(client)
	case at.leads != nil && at.seen != s.topics.image.Index:
		s.classicJoin(client)
	case !s.calm && s.one(60):
		s.subscribe(client)
		s.classicJoin(client)
	default:
		s.classicAsk(client, &Heartbeat{GroupID: "g", MemberID: client.id, InstanceID: client.instanceID(), Generation: client.epoch})
	}
}

func (c *scheduledClient) instanceID() *string {
	if c.instance == "" {
		return nil
	}
	return &c.instance
}

// classicJoin joins: by the eager protocol with nothing, by the cooperative one with what the client has.
func (s *schedule) classicJoin(client *scheduledClient) {
	if client.names == nil {
		s.subscribe(client)
	}
	if !client.in || !s.cooperative {
		s.consume(client, nil)
	}
	metadata := kmsg.ConsumerMemberMetadata{Version: 1, Topics: client.names}
	for _, of := range client.owned {
		if topic, ok := s.topics.image.TopicByID(of.Topic); ok {
			metadata.OwnedPartitions = append(metadata.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic.Name, Partitions: of.Partitions})
		}
	}
	s.drawn++
	client.classic.joins = true
	s.classicAsk(client, &Join{
		GroupID: "g", MemberID: client.id, InstanceID: client.instanceID(), NewMemberID: fmt.Sprint(s.drawn), ClientID: "old", ClientHost: "/127.0.0.1",
		SessionTimeoutMillis: classicMillis, RebalanceTimeoutMillis: rebalanceMillis, ProtocolType: protocolTypeConsumer,
		Protocols: []Protocol{{Name: "sticky", Metadata: metadata.AppendTo(nil)}}, RequireMemberID: s.one(2),
	})
}

// classicSync asks for the assignment; a leader brings everybody's.
func (s *schedule) classicSync(client *scheduledClient) {
	request := &Sync{GroupID: "g", MemberID: client.id, InstanceID: client.instanceID(), Generation: client.epoch}
	if client.classic.leads != nil {
		request.Assignments = s.divide(client.classic.leads)
		client.classic.seen = s.topics.image.Index
	}
	client.classic.joins = false
	s.classicAsk(client, request)
}

// divide is what a leader does: it assigns evenly, and, with the cooperative protocol (KIP-429), withholds what
// somebody else still owns.
func (s *schedule) divide(members []JoinedMember) []Assignment {
	image := s.topics.image
	var g assign.Group
	for _, member := range members {
		metadata, err := readConsumerMetadata(member.Metadata)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		one := assign.Member{ID: member.MemberID, Owned: metadata.owned(image)}
		for _, name := range metadata.Topics {
			if topic, ok := image.Topic(name); ok {
				one.Topics = append(one.Topics, topic.ID)
				g.Topics = append(g.Topics, assign.Topic{ID: topic.ID, Partitions: int32(len(topic.Partitions))})
			}
		}
		slices.SortFunc(one.Topics, assign.CompareIDs)
		g.Members = append(g.Members, one)
	}
	slices.SortFunc(g.Topics, func(a, b assign.Topic) int { return assign.CompareIDs(a.ID, b.ID) })
	g.Topics = slices.Compact(g.Topics)
	owner := map[ownedPartition]int{}
	for n := range g.Members {
		for _, of := range g.Members[n].Owned {
			for _, partition := range of.Partitions {
				owner[ownedPartition{of.Topic, partition}] = n + 1
			}
		}
	}
	assignments := make([]Assignment, len(members))
	for n, set := range assign.Uniform.Assign(&g) {
		set = set.Filter(func(topic meta.TopicID, partition int32) bool {
			held := owner[ownedPartition{topic, partition}]
			return held == 0 || held == n+1
		})
		assignments[n] = Assignment{MemberID: members[n].MemberID, Assignment: encodeConsumerAssignment(image, members[n].Metadata, set)}
	}
	return assignments
}

// classicAsk sends a request, whose answer may come later.
func (s *schedule) classicAsk(client *scheduledClient, request any) {
	s.tokens++
	client.classic.waits = s.tokens
	s.waiting[s.tokens] = client
	s.run(s.tokens, request)
}

// classicAnswer is an answer to a client of the classic protocol. Sometimes it gets lost.
func (s *schedule) classicAnswer(client *scheduledClient, body any) {
	at := &client.classic
	at.waits = 0
	if keepsSession(body) {
		client.accepted = s.now
	}
	if !s.calm && s.one(50) {
		s.lost++
		at.rejoin = true
		return
	}
	switch answer := body.(type) {
	case *JoinAnswer:
		if answer.Err == nil {
			client.in, client.id, client.epoch = true, answer.MemberID, answer.Generation
			at.rejoin, at.unsynced, at.leads = false, true, answer.Members
			return
		}
		if errors.Is(answer.Err, ErrMemberIDRequired) {
			client.id = answer.MemberID
			s.byID[client.id] = client
			return
		}
		s.classicError(client, answer.Err)
	case *SyncAnswer:
		if answer.Err != nil {
			s.classicError(client, answer.Err)
			return
		}
		at.unsynced = false
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(answer.Assignment); err != nil && len(answer.Assignment) > 0 {
			s.t.Fatalf("%v", err)
		}
		var assigned []assign.TopicPartitions
		for _, of := range assignment.Topics {
			assigned = appendNamed(assigned, s.topics.image, of.Topic, of.Partitions)
		}
		client.told = assign.NewPartitions(assigned)
		at.rejoin = s.cooperative && len(client.owned.Minus(client.told)) > 0 // what it gives up is for others now
		s.consume(client, client.told)
	case *HeartbeatAnswer:
		if answer.Err != nil {
			s.classicError(client, answer.Err)
		}
	case *LeaveAnswer:
	default:
		s.t.Fatalf("answered with %T", body)
	}
}

// keepsSession says whether a member's session began anew with what it was answered.
func keepsSession(body any) bool {
	switch answer := body.(type) {
	case *JoinAnswer:
		return answer.Err == nil
	case *SyncAnswer:
		return answer.Err == nil
	case *HeartbeatAnswer:
		return answer.Err == nil || errors.Is(answer.Err, ErrRebalanceInProgress)
	}
	return false
}

// classicError is what a client makes of an error, as the Java client does.
func (s *schedule) classicError(client *scheduledClient, err error) {
	switch at := &client.classic; {
	case errors.Is(err, ErrRebalanceInProgress):
		at.rejoin = true
	case errors.Is(err, ErrIllegalGeneration):
		s.consume(client, nil)
		at.rejoin = true
	case errors.Is(err, ErrUnknownMember), errors.Is(err, ErrFencedInstance), errors.Is(err, ErrUnreleasedInstance):
		s.out(client)
		client.id = ""
	default:
		s.t.Fatalf("%s: %v", client.id, err)
	}
}

// classicLeave takes a client out by LeaveGroup; static ones just stop.
func (s *schedule) classicLeave(client *scheduledClient) {
	s.out(client)
	if id := client.id; id != "" && client.instance == "" {
		s.run(0, &Leave{GroupID: "g", Members: []Leaving{{MemberID: id}}})
	}
	client.id, client.classic.waits = "", 0
}

// changeProtocol has a client come back with the other protocol: its application was updated, or the update taken back.
func (s *schedule) changeProtocol(client *scheduledClient) {
	switch {
	case client.classic.speaks:
		s.classicLeave(client)
	case client.instance == "":
		s.leave(client)
	default:
		s.out(client)
	}
	client.classic = classicState{speaks: !client.classic.speaks}
	client.id, client.in, client.away, client.names, client.full, client.report = "", false, false, nil, false, false
}

// endSessions has clients of the classic protocol stop whose sessions are over: they know by themselves.
func (s *schedule) endSessions() {
	for _, client := range s.clients {
		if client.classic.speaks && client.in && client.classic.waits == 0 && s.now-client.accepted >= classicMillis {
			s.out(client)
		}
	}
}

// abandon tells those who wait to try again: the coordinator they waited for is gone.
func (s *schedule) abandon() {
	for _, client := range s.clients {
		if client.classic.waits != 0 {
			client.classic.waits, client.classic.rejoin = 0, true
		}
	}
	clear(s.waiting)
}

// run has the machine take a request whose answer, if it comes, is delivered like all others.
func (s *schedule) run(token uint64, request any) {
	var effects coord.Effects
	s.machine.Step(s.now, coord.Request{Token: token, Body: request}, &effects)
	s.steps++
	if !s.calm && len(effects.Records) > 0 && s.one(300) {
		s.failed++
		s.load() // without these records
		return
	}
	s.keep(&effects)
}
