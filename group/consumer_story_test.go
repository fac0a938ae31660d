package group

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/coord"
	"ringlog/group/assign"
	"ringlog/meta"
)

// TestConsumerStories plays the stories of testdata/consumer: requests of the members of one group, the time and the
// topics, against one machine, and what comes of it.
//
//	new [size=n] [assignors=(range, uniform)] [policy=disabled] [interval=0]     a machine with an empty log
//	do                                                           the lines below it, one step each:
//	  topic x 4, grow x 6, delete-topic x                        the cluster's topics
//	  setting consumer.session.timeout.ms 50000                  a configuration of the group
//	  join a [topics=(x, y)] [regex=x.*] [instance=i] [assignor=range] [timeout=60000] [as=id]
//	  beat a [epoch=1] [owns=(x:0-1)] [topics=(x)] [regex=x.*] [assignor=range] [instance=i]
//	  ack a                                                      beat, owning what it was last told, and nothing else
//	  leave a [for=a-while] [instance=i]
//	  commit a [epoch=1] [old=true], fetch a [epoch=1]           offsets, which only members of that epoch may
//	  classic-join c [topics=(x)] [owns=(x:0-1)] [instance=i] [as=id] [session=45000] [protocols=(range)]
//	  classic-sync c, classic-beat c, classic-leave c            the same by the classic protocol
//	  pass 3000, restart, describe, list, delete
//
// a, b, c are clients; they remember the epoch and the assignment that they were told. The output is every
// answer, what became known to operators, and what was stored.
func TestConsumerStories(t *testing.T) {
	datadriven.Walk(t, "testdata/consumer", func(t *testing.T, path string) {
		var s *consumerStory
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = newConsumerStory(t, d.CmdArgs)
				return ""
			case "do":
				s.t = t
				for line := range strings.Lines(d.Input) {
					s.do(strings.TrimSpace(line))
				}
				said := s.out.String()
				s.out.Reset()
				return said
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// consumerStory is one machine and its clients.
type consumerStory struct {
	t       *testing.T
	topics  *testTopics
	config  *Config
	machine *Machine
	now     int64
	log     []coord.Record
	clients map[string]*consumerClient
	drawn   int
	out     strings.Builder
}

type consumerClient struct {
	name, id string
	epoch    int32
	told     assign.Partitions
	classic  bool
}

func newConsumerStory(t *testing.T, list []datadriven.CmdArg) *consumerStory {
	at := consumerArguments{t, list}
	s := &consumerStory{t: t, topics: newTestTopics(), config: testConfig(), now: 1_700_000_000_000, clients: map[string]*consumerClient{}}
	s.config.Consumer.MembersMax = int(at.number("size", 1000))
	s.config.Consumer.AssignmentIntervalMillis.Value = at.number("interval", 0)
	if names := at.list("assignors"); names != nil {
		s.config.Consumer.Assignors = names
	}
	policy, known := ParseMigrationPolicy(at.text("policy", "bidirectional"))
	if !known {
		t.Fatal("unknown policy")
	}
	s.config.Consumer.Migration = policy
	s.load()
	return s
}

// load makes a machine of the log.
func (s *consumerStory) load() {
	s.machine = New(s.config, s.topics.image)
	for _, record := range s.log {
		if err := s.machine.Replay(record); err != nil {
			s.t.Fatal(err)
		}
	}
	var effects coord.Effects
	s.machine.Loaded(s.now, &effects)
	s.take(&effects, nil)
}

func (s *consumerStory) do(line string) {
	command, list, err := datadriven.ParseLine(line)
	if err != nil {
		s.t.Fatal(err)
	}
	at := consumerArguments{s.t, list}
	name := at.name(0)
	switch command {
	case "topic":
		s.step("", s.topics.create(name, int(at.count(1))))
	case "grow":
		s.step("", s.topics.grow(name, int(at.count(1))))
	case "delete-topic":
		s.step("", s.topics.remove(name))
	case "setting":
		s.topics.apply(meta.AlterConfigs{Resources: []meta.ConfigAlteration{{Scope: meta.ConfigOfGroup, Group: "g",
			Changes: []meta.ConfigChange{{Name: name, Value: at.name(1)}}}}})
		s.step("", &ImageChanged{Image: s.topics.image})
	case "pass":
		s.pass(at.count(0))
	case "restart":
		s.load()
	case "describe":
		s.step("", &DescribeConsumerGroup{GroupID: "g"})
	case "list":
		s.step("", &List{})
	case "delete":
		s.step("", &Delete{GroupID: "g"})
	default:
		s.request(command, s.client(name), at)
	}
}

// request is a step of one client.
func (s *consumerStory) request(command string, client *consumerClient, at consumerArguments) {
	beat := &ConsumerHeartbeat{
		GroupID: "g", MemberID: client.id, Epoch: int32(at.number("epoch", int64(client.epoch))), InstanceID: at.pointer("instance"),
		RebalanceTimeoutMillis: -1, Names: at.list("topics"), Regex: at.pointer("regex"), Assignor: at.pointer("assignor"),
		ClientID: "client-" + client.name, ClientHost: "/127.0.0.1",
	}
	if none := ""; beat.Regex != nil && *beat.Regex == "none" {
		beat.Regex = &none
	}
	if owns := at.list("owns"); owns != nil {
		beat.Owned, beat.OwnedGiven = s.partitions(owns), true
	}
	switch command {
	case "join":
		client.id = at.text("as", client.id)
		beat.MemberID, beat.Epoch, beat.RebalanceTimeoutMillis, beat.OwnedGiven = client.id, JoinEpoch, int32(at.number("timeout", 60_000)), true
		s.step(client.name, beat)
	case "beat":
		s.step(client.name, beat)
	case "ack":
		beat.Owned, beat.OwnedGiven = client.told, true
		s.step(client.name, beat)
	case "leave":
		if beat.Epoch = LeaveEpoch; at.text("for", "") != "" {
			beat.Epoch = StaticLeaveEpoch
		}
		s.step(client.name, beat)
	case "commit":
		s.step(client.name, &OffsetCommit{GroupID: "g", MemberID: client.id, Generation: beat.Epoch, MemberEpochs: at.text("old", "") == "",
			Topics: []OffsetCommitTopic{{Topic: "x", Partitions: []OffsetCommitPartition{{Partition: 0, Offset: 1, LeaderEpoch: -1}}}}})
	case "fetch":
		s.step(client.name, &OffsetFetchGroup{GroupID: "g", MemberID: &client.id, MemberEpoch: beat.Epoch, All: true})
	default:
		s.classicRequest(command, client, at)
	}
}

func (s *consumerStory) classicRequest(command string, client *consumerClient, at consumerArguments) {
	switch client.classic = true; command {
	case "classic-join":
		metadata := kmsg.ConsumerMemberMetadata{Version: 1, Topics: at.list("topics")}
		for _, of := range s.partitions(at.list("owns")) {
			topic, _ := s.topics.image.TopicByID(of.Topic)
			metadata.OwnedPartitions = append(metadata.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic.Name, Partitions: of.Partitions})
		}
		if client.id == client.name {
			client.id = ""
		}
		s.drawn++
		join := &Join{GroupID: "g", MemberID: at.text("as", client.id), InstanceID: at.pointer("instance"), NewMemberID: strconv.Itoa(s.drawn),
			ClientID: client.name, ClientHost: "/127.0.0.1", SessionTimeoutMillis: int32(at.number("session", 45_000)), RebalanceTimeoutMillis: 60_000,
			ProtocolType: protocolTypeConsumer}
		for _, protocol := range cmpList(at.list("protocols"), []string{"range"}) {
			join.Protocols = append(join.Protocols, Protocol{Name: protocol, Metadata: metadata.AppendTo(nil)})
		}
		s.step(client.name, join)
	case "classic-sync":
		sync := &Sync{GroupID: "g", MemberID: client.id, Generation: client.epoch}
		if owns := at.list("owns"); owns != nil {
			sync.Assignments = []Assignment{{MemberID: client.id, Assignment: encodeConsumerAssignment(s.topics.image, nil, assign.NewPartitions(s.partitions(owns)))}}
		}
		s.step(client.name, sync)
	case "classic-beat":
		s.step(client.name, &Heartbeat{GroupID: "g", MemberID: client.id, Generation: client.epoch})
	case "classic-leave":
		s.step(client.name, &Leave{GroupID: "g", Members: []Leaving{{MemberID: client.id}}})
	default:
		s.t.Fatalf("unknown step %q", command)
	}
}

func cmpList(list, otherwise []string) []string {
	if list == nil {
		return otherwise
	}
	return list
}

// step has the machine take a request of a client, or, with "", of nobody in particular.
func (s *consumerStory) step(client string, body any) {
	var effects coord.Effects
	s.machine.Step(s.now, coord.Request{Token: s.token(client), Body: body}, &effects)
	s.take(&effects, body)
}

// token of a client is its name's, so that answers which come later say whose they are.
func (s *consumerStory) token(client string) uint64 {
	if client == "" {
		return 1
	}
	return uint64(client[0])
}

func (s *consumerStory) pass(millis int64) {
	for until := s.now + millis; ; {
		next := s.machine.NextMillis()
		if next > until {
			s.now = until
			return
		}
		s.now = max(s.now, next)
		var effects coord.Effects
		s.machine.Tick(s.now, &effects)
		s.take(&effects, nil)
	}
}

// take writes down what came of a step.
func (s *consumerStory) take(effects *coord.Effects, _ any) {
	for _, answer := range effects.Answers {
		s.answered(string(rune(answer.Token)), answer.Body)
	}
	for _, event := range effects.Events {
		fmt.Fprintf(&s.out, "  event: %s", event.Message)
		for n := 0; n+1 < len(event.Attributes); n += 2 {
			if name := event.Attributes[n]; name == "member" || name == "cause" {
				fmt.Fprintf(&s.out, ", %s %v", name, event.Attributes[n+1])
			}
		}
		fmt.Fprintln(&s.out)
	}
	if len(effects.Records) > 0 {
		kinds := make([]string, len(effects.Records))
		for n, record := range effects.Records {
			kinds[n] = storedKind(record)
		}
		fmt.Fprintf(&s.out, "  log: %s\n", strings.Join(kinds, ", "))
	}
	s.log = append(s.log, effects.Records...)
}

// storedKind says which record it is, with a minus for a tombstone.
func storedKind(record coord.Record) string {
	version, _ := keyVersion(record.Key)
	key := reader{rest: record.Key[2:]}
	key.shortText()
	kind := map[int16]string{1: "offset", 2: "classic group", 3: "epoch", 5: "member", 6: "target epoch", 7: "target of", 8: "position of", 16: "regex"}[version]
	if hasPart(version) && isConsumerKey(version) {
		kind += " " + key.shortText()
	}
	value := reader{rest: record.Value}
	switch {
	case record.Value == nil:
		return "-" + kind
	case version == keyConsumerMetadata, version == keyConsumerTargetMetadata:
		value.int16()
		kind += " " + strconv.Itoa(int(value.int32()))
	}
	return kind
}

func (s *consumerStory) answered(client string, body any) {
	say := func(format string, arguments ...any) { fmt.Fprintf(&s.out, client+": "+format+"\n", arguments...) }
	one := s.clients[client]
	switch answer := body.(type) {
	case *ConsumerHeartbeatAnswer:
		if answer.Err != nil {
			say("%v", answer.Err)
			return
		}
		if one.epoch = answer.Epoch; answer.HasAssignment {
			one.told = answer.Assignment
			say("epoch %d, has %s", answer.Epoch, s.named(answer.Assignment))
			return
		}
		say("epoch %d", answer.Epoch)
	case *JoinAnswer:
		if one.id = answer.MemberID; answer.Err == nil {
			one.epoch = answer.Generation
			say("member %s, generation %d, protocol %s, leader %q, of %d", answer.MemberID, answer.Generation, *answer.Protocol, answer.LeaderID, len(answer.Members))
			return
		}
		say("member %q: %v", answer.MemberID, answer.Err)
	case *SyncAnswer:
		if answer.Err != nil {
			say("%v", answer.Err)
			return
		}
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(answer.Assignment); err != nil {
			s.t.Fatal(err)
		}
		var has []string
		for _, of := range assignment.Topics {
			has = append(has, fmt.Sprintf("%s%v", of.Topic, of.Partitions))
		}
		say("has %s", strings.Join(has, " "))
	case *HeartbeatAnswer:
		say("%v", answer.Err)
	case *LeaveAnswer:
		say("left: %v", errors.Join(answer.Err, answer.Members[0].Err))
	case *OffsetCommitted:
		say("committed: %v", answer.Topics[0].Partitions[0].Err)
	case *OffsetsFetched:
		say("fetched: %v", answer.Err)
	case *ConsumerGroupDescription:
		s.described(answer)
	case *Listed:
		for _, g := range answer.Groups {
			fmt.Fprintf(&s.out, "group %s: %s %s %s\n", g.GroupID, g.Type, g.ProtocolType, g.State)
		}
	case *Deleted:
		fmt.Fprintf(&s.out, "deleted: %v\n", answer.Err)
	default:
		s.t.Fatalf("answered with %T", body)
	}
}

func (s *consumerStory) described(of *ConsumerGroupDescription) {
	if of.Err != nil {
		fmt.Fprintf(&s.out, "%v\n", of.Err)
		return
	}
	fmt.Fprintf(&s.out, "%s, epoch %d, target of %d by %s\n", of.State, of.Epoch, of.AssignmentEpoch, of.Assignor)
	for _, member := range of.Members {
		name := member.MemberID
		if member.InstanceID != "" {
			name += "=" + member.InstanceID
		}
		if member.Classic {
			name += " (classic)"
		}
		fmt.Fprintf(&s.out, "  %s: epoch %d, has %s, is to have %s\n", name, member.Epoch, namedText(member.Assigned), namedText(member.Target))
	}
}

func namedText(partitions []NamedPartitions) string {
	var texts []string
	for _, of := range partitions {
		texts = append(texts, fmt.Sprintf("%s%v", of.Topic, of.Partitions))
	}
	if texts == nil {
		return "nothing"
	}
	return strings.Join(texts, " ")
}

func (s *consumerStory) named(partitions assign.Partitions) string {
	var named []NamedPartitions
	for _, of := range partitions {
		name := "?"
		if topic, ok := s.topics.image.TopicByID(of.Topic); ok {
			name = topic.Name
		}
		named = append(named, NamedPartitions{Topic: name, Partitions: of.Partitions})
	}
	return namedText(named)
}

// partitions reads x:0-1-2.
func (s *consumerStory) partitions(texts []string) []assign.TopicPartitions {
	partitions := []assign.TopicPartitions{}
	for _, text := range texts {
		name, numbers, _ := strings.Cut(text, ":")
		topic, ok := s.topics.image.Topic(name)
		if !ok {
			s.t.Fatalf("there is no topic %q", name)
		}
		of := assign.TopicPartitions{Topic: topic.ID}
		for number := range strings.SplitSeq(numbers, "-") {
			partition, err := strconv.Atoi(number)
			if err != nil {
				s.t.Fatal(err)
			}
			of.Partitions = append(of.Partitions, int32(partition))
		}
		partitions = append(partitions, of)
	}
	return partitions
}

func (s *consumerStory) client(name string) *consumerClient {
	if s.clients[name] == nil {
		s.clients[name] = &consumerClient{name: name, id: name}
	}
	return s.clients[name]
}

// consumerArguments are the words of a step.
type consumerArguments struct {
	t     *testing.T
	words []datadriven.CmdArg
}

func (a consumerArguments) find(key string) (datadriven.CmdArg, bool) {
	at := slices.IndexFunc(a.words, func(arg datadriven.CmdArg) bool { return arg.Key == key })
	if at < 0 {
		return datadriven.CmdArg{}, false
	}
	return a.words[at], true
}

// name returns the n-th word without a value.
func (a consumerArguments) name(n int) string {
	for _, arg := range a.words {
		if len(arg.Vals) > 0 {
			continue
		}
		if n == 0 {
			return arg.Key
		}
		n--
	}
	return ""
}

func (a consumerArguments) count(n int) int64 {
	number, err := strconv.ParseInt(a.name(n), 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return number
}

func (a consumerArguments) text(key, otherwise string) string {
	if arg, ok := a.find(key); ok {
		return arg.Vals[0]
	}
	return otherwise
}

func (a consumerArguments) number(key string, otherwise int64) int64 {
	number, err := strconv.ParseInt(a.text(key, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return number
}

func (a consumerArguments) pointer(key string) *string {
	if arg, ok := a.find(key); ok {
		return &arg.Vals[0]
	}
	return nil
}

// list returns the values of a key, empty but not nil when it has none.
func (a consumerArguments) list(key string) []string {
	arg, ok := a.find(key)
	switch {
	case !ok:
		return nil
	case len(arg.Vals) == 1 && (arg.Vals[0] == "none" || arg.Vals[0] == ""):
		return []string{}
	}
	return arg.Vals
}
