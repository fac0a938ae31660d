package group

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"ringlog/coord"
	"ringlog/meta"
)

// A schedule has modelSegments, each of modelSteps that end in rest; with the 100 schedules that rapid draws it is a million
// steps, and fewer under the race detector. In every other segment little goes wrong, so that no second fault heals the first.
const (
	modelSegments = 20
	modelSteps    = 500
)

// Whatever 2 to 200 clients do, in any order and at any time: they join, vanish, come back under their
// names, ask again, ask what makes no sense, and coordinators change.
//
//   - every request is answered once, or is still waited with;
//   - no partition has two owners in one generation;
//   - the log that was written so far makes the same group again;
//   - and once the clients behave, the group comes to rest, all of them in it, every partition owned.
func TestClassicGroupsUnderRandomSchedules(t *testing.T) {
	segments := modelSegments
	if raceEnabled {
		segments = 2
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		// Drawn by rapid, numbers would mostly be small ones.
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(2, 200).Draw(t, "clients") {
			w.addClient(chance.Uint32(), "")
		}
		for segment := range segments {
			for range modelSteps {
				if draw := chance.Uint32(); segment%2 == 0 || draw>>24%16 == 0 {
					w.step(draw)
				} else {
					w.step(draw &^ 63) // a client does what it should
				}
			}
			w.settle()
		}
	})
}

// world is one coordinator with its log, and its clients.
type world struct {
	t       *rapid.T
	config  Config
	machine *Machine
	shadow  *Machine // has replayed the log
	log     []coord.Record
	now     int64
	effects coord.Effects

	tokens  uint64
	open    map[uint64]*modelRequest
	ids     int
	clients []*modelClient
	// owners says who was given each partition in each generation.
	owners map[ownership]string
}

type ownership struct {
	generation int32
	partition  byte
}

// modelPartitions are the partitions that leaders assign.
const modelPartitions = 32

// modelRequest is a request that has not been answered.
type modelRequest struct {
	client *modelClient // nil: nobody who listens
	life   int          // of the client when it asked
}

// modelClient is a consumer: out, or on its way through JoinGroup and SyncGroup to its partitions.
type modelClient struct {
	name, instance string
	id             string
	life           int // raised when it restarts: answers to earlier lives are nobody's
	phase          modelPhase
	generation     int32
	protocol       string
	session        int32
	rebalance      int32
	metadata       byte
	old            bool // speaks versions in which nobody asks for ids
	members        []JoinedMember
	assignment     []byte
	waits          any    // the request that it waits with
	token          uint64 // that request's: of one that it has given up it does not hear
}

type modelPhase uint8

const (
	phaseOut modelPhase = iota
	phaseJoining
	phaseJoined
	phaseSyncing
	phaseIn
	phaseFenced // another one has its name
)

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: storyMillis, open: map[uint64]*modelRequest{}, owners: map[ownership]string{}, shadow: New(&Config{}, meta.NewImage())}
	w.config = Config{
		OffsetsRetentionMillis: 1 << 40, OffsetsCheckIntervalMillis: 1 << 40,
		SessionTimeoutMinMillis: 6000, SessionTimeoutMaxMillis: 60_000,
		InitialRebalanceDelayMillis: int64(rapid.SampledFrom([]int{0, 100, 3000}).Draw(t, "initial delay")), MembersMax: 1 << 20,
	}
	w.load()
	return w
}

func (w *world) addClient(draw uint32, instance string) *modelClient {
	client := &modelClient{
		name: "c" + strconv.Itoa(len(w.clients)), instance: instance, old: draw&8 != 0,
		session: int32(6000 + draw>>8%24_000), rebalance: int32(1000 + draw>>12%60_000),
	}
	if draw&1 != 0 && instance == "" {
		client.instance = "i" + strconv.Itoa(len(w.clients))
	}
	w.clients = append(w.clients, client)
	return client
}

// load makes another machine of the log: who waits is told to try elsewhere.
func (w *world) load() {
	w.machine = New(&w.config, meta.NewImage())
	for _, record := range w.log {
		if err := w.machine.Replay(record); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, client := range w.clients {
		switch client.phase {
		case phaseJoining:
			client.phase = phaseOut
		case phaseSyncing:
			client.phase = phaseJoined
		}
		client.waits = nil
	}
	clear(w.open)
	w.effects.Reset()
	w.machine.Loaded(w.now, &w.effects)
	w.take()
}

// step is one thing that happens.
func (w *world) step(draw uint32) {
	client := w.clients[int(draw>>8)%len(w.clients)]
	switch what := draw % 64; {
	case what < 40:
		w.act(client)
	case what < 47:
		w.pass(int64(draw>>16) % 2500)
	case what < 48:
		w.pass(int64(draw>>16) % 40_000)
	case what < 50:
		w.leave(client, draw&1<<20 != 0)
	case what < 52: // it crashes, and will be another one
		w.restart(client)
	case what < 54: // its connection is lost: it asks again
		if client.waits != nil {
			w.ask(client, w.again(client))
		}
	case what < 56: // it subscribes to something else
		if client.phase == phaseIn {
			client.metadata++
			w.join(client)
		}
	case what < 59:
		w.nonsense(client, draw)
	case what < 62:
		w.administrate(client, draw)
	case what == 62:
		if draw>>20%8 == 0 {
			w.load()
		}
	default: // somebody takes over a name
		if client.instance != "" && len(w.clients) < 250 && draw>>20%16 == 0 {
			w.join(w.addClient(draw, client.instance))
		}
	}
}

// act has a client do what a client does next.
func (w *world) act(client *modelClient) {
	switch client.phase {
	case phaseOut:
		w.join(client)
	case phaseJoined:
		w.sync(client)
	case phaseIn:
		w.ask(client, &Heartbeat{GroupID: "g", MemberID: client.id, InstanceID: orNil(client.instance), Generation: client.generation})
	}
}

func (w *world) join(client *modelClient) {
	w.ids++
	client.phase = phaseJoining
	request := &Join{
		GroupID: "g", MemberID: client.id, InstanceID: orNil(client.instance), NewMemberID: strconv.Itoa(w.ids), ClientID: client.name,
		SessionTimeoutMillis: client.session, RebalanceTimeoutMillis: client.rebalance, ProtocolType: "model",
		Protocols:       []Protocol{{Name: "one", Metadata: []byte{client.metadata}}, {Name: "two", Metadata: []byte{client.metadata}}},
		RequireMemberID: !client.old, SkipAssignment: !client.old,
	}
	client.waits = request
	w.ask(client, request)
}

// again is the request that a client waits with, as it would ask it anew.
func (w *world) again(client *modelClient) any {
	switch request := client.waits.(type) {
	case *Join:
		same := *request
		w.ids++
		same.NewMemberID = strconv.Itoa(w.ids)
		return &same
	case *Sync:
		same := *request
		return &same
	}
	return client.waits
}

// sync asks for the assignment; the leader deals out all partitions first.
func (w *world) sync(client *modelClient) {
	client.phase = phaseSyncing
	request := &Sync{GroupID: "g", MemberID: client.id, InstanceID: orNil(client.instance), Generation: client.generation}
	for i, member := range client.members {
		var dealt []byte
		for p := i; p < modelPartitions; p += len(client.members) {
			dealt = append(dealt, byte(p))
		}
		request.Assignments = append(request.Assignments, Assignment{MemberID: member.MemberID, Assignment: dealt})
	}
	client.waits = request
	w.ask(client, request)
}

func (w *world) leave(client *modelClient, restart bool) {
	if client.id == "" || client.phase == phaseFenced {
		return
	}
	w.ask(nil, &Leave{GroupID: "g", Members: []Leaving{{MemberID: client.id, InstanceID: orNil(client.instance)}}})
	if restart {
		w.restart(client)
	}
}

// restart makes a client forget everything but its name.
func (w *world) restart(client *modelClient) {
	if client.phase != phaseFenced {
		client.life++
		client.id, client.phase, client.waits, client.members = "", phaseOut, nil, nil
	}
}

// nonsense asks what no client would, or one that was away for long.
func (w *world) nonsense(client *modelClient, draw uint32) {
	id, generation := client.id, client.generation+int32(draw>>16%3)-1
	if draw>>20%4 == 0 {
		id = "nobody"
	}
	switch draw >> 24 % 4 {
	case 0:
		w.ask(nil, &Heartbeat{GroupID: "g", MemberID: id, Generation: generation})
	case 1:
		w.ask(nil, &Sync{GroupID: "g", MemberID: "nobody", Generation: generation, Assignments: []Assignment{{MemberID: id, Assignment: []byte{1, 2}}}})
	case 2:
		w.ask(nil, &OffsetCommit{GroupID: "g", MemberID: id, Generation: generation, RetentionMillis: -1})
	case 3:
		w.ask(nil, &Join{GroupID: "g", NewMemberID: "x", MemberID: "nobody", SessionTimeoutMillis: 6000, ProtocolType: "model", Protocols: []Protocol{{Name: "three"}}})
	}
}

func (w *world) administrate(client *modelClient, draw uint32) {
	switch draw >> 16 % 16 {
	case 0:
		w.ask(nil, &Delete{GroupID: "g"})
	case 1:
		if client.instance != "" {
			w.ask(nil, &Leave{GroupID: "g", Members: []Leaving{{InstanceID: &client.instance}}})
		}
	case 2:
		w.ask(nil, &Describe{GroupID: "g"})
	default:
		w.ask(nil, &List{})
	}
}

func (w *world) ask(client *modelClient, body any) {
	w.tokens++
	request := &modelRequest{client: client}
	if client != nil {
		request.life = client.life
		if _, beats := body.(*Heartbeat); !beats {
			client.token = w.tokens
		}
	}
	w.open[w.tokens] = request
	w.effects.Reset()
	w.machine.Step(w.now, coord.Request{Token: w.tokens, Body: body}, &w.effects)
	w.take()
}

// pass lets time pass, timer by timer.
func (w *world) pass(millis int64) {
	until := w.now + millis
	for fired := 0; w.machine.NextMillis() <= until; fired++ {
		if fired > 100_000 {
			w.t.Fatal("timers fire for ever")
		}
		w.now = max(w.now, w.machine.NextMillis())
		w.effects.Reset()
		w.machine.Tick(w.now, &w.effects)
		w.take()
	}
	w.now = until
}

// take has answers reach their clients and records the log, and holds both against the promises.
func (w *world) take() {
	records, answers := slices.Clone(w.effects.Records), slices.Clone(w.effects.Answers)
	for _, record := range records {
		w.log = append(w.log, record)
		if err := w.shadow.Replay(record); err != nil {
			w.t.Fatal(err)
		}
		if record.Value == nil {
			clear(w.owners) // the group is gone, and the next one begins with generation 1
		}
	}
	if len(records) > 0 {
		w.sameAsLogged(w.shadow)
	}
	if w.tokens%16 == 0 {
		w.checkSound()
	}
	for _, answer := range answers {
		request, waits := w.open[answer.Token]
		if !waits {
			w.t.Fatalf("token %d is answered again, or was never asked: %+v", answer.Token, answer.Body)
		}
		delete(w.open, answer.Token)
		_, beats := answer.Body.(*HeartbeatAnswer)
		if client := request.client; client != nil && client.life == request.life && (beats || client.token == answer.Token) {
			w.told(client, answer.Body)
		}
	}
}

// told is an answer at its client.
func (w *world) told(client *modelClient, body any) {
	switch answer := body.(type) {
	case *JoinAnswer:
		client.waits = nil
		if answer.Err != nil {
			w.refused(client, answer.Err)
			if errors.Is(answer.Err, ErrMemberIDRequired) {
				client.id = answer.MemberID
			}
			return
		}
		client.id, client.generation, client.members, client.phase = answer.MemberID, answer.Generation, nil, phaseJoined
		client.protocol = *answer.Protocol
		if answer.LeaderID == answer.MemberID && !answer.SkipAssignment {
			client.members = answer.Members
		}
	case *SyncAnswer:
		client.waits = nil
		if answer.Err != nil {
			w.refused(client, answer.Err)
			return
		}
		client.phase, client.assignment, client.members = phaseIn, answer.Assignment, nil
		w.own(client)
	case *HeartbeatAnswer:
		if answer.Err != nil && client.phase == phaseIn {
			w.refused(client, answer.Err)
		}
	}
}

// refused is what a client makes of an error.
func (w *world) refused(client *modelClient, err error) {
	client.phase = phaseOut
	switch {
	case errors.Is(err, ErrUnknownMember), errors.Is(err, ErrIllegalGeneration):
		client.id = ""
	case errors.Is(err, ErrFencedInstance):
		client.phase = phaseFenced
	}
}

// own notes what a client was given. A static member that has restarted is the same owner.
func (w *world) own(client *modelClient) {
	owner := client.id
	if client.instance != "" {
		owner = client.instance
	}
	for _, partition := range client.assignment {
		at := ownership{client.generation, partition}
		if before, owned := w.owners[at]; owned && before != owner {
			w.t.Fatalf("partition %d of generation %d was given to %s and to %s", partition, client.generation, before, owner)
		}
		w.owners[at] = owner
	}
}

// checkSound holds a group's counters and timers against its members.
func (w *world) checkSound() {
	g := w.machine.group("g")
	if g == nil || g.classic == nil {
		return
	}
	classic := g.classic
	joining, unsynced, metadata := 0, 0, 0
	for _, member := range classic.members {
		metadata += protocolBytes(member.protocols)
		if member.join.waits {
			joining++
		}
		if member.unsynced {
			unsynced++
		}
		if !member.session.isSet() && !member.excused() {
			w.t.Fatalf("member %s has no session in state %s", member.id, classic.state)
		}
	}
	if metadata != classic.metadataBytes {
		w.t.Fatalf("members say %d bytes of themselves, %d are counted", metadata, classic.metadataBytes)
	}
	if joining != classic.joining || unsynced != classic.unsynced || len(classic.byID) != len(classic.members) {
		w.t.Fatalf("%d join and %d have not synced of %d members; counted are %d, %d, %d", joining, unsynced, len(classic.members), classic.joining, classic.unsynced, len(classic.byID))
	}
	if rebalances, syncs := classic.rejoin.isSet(), classic.sync.isSet(); rebalances != (classic.state == StatePreparingRebalance) || syncs != (unsynced > 0) {
		w.t.Fatalf("in state %s with %d unsynced: the timer of JoinGroup is set %t, that of SyncGroup %t", classic.state, unsynced, rebalances, syncs)
	}
	if (classic.leader == nil) != (len(classic.members) == 0) || (len(classic.members) == 0) && classic.state != StateEmpty && classic.state != StatePreparingRebalance {
		w.t.Fatalf("%d members in state %s, leader %v", len(classic.members), classic.state, classic.leader)
	}
}

// sameAsLogged holds a group against what the log makes of it. Only an empty or stable group is in the log.
func (w *world) sameAsLogged(replayed *Machine) {
	if g := w.machine.group("g"); g != nil && g.classic != nil && g.classic.state != StateEmpty && g.classic.state != StateStable {
		return
	}
	live, logged := durable(w.machine), durable(replayed)
	if live != logged {
		w.t.Fatalf("the group is\n%s\nand the log says\n%s", live, logged)
	}
}

// durable is what must survive of a group, as text.
func durable(m *Machine) string {
	g := m.group("g")
	if g == nil || g.classic == nil {
		return "none"
	}
	classic := g.classic
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s generation %d %q %q leader %q", classic.state, classic.generation, classic.protocolType, classic.protocol, classic.leaderID())
	if classic.state == StateEmpty {
		fmt.Fprintf(&text, " since %d", classic.emptySinceMillis())
	}
	for _, member := range classic.members {
		fmt.Fprintf(&text, "\n%s %s %s %d %d %x %x", member.id, member.instanceID, member.clientID, member.sessionTimeoutMillis, member.rebalanceTimeoutMillis,
			member.metadata(classic.protocol), member.assignment)
	}
	return text.String()
}

// settle has all clients behave, and waits for rest.
func (w *world) settle() {
	deadline := w.now + newMemberJoinMillis + 10*60_000
	for !w.rests() {
		if w.now > deadline {
			w.t.Fatalf("the group does not come to rest: %s", storyGroup(w.machine))
		}
		for _, client := range w.clients {
			w.act(client)
		}
		w.pass(2000)
	}
	if len(w.open) > 0 {
		w.t.Fatalf("%d requests were not answered", len(w.open))
	}
	w.checkSound()
	replayed := New(&Config{}, meta.NewImage())
	for _, record := range w.log {
		if err := replayed.Replay(record); err != nil {
			w.t.Fatal(err)
		}
	}
	w.sameAsLogged(replayed)
}

// rests says that every client has its partitions and nobody else is in the group.
func (w *world) rests() bool {
	g := w.machine.group("g")
	var owned, in int
	for _, client := range w.clients {
		switch {
		case client.phase == phaseIn && g != nil && g.classic != nil && client.generation == g.classic.generation:
			owned += len(client.assignment)
			in++
		case client.phase != phaseFenced:
			return false
		}
	}
	if in == 0 { // all were fenced
		return g == nil || g.isEmpty()
	}
	return g.classic.state == StateStable && len(g.classic.members) == in && owned == modelPartitions
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
