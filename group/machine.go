package group

import (
	"fmt"
	"slices"
	"strings"

	"ringlog/coord"
	"ringlog/meta"
)

// Machine is the coordinator of the groups of one partition. See the package comment.
type Machine struct {
	config *Config
	image  *meta.Image
	// topicsIndex is that of the last image in which there were other topics than in the one before.
	topicsIndex uint64

	// groups has every group by id; order has the same groups sorted by id, for every walk.
	groups map[string]*group
	order  []*group

	timers timers
	expiry timer // the next look for expired offsets
	// lost are offsets that nobody finds any more and whose tombstones are still to be written, by losing.
	lost   []lostOffsets
	losing timer
	// offsetCount is the number of committed offsets of all groups.
	offsetCount int
}

// New returns a machine before its log was replayed.
func New(config *Config, image *meta.Image) *Machine {
	m := &Machine{config: config, image: image, topicsIndex: image.Index, groups: map[string]*group{}}
	m.expiry.fire = m.expireOffsets
	m.losing.fire = m.tombstoneLost
	return m
}

// call is the surroundings of one step: what a request's step method needs beside the machine.
type call struct {
	nowMillis int64
	// token names who waits for the answer; keep it to answer in a later step.
	token   uint64
	effects *coord.Effects
}

// answer answers this step's request.
func (c call) answer(body any) { c.effects.Answer(c.token, body) }

// request is any of the package's request types: each file brings its own, with the step it
// causes. This stands where a type switch would: a new request touches one file.
type request interface {
	step(m *Machine, c call)
}

// Replay takes one record of the log while loading.
func (m *Machine) Replay(record coord.Record) error {
	version, ok := keyVersion(record.Key)
	if !ok {
		return fmt.Errorf("%w: a key of %d bytes", ErrRecord, len(record.Key))
	}
	switch {
	case version <= keyOffsetCommitMax:
		return m.replayOffset(record)
	case version == keyGroupMetadata:
		return m.replayClassic(record)
	case isConsumerKey(version):
		return m.replayConsumer(version, record)
	}
	return nil // a later version's record, as Kafka passes over them
}

// Loaded starts sessions anew and cleans what the log could not know.
func (m *Machine) Loaded(nowMillis int64, effects *coord.Effects) {
	c := call{nowMillis: nowMillis, effects: effects}
	m.forgetLostTopics(c)
	for _, g := range slices.Clone(m.order) { // a copy: loading may remove a group
		g.loaded(m, c)
	}
	m.maybeScheduleExpiry(nowMillis)
}

// Step takes one request; its Body is one of this package's request types.
func (m *Machine) Step(nowMillis int64, r coord.Request, effects *coord.Effects) {
	body, ok := r.Body.(request)
	if !ok {
		panic(fmt.Sprintf("group: %T is no request", r.Body))
	}
	body.step(m, call{nowMillis: nowMillis, token: r.Token, effects: effects})
}

// Tick fires the timers whose time has come.
func (m *Machine) Tick(nowMillis int64, effects *coord.Effects) {
	m.timers.run(call{nowMillis: nowMillis, effects: effects})
}

// NextMillis is when the next timer fires.
func (m *Machine) NextMillis() int64 { return m.timers.nextMillis() }

// group returns the group of that id, or nil.
func (m *Machine) group(id string) *group { return m.groups[id] }

// makeGroup returns the group of that id and makes it when it is not there.
func (m *Machine) makeGroup(id string) *group {
	if g := m.groups[id]; g != nil {
		return g
	}
	g := &group{id: id}
	at, _ := slices.BinarySearchFunc(m.order, id, compareGroupID)
	m.order = slices.Insert(m.order, at, g)
	m.groups[id] = g
	return g
}

// maybeRemove removes a group that has neither offsets nor a membership.
func (m *Machine) maybeRemove(g *group) {
	if len(g.offsets.topics) > 0 || g.membership() != nil || m.groups[g.id] != g {
		return
	}
	at, _ := slices.BinarySearchFunc(m.order, g.id, compareGroupID)
	m.order = slices.Delete(m.order, at, at+1)
	delete(m.groups, g.id)
}

func compareGroupID(g *group, id string) int { return strings.Compare(g.id, id) }
