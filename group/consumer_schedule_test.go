package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ringlog/coord"
	"ringlog/group/assign"
	"ringlog/meta"
)

// Any schedule of members, topics, lost answers, failed appends and restarts keeps the promises of KIP-848, as they can
// be seen from outside, by what members were told and have acknowledged:
//
//   - no partition is consumed by two members at once
//   - a member's epoch never goes back
//   - nobody is given up before its session, or its time to give partitions up, is over
//   - a coordinator that takes over has the same group
//   - once nothing happens any more, every partition of every topic subscribed to has one owner, who subscribes
//     to it, and no heartbeat changes or stores anything
func TestConsumerGroupsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SampledFrom([]int{2, 3, 5, 10, 30}).Draw(t, "members")
		s := newSchedule(t, rapid.Uint64().Draw(t, "seed"), members, rapid.Bool().Draw(t, "migration"))
		for range rapid.IntRange(100, 1500).Draw(t, "steps") {
			s.happen()
		}
		s.settle()
	})
}

// The same in one long run of large groups: what takes long to come about.
func TestLargeConsumerGroupsKeepTheirPromises(t *testing.T) {
	sizes := []int{200, 60, 6, 120, 4, 4}
	for seed, members := range sizes {
		s := newSchedule(t, uint64(seed), members, seed != 0)
		for s.steps < scheduleSteps/len(sizes) {
			for range 20_000 {
				s.happen()
			}
			s.settle()
		}
		t.Logf("%d members: %d steps, %d epochs, %d records, %d migrations, %d removed, %d lost answers, %d failed appends",
			members, s.steps, s.epochs, s.stored, s.migrations, s.removed, s.lost, s.failed)
	}
}

// scheduleSteps is how many steps the long runs take together.
const scheduleSteps = 400_000

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// schedule is one machine, its log, and clients that behave as KIP-848 wants them to.
type schedule struct {
	t       failer
	random  *rand.Rand
	topics  *testTopics
	names   []string // of the topics that there are
	machine *Machine
	log     []coord.Record
	now     int64
	// restarted is when the machine was last made: sessions began anew.
	restarted int64
	// calm: nothing changes, nothing fails.
	calm bool
	// migration: clients change from the classic protocol to the other and back; of the classic one they
	// speak the cooperative kind, or the eager one.
	migration, cooperative bool
	// waiting are the clients that wait for an answer, by token.
	waiting map[uint64]*scheduledClient
	tokens  uint64
	clients []*scheduledClient
	byID    map[string]*scheduledClient
	owners  map[ownedPartition]*scheduledClient
	drawn   int

	isClassic                                                bool
	steps, epochs, stored, migrations, removed, lost, failed int
}

type ownedPartition struct {
	topic     meta.TopicID
	partition int32
}

// scheduledClient is one client. It consumes from owned; told is where it goes from there.
type scheduledClient struct {
	id, instance string
	names        []string
	regex        string
	assignor     string

	in          bool // it has joined, as far as it knows
	away        bool // it left and is going to be back
	silent      bool // it hangs
	epoch       int32
	owned, told assign.Partitions
	// full: the next heartbeat tells all; report: it says what the client owns.
	full, report bool
	// accepted is when the coordinator last heard of it.
	accepted int64
	classic  classicState
}

func newSchedule(t failer, seed uint64, members int, migration bool) *schedule {
	s := &schedule{t: t, random: rand.New(rand.NewPCG(seed, 848)), now: 1_700_000_000_000, byID: map[string]*scheduledClient{},
		owners: map[ownedPartition]*scheduledClient{}, waiting: map[uint64]*scheduledClient{}, migration: migration, cooperative: seed&2 != 0}
	s.topics = newTestTopics()
	s.createTopic()
	s.createTopic()
	s.load()
	for n := range members {
		client := &scheduledClient{classic: classicState{speaks: migration && s.one(2)}}
		if s.random.IntN(3) == 0 {
			client.instance = fmt.Sprintf("i%d", n)
		}
		s.clients = append(s.clients, client)
	}
	return s
}

// one returns whether something of so many chances happens.
func (s *schedule) one(in int) bool { return s.random.IntN(in) == 0 }

// happen is one step of anybody.
func (s *schedule) happen() {
	client := s.clients[s.random.IntN(len(s.clients))]
	switch s.random.IntN(2000) {
	case 0, 1, 2:
		s.changeTopics()
	case 3, 4:
		s.restart()
	case 5:
		s.pass(int64(s.random.IntN(50_000)))
	case 6, 7, 8:
		client.silent = !client.silent
	case 9, 10, 11, 12, 13, 14, 15:
		s.leave(client)
	case 16, 17, 18, 19:
		if s.migration {
			s.changeProtocol(client)
		}
	default:
		if s.one(len(s.clients)/2 + 2) { // about as long as a heartbeat should take
			s.pass(int64(s.random.IntN(5_000)))
		}
		if !client.silent {
			s.heartbeat(client)
		}
	}
}

// heartbeat is what a client does most of its time.
func (s *schedule) heartbeat(client *scheduledClient) {
	if client.classic.speaks {
		s.classicTurn(client)
		s.pass(0)
		return
	}
	request := &ConsumerHeartbeat{GroupID: "g", RebalanceTimeoutMillis: -1, ClientID: "client", ClientHost: "/127.0.0.1"}
	if client.instance != "" {
		request.InstanceID = &client.instance
	}
	changed := client.in && !s.calm && s.one(60)
	if !client.in {
		if client.id == "" || client.away {
			s.drawn++
			client.id = fmt.Sprintf("m%06d", s.random.IntN(1000)*1000+s.drawn%1000)
			s.byID[client.id] = client
		}
		client.epoch, client.away, client.full, changed = JoinEpoch, false, true, client.names == nil || !s.calm && s.one(4)
		s.consume(client, nil)
	}
	if changed {
		s.subscribe(client)
	}
	// A client that was told to give something up needs a while for it.
	if client.in && !client.owned.Equal(client.told) && !s.one(3) {
		s.consume(client, client.told)
		client.report = true
	}
	if client.full || client.report || s.one(10) {
		request.OwnedGiven, request.Owned = true, client.owned
	}
	if client.full || changed {
		request.Names, request.Regex = client.names, &client.regex
		if client.assignor != "" {
			request.Assignor = &client.assignor
		}
	}
	if client.full {
		request.RebalanceTimeoutMillis = rebalanceMillis
	}
	request.MemberID, request.Epoch = client.id, client.epoch
	full, reported := client.full, client.report
	client.full, client.report = false, false
	answer, lost := s.step(client, request)
	switch {
	case lost:
		client.full, client.report = full || client.in, reported
		if !client.in {
			client.full = true
		}
	case errors.Is(answer.Err, ErrFencedMemberEpoch), errors.Is(answer.Err, ErrUnknownMember), errors.Is(answer.Err, ErrGroupNotFound):
		s.out(client)
	case errors.Is(answer.Err, ErrFencedInstance), errors.Is(answer.Err, ErrUnreleasedInstance):
		s.out(client)
		client.id = ""
	case answer.Err != nil:
		s.t.Fatalf("%s: %v", client.id, answer.Err)
	default:
		if answer.Epoch < client.epoch {
			s.t.Fatalf("%s: epoch %d after %d", client.id, answer.Epoch, client.epoch)
		}
		client.in, client.epoch = true, answer.Epoch
		if answer.HasAssignment {
			client.told = answer.Assignment
		}
		if client.told.Minus(client.owned) == nil && client.owned.Minus(client.told) == nil {
			return
		}
		if client.owned.Minus(client.told) == nil { // nothing to give up: it may begin at once
			s.consume(client, client.told)
			client.report = true
		}
	}
}

const rebalanceMillis = 60_000

// out: the client is no member any more and stops at once.
func (s *schedule) out(client *scheduledClient) {
	s.consume(client, nil)
	client.in, client.told = false, nil
}

// consume changes from which partitions a client consumes.
func (s *schedule) consume(client *scheduledClient, partitions assign.Partitions) {
	for _, of := range client.owned {
		for _, partition := range of.Partitions {
			delete(s.owners, ownedPartition{of.Topic, partition})
		}
	}
	client.owned = partitions
	for _, of := range partitions {
		for _, partition := range of.Partitions {
			at := ownedPartition{of.Topic, partition}
			if other := s.owners[at]; other != nil {
				s.t.Fatalf("step %d: partition %d of %s is consumed by %s, and now by %s", s.steps, partition, of.Topic, other.id, client.id)
			}
			s.owners[at] = client
		}
	}
}

func (s *schedule) subscribe(client *scheduledClient) {
	client.names, client.regex, client.assignor = []string{}, "", ""
	for _, name := range s.names {
		if !s.one(3) {
			client.names = append(client.names, name)
		}
	}
	if s.one(6) {
		client.regex = []string{"t.*", "t[0-4].*", ".*5"}[s.random.IntN(3)]
	}
	if s.one(8) {
		client.assignor = []string{"uniform", "range"}[s.random.IntN(2)]
	}
}

func (s *schedule) leave(client *scheduledClient) {
	if client.classic.speaks {
		s.classicLeave(client)
		return
	}
	if !client.in {
		return
	}
	request := &ConsumerHeartbeat{GroupID: "g", MemberID: client.id, Epoch: LeaveEpoch, RebalanceTimeoutMillis: -1}
	if client.instance != "" {
		request.InstanceID = &client.instance
		if s.one(2) {
			request.Epoch, client.away = StaticLeaveEpoch, true
		}
	}
	s.out(client) // it has given all up before it leaves
	s.step(client, request)
	if !client.away {
		client.id = ""
	}
}

// step has the machine take a request. Sometimes the append fails, and the machine is thrown away; sometimes the answer is lost.
func (s *schedule) step(client *scheduledClient, request *ConsumerHeartbeat) (answer *ConsumerHeartbeatAnswer, lost bool) {
	var effects coord.Effects
	before := s.epoch()
	s.tokens++
	s.machine.Step(s.now, coord.Request{Token: s.tokens, Body: request}, &effects)
	s.steps++
	if !s.calm && len(effects.Records) > 0 && s.one(300) {
		s.failed++
		s.load() // without these records
		return nil, true
	}
	if after := s.epoch(); after < before && after != 0 { // 0: it is a classic group now
		s.t.Fatalf("the group's epoch went from %d back to %d", before, after)
	}
	s.epochs += max(int(s.epoch()-before), 0)
	at := slices.IndexFunc(effects.Answers, func(a coord.Answer) bool { return a.Token == s.tokens })
	if at < 0 {
		s.t.Fatalf("a heartbeat is not answered at once")
	}
	answer = effects.Answers[at].Body.(*ConsumerHeartbeatAnswer)
	s.keep(&effects)
	if answer.Err == nil && request.Epoch >= JoinEpoch {
		client.accepted = s.now
	}
	if !s.calm && s.one(50) {
		s.lost++
		return nil, true
	}
	return answer, false
}

func (s *schedule) epoch() int32 {
	if g := s.machine.group("g"); g != nil && g.consumer != nil {
		return g.consumer.epoch
	}
	return 0
}

// keep stores what a step wants stored, and takes notice of members that were given up.
func (s *schedule) keep(effects *coord.Effects) {
	s.log = append(s.log, effects.Records...)
	s.stored += len(effects.Records)
	if g := s.machine.group("g"); g != nil && (g.classic != nil) != s.isClassic {
		s.isClassic = !s.isClassic
		s.migrations++
	}
	defer s.deliver(effects)
	for _, event := range effects.Events {
		if event.Message != "group lost a member" {
			continue
		}
		id, why := attribute(event, "member"), attribute(event, "cause")
		client := s.byID[id]
		s.removed++
		if client == nil || client.id != id {
			continue // the client has begun anew under another id
		}
		if since := max(client.accepted, s.restarted); why == CauseSessionTimeout.String() && s.now-since < 45_000 {
			s.t.Fatalf("%s was given up %d ms after it was heard of", id, s.now-since)
		}
		s.consume(client, nil) // its session was over for itself, too
		client.told = nil
	}
}

// deliver gives answers to those who wait for them.
func (s *schedule) deliver(effects *coord.Effects) {
	for _, answer := range effects.Answers {
		client := s.waiting[answer.Token]
		delete(s.waiting, answer.Token)
		if client != nil && client.classic.waits == answer.Token { // or it no longer waits
			s.classicAnswer(client, answer.Body)
		}
	}
}

// attribute returns the value of an event's attribute.
func attribute(event coord.Event, name string) string {
	return event.Attributes[slices.Index(event.Attributes, any(name))+1].(string)
}

// pass lets time pass. A client whose session is over stops consuming by itself.
func (s *schedule) pass(millis int64) {
	for until := s.now + millis; ; {
		next := s.machine.NextMillis()
		if next > until {
			s.now = until
			return
		}
		s.now = max(s.now, next)
		s.endSessions()
		var effects coord.Effects
		s.machine.Tick(s.now, &effects)
		s.steps++
		s.keep(&effects)
	}
}

// load makes a machine of the log.
func (s *schedule) load() {
	if len(s.log) > 20_000 {
		s.compact()
	}
	s.machine = New(testConfig(), s.topics.image)
	for _, record := range s.log {
		if err := s.machine.Replay(record); err != nil {
			s.t.Fatalf("%v", err)
		}
	}
	var effects coord.Effects
	s.machine.Loaded(s.now, &effects)
	s.restarted = s.now
	s.abandon()
	s.keep(&effects)
}

// restart has another coordinator take over: it must have the same group. The log is compacted on the way.
func (s *schedule) restart() {
	before := s.describe()
	s.compact()
	s.load()
	if after := s.describe(); fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", after) { // which is how one tells nothing from an empty list
		difference := cmp.Diff(before, after, cmpopts.EquateEmpty(), cmpopts.EquateErrors())
		s.t.Fatalf("the group is another after a restart: %s", difference[:min(len(difference), 2000)])
	}
}

// compact keeps the last record of each key, and not always a tombstone.
func (s *schedule) compact() {
	last := make(map[string]int, len(s.log))
	for n, record := range s.log {
		last[string(record.Key)] = n
	}
	dropTombstones := s.one(2)
	kept := s.log[:0:0]
	for n, record := range s.log {
		if last[string(record.Key)] == n && (record.Value != nil || !dropTombstones) {
			kept = append(kept, record)
		}
	}
	s.log = kept
}

func (s *schedule) describe() *ConsumerGroupDescription {
	var effects coord.Effects
	s.machine.Step(s.now, coord.Request{Token: 1, Body: &DescribeConsumerGroup{GroupID: "g"}}, &effects)
	described := effects.Answers[0].Body.(*ConsumerGroupDescription)
	described.Assignor = "" // not stored, as in Kafka
	return described
}

func (s *schedule) createTopic() {
	s.drawn++
	name := fmt.Sprintf("t%d", s.drawn)
	s.names = append(s.names, name)
	s.image(s.topics.create(name, 1+s.random.IntN(40)))
}

func (s *schedule) changeTopics() {
	switch name := s.names[s.random.IntN(len(s.names))]; {
	case len(s.names) < 3 || len(s.names) < 6 && s.one(2):
		s.createTopic()
	case s.one(3):
		s.names = slices.DeleteFunc(s.names, func(other string) bool { return other == name })
		s.image(s.topics.remove(name))
	default:
		topic, _ := s.topics.image.Topic(name)
		if len(topic.Partitions) < 100 {
			s.image(s.topics.grow(name, len(topic.Partitions)+1+s.random.IntN(5)))
		}
	}
}

func (s *schedule) image(changed *ImageChanged) {
	if s.machine == nil {
		return
	}
	var effects coord.Effects
	s.machine.Step(s.now, coord.Request{Body: changed}, &effects)
	s.keep(&effects)
}

// settle lets nothing happen but heartbeats, until they change nothing, and looks at what has come of it.
func (s *schedule) settle() {
	s.t.Helper()
	s.calm = true
	defer func() { s.calm = false }()
	quiet := 0
	for round := 0; quiet < 2; round++ {
		if round > 200 {
			s.t.Fatalf("the group does not settle: it is %s, epoch %d", s.describe().State, s.epoch())
		}
		stored := s.stored
		for _, client := range s.clients {
			if !client.silent {
				s.settleOne(client)
			}
		}
		s.pass(5_000)
		if quiet++; s.stored != stored || round < 11 || slices.ContainsFunc(s.clients, (*scheduledClient).isUnderWay) { // sessions of those who are gone end meanwhile
			quiet = 0
		}
	}
	described := s.describe()
	if described.Err == nil && described.State != StateStable && described.State != StateEmpty {
		s.t.Fatalf("the group has settled in state %s", described.State)
	}
	s.checkOwners()
}

// settleOne is one heartbeat of a client that does at once what it is told.
func (s *schedule) settleOne(client *scheduledClient) {
	for range 3 {
		before := client.owned
		s.heartbeat(client)
		if client.in && !client.classic.speaks && !client.owned.Equal(client.told) {
			s.consume(client, client.told)
			client.report = true
		}
		if client.in && before.Equal(client.owned) && !client.report && !client.full {
			return
		}
	}
}

// checkOwners makes sure that every partition of a topic subscribed to has its owner, and no other has.
func (s *schedule) checkOwners() {
	s.t.Helper()
	owned := 0
	for topic := range s.topics.image.Topics() {
		var subscribers []*scheduledClient
		for _, client := range s.clients {
			if client.in && !client.silent && client.subscribes(topic.Name) {
				subscribers = append(subscribers, client)
			}
		}
		for n := range topic.Partitions {
			owner := s.owners[ownedPartition{topic.ID, int32(n)}]
			switch {
			// What the members of a classic group make of it is theirs: a static leader that has restarted is not told
			// that it leads, and one that subscribes to other topics since keeps its assignment (KIP-345).
			case owner == nil && s.isClassic:
			case owner == nil && len(subscribers) > 0:
				s.t.Fatalf("nobody consumes %s-%d, to which %d members subscribe, %s among them", topic.Name, n, len(subscribers), subscribers[0].id)
			case owner != nil && !s.isClassic && !slices.Contains(subscribers, owner):
				s.t.Fatalf("%s consumes %s-%d and does not subscribe to it", owner.id, topic.Name, n)
			case owner != nil:
				owned++
			}
		}
	}
	if owned != len(s.owners) {
		s.t.Fatalf("%d partitions are consumed that do not exist", len(s.owners)-owned)
	}
}

func (c *scheduledClient) subscribes(topic string) bool {
	if c.classic.speaks {
		return slices.Contains(c.names, topic)
	}
	compiled, err := compileRegex(c.regex)
	return slices.Contains(c.names, topic) || c.regex != "" && err == nil && compiled.MatchString(topic)
}
