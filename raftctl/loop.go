package raftctl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ringlog/meta"
)

const (
	// electionTicks and heartbeatTicks are raft's times in ticks.
	electionTicks  = 10
	heartbeatTicks = 2
	// proposalsPerRound bounds how many waiting proposals share one flush.
	proposalsPerRound = 256
)

// loop is what the loop goroutine owns.
type loop struct {
	node    *raft.RawNode
	store   *store
	leader  uint64 // raft id, 0 when there is none
	waiting map[uint64]*proposal
	// session and sequence name this process's proposals among all in the log.
	session  uint64
	sequence uint64
}

// proposal is one command on its way.
type proposal struct {
	ctx     context.Context
	data    []byte // envelope and command
	outcome chan outcome
}

// outcome is what became of a proposal.
type outcome struct {
	result meta.Result
	err    error
}

// An entry of the log is an envelope and a command frame:
//
//	byte   bytes
//	0      1      envelope version, now 1
//	1      8      session, little-endian: random, one per process start
//	9      8      sequence: which proposal of that session
//	17     ...    frame of package meta
const (
	envelopeBytes   = 17
	envelopeVersion = 1
)

// run is the loop: it takes what came, lets raft think, and carries out what
// raft says, until Close or the first failure.
func (c *Controller) run() {
	err := c.runUntilStopped()
	if err != nil {
		c.err = fmt.Errorf("%w: %w", ErrFailed, err)
		c.log.Error("metadata controller has failed; the present metadata stays in force, nothing can be changed until restart", "error", err)
	}
	close(c.stopped)
}

// runUntilStopped is runUntilClosed with raft's panics as errors: raft has no other way to
// report that its storage failed, and the data path must outlive that.
func (c *Controller) runUntilStopped() (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("raft cannot go on: %v", cause)
			c.log.Error("raft cannot go on", "cause", cause, "stack", string(debug.Stack()))
		}
	}()
	return c.runUntilClosed()
}

func (c *Controller) runUntilClosed() error {
	ticker := time.NewTicker(c.options.TickInterval)
	defer ticker.Stop()
	if len(c.loop.store.conf.GetVoters()) == 1 {
		// Nobody else can be leader: do not wait for an election time-out.
		if err := c.loop.node.Campaign(); err != nil {
			return err
		}
	}
	for {
		for c.loop.node.HasReady() {
			if err := c.handle(c.loop.node.Ready()); err != nil {
				return err
			}
		}
		if err := c.maybeCompact(); err != nil {
			return err
		}
		select {
		case <-c.closing:
			return nil
		case <-ticker.C:
			c.loop.node.Tick()
			c.forgetAbandoned()
		case step := <-c.inputs:
			step(c.loop.node)
		case p := <-c.proposals:
			c.propose(p)
			c.proposeWaiting()
		}
	}
}

// proposeWaiting takes the proposals that wait at this moment, so that they
// share a flush.
func (c *Controller) proposeWaiting() {
	for range proposalsPerRound {
		select {
		case p := <-c.proposals:
			c.propose(p)
		default:
			return
		}
	}
}

func (c *Controller) propose(p *proposal) {
	c.loop.sequence++
	p.data[0] = envelopeVersion
	binary.LittleEndian.PutUint64(p.data[1:], c.loop.session)
	binary.LittleEndian.PutUint64(p.data[9:], c.loop.sequence)
	err := c.loop.node.Propose(p.data)
	switch {
	case errors.Is(err, raft.ErrProposalDropped):
		p.outcome <- outcome{err: ErrNoLeader}
	case err != nil:
		p.outcome <- outcome{err: fmt.Errorf("raftctl: propose: %w", err)}
	default:
		c.loop.waiting[c.loop.sequence] = p
	}
}

// forgetAbandoned drops proposals whose callers have gone: raft may have lost them with
// a leader, and then nothing ever answers them.
func (c *Controller) forgetAbandoned() {
	for sequence, p := range c.loop.waiting {
		if p.ctx.Err() != nil {
			delete(c.loop.waiting, sequence)
		}
	}
}

// handle carries out one Ready in raft's order: persist, then send, then apply.
func (c *Controller) handle(ready raft.Ready) error {
	if err := c.loop.store.save(&ready); err != nil {
		return err
	}
	if err := c.send(ready.Messages); err != nil {
		return err
	}
	image := c.image.Load()
	if !raft.IsEmptySnap(ready.Snapshot) {
		installed, err := meta.DecodeImage(ready.Snapshot.GetData())
		if err != nil {
			return fmt.Errorf("snapshot from the leader: %w", asCorrupt(err))
		}
		image = installed.WithController(image.ControllerID)
	}
	if ready.SoftState != nil {
		c.loop.leader = ready.SoftState.Lead
		image = image.WithController(brokerID(c.loop.leader))
	}
	image, answers, err := c.apply(image, ready.CommittedEntries)
	c.publish(image)
	for _, a := range answers { // only now: Image shows what they answer
		a.to.outcome <- a.outcome
	}
	if err != nil {
		return err
	}
	c.loop.node.Advance(ready)
	c.publishStatus()
	c.maybeReady(ready.CommittedEntries)
	return nil
}

// answer is an outcome that waits for the image it tells of to be published.
type answer struct {
	to      *proposal
	outcome outcome
}

// apply applies committed entries to image.
func (c *Controller) apply(image *meta.Image, entries []*raftpb.Entry) (*meta.Image, []answer, error) {
	var answers []answer
	for _, entry := range entries {
		command, sequence, err := c.open(entry)
		if err != nil {
			return image, answers, err
		}
		var result meta.Result
		var refusal error
		if command == nil { // a new leader's empty entry
			image = image.WithIndex(entry.GetIndex())
		} else {
			image, _, result, refusal = meta.Apply(image, entry.GetIndex(), command)
		}
		if p, ours := c.loop.waiting[sequence]; ours {
			delete(c.loop.waiting, sequence)
			answers = append(answers, answer{p, outcome{result, refusal}})
		}
	}
	return image, answers, nil
}

// open reads an entry: its command, nil for an empty one, and its sequence
// number if this process proposed it, else 0.
func (c *Controller) open(entry *raftpb.Entry) (meta.Command, uint64, error) {
	e, err := openEnvelope(entry)
	if err != nil || e.session != c.loop.session {
		e.sequence = 0
	}
	return e.command, e.sequence, err
}

// envelope is what an entry of the log holds; its zero value is an empty entry.
type envelope struct {
	session, sequence uint64
	command           meta.Command // nil for an empty entry
}

// openEnvelope reads an entry.
func openEnvelope(entry *raftpb.Entry) (envelope, error) {
	if entry.GetType() != raftpb.EntryType_EntryNormal {
		return envelope{}, fmt.Errorf("%w: entry %d of the metadata log changes the voters, which this version cannot", ErrNewerFormat, entry.GetIndex())
	}
	data := entry.GetData()
	if len(data) == 0 {
		return envelope{}, nil
	}
	if data[0] > envelopeVersion {
		return envelope{}, fmt.Errorf("%w: entry %d of the metadata log has envelope %d, this version reads up to %d", ErrNewerFormat, entry.GetIndex(), data[0], envelopeVersion)
	}
	if len(data) < envelopeBytes {
		return envelope{}, fmt.Errorf("%w: entry %d of the metadata log is cut off", ErrCorrupt, entry.GetIndex())
	}
	command, err := meta.DecodeCommand(data[envelopeBytes:])
	if err != nil {
		return envelope{}, fmt.Errorf("entry %d of the metadata log: %w", entry.GetIndex(), asCorrupt(err))
	}
	return envelope{session: binary.LittleEndian.Uint64(data[1:]), sequence: binary.LittleEndian.Uint64(data[9:]), command: command}, nil
}

// maybeReady opens Ready once an entry of the present leader's term is applied:
// a leader begins its term with one, behind everything committed before it.
func (c *Controller) maybeReady(applied []*raftpb.Entry) {
	select {
	case <-c.ready:
		return
	default:
	}
	if len(applied) > 0 && c.loop.leader != raft.None && applied[len(applied)-1].GetTerm() == c.loop.store.hard.GetTerm() {
		close(c.ready)
	}
}

// maybeCompact replaces the log by a snapshot when it has grown past its limit.
func (c *Controller) maybeCompact() error {
	s := c.loop.store
	if s.logBytes < max(c.options.SnapshotLogBytes, 2*s.snapshotBytes) {
		return nil
	}
	image := c.image.Load()
	if image.Index < s.snapshotAt.index+2*trailingEntries {
		return nil // what is left are the entries kept for followers
	}
	term, err := s.Term(image.Index)
	if err != nil {
		return err
	}
	if err := s.compact(position{index: image.Index, term: term}, meta.AppendImage(nil, image)); err != nil {
		return err
	}
	c.log.Debug("metadata log replaced by a snapshot", "index", image.Index, "bytes", s.snapshotBytes)
	c.publishStatus()
	return nil
}

func (c *Controller) publishStatus() {
	s, raftStatus := c.loop.store, c.loop.node.BasicStatus()
	status := &Status{LeaderID: brokerID(raftStatus.Lead), Term: raftStatus.GetTerm(), Committed: raftStatus.GetCommit(), Applied: c.image.Load().Index,
		FirstIndex: s.boundary.index + 1, SnapshotIndex: s.snapshotAt.index, LogBytes: s.logBytes, SnapshotBytes: s.snapshotBytes}
	for _, voter := range s.conf.GetVoters() {
		status.Voters = append(status.Voters, brokerID(voter))
	}
	c.status.Store(status)
}
