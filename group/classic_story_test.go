package group

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"ringlog/coord"
	"ringlog/meta"
)

// TestClassicStories plays the stories of testdata/classic: requests of clients, and the time, against one
// machine, and what comes of it.
//
//	new [delay=3000] [min=6000] [max=1800000] [size=1000000]     a machine with an empty log
//	do                                                          the lines below it, one step each:
//	  join a [as=id] [instance=x] [v=9] [protocols=(range:metadata, ...)] [type=consumer] [session=10000] [rebalance=60000] [reason=...]
//	  sync a [assign=(a:p0, b:p1)] [generation=1] [as=id] [instance=x] [protocol=range]
//	  beat a [generation=1] [as=id] [instance=x]
//	  commit a [generation=1] [as=id] [instance=x]
//	  leave a ... [reason=...]       as members by their ids;  remove x ...  by their instance ids
//	  pass 3000                      milliseconds pass
//	  restart [size=1000000]         another machine loads the log; what waited is told to try again elsewhere
//	  delete, list [states=(...)] [types=(...)], describe, history
//
// a, b, c are clients, which remember the id and the generation that they were told. Every request
// is of group g. The output is every answer, in order, every record, and how the group stands.
func TestClassicStories(t *testing.T) {
	datadriven.Walk(t, "testdata/classic", func(t *testing.T, path string) {
		s := &story{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			switch d.Cmd {
			case "new":
				s.begin(d.CmdArgs)
				return ""
			case "do":
				for line := range strings.Lines(d.Input) {
					s.do(strings.TrimSpace(line))
				}
				return s.flush()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// story is one machine and its clients.
type story struct {
	t       *testing.T
	config  Config
	machine *Machine
	now     int64
	log     []coord.Record
	ids     int
	clients map[string]*storyClient
	waits   map[uint64]string // who waits, by token: "a joins"
	tokens  uint64
	out     strings.Builder
}

type storyClient struct {
	name, id   string
	generation int32
}

// storyMillis is when every story begins.
const storyMillis = 1_700_000_000_000

func (s *story) begin(arguments []datadriven.CmdArg) {
	at := storyArguments(arguments)
	s.config = Config{
		OffsetMetadataBytesMax: 4096, OffsetsRetentionMillis: 7 * 86_400_000, OffsetsCheckIntervalMillis: 1 << 40,
		SessionTimeoutMinMillis: at.number(s.t, "min", 6000), SessionTimeoutMaxMillis: at.number(s.t, "max", 1_800_000),
		InitialRebalanceDelayMillis: at.number(s.t, "delay", 3000), MembersMax: int(at.number(s.t, "size", 1_000_000)),
	}
	s.now, s.log, s.ids, s.clients, s.waits = storyMillis, nil, 0, map[string]*storyClient{}, map[uint64]string{}
	s.load()
}

// load makes a machine of the log.
func (s *story) load() {
	s.machine = New(&s.config, meta.NewImage())
	for _, record := range s.log {
		if err := s.machine.Replay(record); err != nil {
			s.t.Fatal(err)
		}
	}
	var effects coord.Effects
	s.machine.Loaded(s.now, &effects)
	s.take(&effects)
}

func (s *story) do(line string) {
	command, list, err := datadriven.ParseLine(line)
	if err != nil {
		s.t.Fatal(err)
	}
	at := storyArguments(list)
	switch command {
	case "pass":
		millis, err := strconv.ParseInt(at.names()[0], 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.pass(millis)
	case "restart":
		clear(s.waits)
		s.config.MembersMax = int(at.number(s.t, "size", int64(s.config.MembersMax)))
		s.load()
	case "join":
		s.join(at)
	case "sync":
		s.sync(at)
	case "beat":
		client := s.client(at.names()[0])
		s.ask(client.name+" beats", &Heartbeat{GroupID: "g", MemberID: at.text("as", client.id), InstanceID: at.pointer("instance"),
			Generation: int32(at.number(s.t, "generation", int64(client.generation)))})
	case "commit":
		client := s.client(at.names()[0])
		s.ask(client.name+" commits", &OffsetCommit{GroupID: "g", MemberID: at.text("as", client.id), InstanceID: at.pointer("instance"),
			Generation: int32(at.number(s.t, "generation", int64(client.generation)))})
	case "leave":
		request := &Leave{GroupID: "g"}
		for _, name := range at.names() {
			request.Members = append(request.Members, Leaving{MemberID: at.text("as", s.client(name).id), InstanceID: at.pointer("instance"), Reason: at.text("reason", "")})
		}
		s.ask("leave", request)
	case "remove":
		request := &Leave{GroupID: "g"}
		for _, name := range at.names() {
			request.Members = append(request.Members, Leaving{InstanceID: &name})
		}
		s.ask("remove", request)
	case "delete":
		s.ask("delete", &Delete{GroupID: "g"})
	case "list":
		s.ask("list", &List{States: at["states"], Types: at["types"]})
	case "describe":
		s.ask("describe", &Describe{GroupID: "g"})
	case "history":
		s.ask("history", &Describe{GroupID: "g"})
	default:
		s.t.Fatalf("unknown step %q", line)
	}
}

func (s *story) join(at storyList) {
	client := s.client(at.names()[0])
	version := at.number(s.t, "v", 9)
	s.ids++
	request := &Join{
		GroupID: "g", MemberID: at.text("as", client.id), InstanceID: at.pointer("instance"), NewMemberID: strconv.Itoa(s.ids), ClientID: client.name, ClientHost: "/127.0.0.1",
		SessionTimeoutMillis:   int32(at.number(s.t, "session", 10_000)),
		RebalanceTimeoutMillis: int32(at.number(s.t, "rebalance", 60_000)),
		ProtocolType:           at.text("type", "consumer"), Reason: at.text("reason", ""),
		RequireMemberID: version >= 4, SkipAssignment: version >= 9,
	}
	protocols, given := at["protocols"]
	if !given {
		protocols = []string{"range:" + client.name}
	}
	for _, protocol := range protocols {
		if name, metadata, _ := strings.Cut(protocol, ":"); name != "" {
			request.Protocols = append(request.Protocols, Protocol{Name: name, Metadata: []byte(metadata)})
		}
	}
	s.ask(client.name+" joins", request)
}

func (s *story) sync(at storyList) {
	client := s.client(at.names()[0])
	request := &Sync{GroupID: "g", MemberID: at.text("as", client.id), InstanceID: at.pointer("instance"),
		Generation: int32(at.number(s.t, "generation", int64(client.generation))), Protocol: at.pointer("protocol"), ProtocolType: at.pointer("type")}
	for _, one := range at["assign"] {
		name, assignment, _ := strings.Cut(one, ":")
		request.Assignments = append(request.Assignments, Assignment{MemberID: s.client(name).id, Assignment: []byte(assignment)})
	}
	s.ask(client.name+" syncs", request)
}

func (s *story) client(name string) *storyClient {
	if s.clients[name] == nil {
		s.clients[name] = &storyClient{name: name}
	}
	return s.clients[name]
}

func (s *story) ask(who string, body any) {
	s.tokens++
	s.waits[s.tokens] = who
	var effects coord.Effects
	s.machine.Step(s.now, coord.Request{Token: s.tokens, Body: body}, &effects)
	s.take(&effects)
}

// pass lets time pass, timer by timer.
func (s *story) pass(millis int64) {
	until := s.now + millis
	for s.machine.NextMillis() <= until {
		s.now = max(s.now, s.machine.NextMillis())
		var effects coord.Effects
		s.machine.Tick(s.now, &effects)
		s.take(&effects)
	}
	s.now = until
}

// take writes down what a step did.
func (s *story) take(effects *coord.Effects) {
	for _, record := range effects.Records {
		s.log = append(s.log, record)
		fmt.Fprintf(&s.out, "  record: %s\n", storyRecord(s.t, record))
	}
	for _, answer := range effects.Answers {
		who, waits := s.waits[answer.Token]
		if !waits {
			s.t.Fatalf("token %d is answered and nobody waits", answer.Token)
		}
		delete(s.waits, answer.Token)
		fmt.Fprintf(&s.out, "%s%s: %s\n", s.clock(), who, s.tell(who, answer.Body))
	}
	for _, event := range effects.Events {
		fmt.Fprintf(&s.out, "  event: %s %v\n", event.Message, event.Attributes)
	}
}

// clock is the time of the story, in seconds.
func (s *story) clock() string {
	return fmt.Sprintf("%7.3f ", float64(s.now-storyMillis)/1000)
}

// tell puts an answer into words, and has the client remember what it was told.
func (s *story) tell(who string, body any) string {
	name, _, _ := strings.Cut(who, " ")
	switch answer := body.(type) {
	case *JoinAnswer:
		client := s.client(name)
		if answer.Err != nil {
			switch {
			case errors.Is(answer.Err, ErrMemberIDRequired):
				client.id = answer.MemberID
			case errors.Is(answer.Err, ErrUnknownMember):
				client.id = ""
			}
			return fmt.Sprintf("%s, id %q", codeName(answer.Err), answer.MemberID)
		}
		client.id, client.generation = answer.MemberID, answer.Generation
		text := fmt.Sprintf("%s, generation %d, %s, leader %s", answer.MemberID, answer.Generation, *answer.Protocol, answer.LeaderID)
		if len(answer.Members) > 0 {
			text += ", members"
		}
		for _, member := range answer.Members {
			text += fmt.Sprintf(" %s:%s", member.MemberID, member.Metadata)
		}
		if answer.SkipAssignment {
			text += ", skip the assignment"
		}
		return text
	case *SyncAnswer:
		if answer.Err != nil {
			return codeName(answer.Err)
		}
		return fmt.Sprintf("%s %q", *answer.Protocol, answer.Assignment)
	case *HeartbeatAnswer:
		return codeName(answer.Err)
	case *OffsetCommitted:
		return codeName(answer.Err)
	case *LeaveAnswer:
		text := codeName(answer.Err)
		for _, member := range answer.Members {
			text += fmt.Sprintf(", %s%s %s", member.MemberID, instanceOf(member.InstanceID), codeName(member.Err))
		}
		return text
	case *Deleted:
		return codeName(answer.Err)
	case *Listed:
		text := fmt.Sprint(len(answer.Groups))
		for _, one := range answer.Groups {
			text += fmt.Sprintf(", %s %q %s %s", one.GroupID, one.ProtocolType, one.State, one.Type)
		}
		return text
	case *Description:
		if who == "history" {
			return tellHistory(answer)
		}
		text := fmt.Sprintf("%s %s %q %q", codeName(answer.Err), answer.State, answer.ProtocolType, answer.Protocol)
		for _, member := range answer.Members {
			text += fmt.Sprintf("\n          %s instance %q client %s %s metadata %q assignment %q", member.MemberID, member.InstanceID, member.ClientID, member.ClientHost, member.Metadata, member.Assignment)
		}
		return text
	}
	s.t.Fatalf("an answer of type %T", body)
	return ""
}

func tellHistory(answer *Description) string {
	text := fmt.Sprintf("%d rebalances", answer.RebalanceCount)
	for _, one := range answer.Rebalances {
		text += fmt.Sprintf("\n  %7.3f %s", float64(one.StartedMillis-storyMillis)/1000, one.Cause)
		if one.MemberID != "" {
			text += " (" + one.MemberID + ")"
		}
		if one.Reason != "" {
			text += fmt.Sprintf(" because of %q", one.Reason)
		}
		if one.EndedMillis != 0 {
			text += fmt.Sprintf(" ▶ %7.3f generation %d of %d members", float64(one.EndedMillis-storyMillis)/1000, one.Generation, one.Members)
		}
		if one.Overrun > 0 {
			text += fmt.Sprintf(", %d overran their polls (%s)", one.Overrun, one.OverrunID)
		}
	}
	return text
}

// flush ends a block: what was written down, and how the group stands.
func (s *story) flush() string {
	defer s.out.Reset()
	fmt.Fprintf(&s.out, "%s%s\n", s.clock(), storyGroup(s.machine))
	var waits []string
	for _, token := range sortedTokens(s.waits) {
		waits = append(waits, s.waits[token])
	}
	if len(waits) > 0 {
		fmt.Fprintf(&s.out, "        waits: %s\n", strings.Join(waits, ", "))
	}
	return s.out.String()
}

func sortedTokens(waits map[uint64]string) []uint64 {
	var tokens []uint64
	for token := range waits {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	return tokens
}

// storyGroup is group g in one line.
func storyGroup(m *Machine) string {
	g := m.group("g")
	if g == nil || g.classic == nil {
		return "no group"
	}
	classic := g.classic
	text := fmt.Sprintf("%s, generation %d", classic.state, classic.generation)
	for i, member := range classic.members {
		separator := " "
		if i == 0 {
			separator = ", "
		}
		text += separator + member.id
		if classic.isLeader(member) {
			text += "*"
		}
	}
	if pending := classic.pending.len(); pending > 0 {
		text += fmt.Sprintf(", %d ids given out", pending)
	}
	return text
}

// storyRecord is a record of the log in one line.
func storyRecord(t *testing.T, record coord.Record) string {
	if record.Value == nil {
		return "the group is gone"
	}
	m := New(&Config{}, meta.NewImage())
	if err := m.Replay(record); err != nil {
		t.Fatal(err)
	}
	classic := m.group("g").classic
	text := fmt.Sprintf("%s, generation %d %q %q", classic.state, classic.generation, classic.protocolType, classic.protocol)
	for _, member := range classic.members {
		text += fmt.Sprintf(", %s=%q", member.id, member.assignment)
	}
	return text
}

// codeNames are Kafka's names for the errors.
var codeNames = []struct {
	err  error
	name string
}{
	{nil, "fine"},
	{ErrInvalidGroupID, "INVALID_GROUP_ID"},
	{ErrGroupNotFound, "GROUP_ID_NOT_FOUND"},
	{ErrNonEmptyGroup, "NON_EMPTY_GROUP"},
	{ErrGroupFull, "GROUP_MAX_SIZE_REACHED"},
	{ErrUnknownMember, "UNKNOWN_MEMBER_ID"},
	{ErrMemberIDRequired, "MEMBER_ID_REQUIRED"},
	{ErrFencedInstance, "FENCED_INSTANCE_ID"},
	{ErrIllegalGeneration, "ILLEGAL_GENERATION"},
	{ErrRebalanceInProgress, "REBALANCE_IN_PROGRESS"},
	{ErrInconsistentProtocol, "INCONSISTENT_GROUP_PROTOCOL"},
	{ErrInvalidSessionTimeout, "INVALID_SESSION_TIMEOUT"},
	{ErrInvalidRequest, "INVALID_REQUEST"},
	{ErrGroupNotStored, "UNKNOWN_SERVER_ERROR"},
}

func codeName(err error) string {
	for _, one := range codeNames {
		if errors.Is(err, one.err) {
			return one.name
		}
	}
	return err.Error()
}

// storyList are a step's arguments; those without a name are under "".
type storyList map[string][]string

func storyArguments(arguments []datadriven.CmdArg) storyList {
	list := storyList{}
	for _, argument := range arguments {
		if argument.Vals == nil {
			list[""] = append(list[""], argument.Key)
			continue
		}
		list[argument.Key] = argument.Vals
	}
	return list
}

func (l storyList) names() []string { return l[""] }

func (l storyList) text(name, otherwise string) string {
	if values, given := l[name]; given {
		return strings.Join(values, ", ")
	}
	return otherwise
}

func (l storyList) pointer(name string) *string {
	values, given := l[name]
	if !given {
		return nil
	}
	return &values[0]
}

func (l storyList) number(t *testing.T, name string, otherwise int64) int64 {
	values, given := l[name]
	if !given {
		return otherwise
	}
	number, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
