package raftctl

import (
	"encoding/binary"
	"path/filepath"

	"go.etcd.io/bbolt"

	"ringlog/meta"
)

// Inspection is what a metadata store holds, for people and tools: read without a
// controller, changing nothing.
type Inspection struct {
	NodeID    int32
	ClusterID string
	// Term, Vote and Commit are raft's; Vote is a broker's id, -1 for none.
	Term, Commit uint64
	Vote         int32
	// BoundaryIndex and BoundaryTerm are of the entry before the first one kept.
	BoundaryIndex, BoundaryTerm uint64
	// The snapshot covers the log up to SnapshotIndex.
	SnapshotIndex, SnapshotTerm uint64
	SnapshotBytes               int64
	Voters                      []int32 // brokers
	Entries                     []InspectedEntry
	// Image is the cluster as of the last committed entry.
	Image *meta.Image
}

// InspectedEntry is one entry of the metadata log.
type InspectedEntry struct {
	Index, Term uint64
	Bytes       int // of envelope and command
	// Session and Proposal name the proposal: which process, and its how-manieth.
	Session, Proposal uint64
	// Command is nil for the empty entry that a leader begins its term with.
	Command meta.Command
	// Committed: it is known to be; the last ones of a quorum of several may be so too.
	Committed bool
	// Refusal is why the command changed nothing, or nil.
	Refusal error
}

// Path is where the metadata store of a data directory lies.
func Path(dir string) string { return filepath.Join(dir, fileName) }

// Inspect reads the store at path and checks everything in it. The error is ErrMissing,
// ErrLocked when a controller has it open, ErrNewerFormat, ErrCorrupt, or the system's.
func Inspect(path string) (*Inspection, error) {
	s, i := &store{path: path}, &Inspection{}
	err := s.read(func(tx *bbolt.Tx) error {
		who, err := s.loadIdentity(tx)
		if err != nil {
			return err
		}
		i.NodeID, i.ClusterID = who.nodeID, who.clusterID
		if err := s.loadRaft(tx); err != nil {
			return err
		}
		return s.inspect(tx, i)
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// inspect fills in what the log holds. REQUIRES: loadRaft.
func (s *store) inspect(tx *bbolt.Tx, i *Inspection) error {
	stored, err := get(tx.Bucket(bucketState), keySnapshot, decodeSnapshot)
	if err != nil {
		return s.corrupt(err.Error())
	}
	i.Term, i.Vote, i.Commit = s.hard.GetTerm(), brokerID(s.hard.GetVote()), s.hard.GetCommit()
	i.BoundaryIndex, i.BoundaryTerm = s.boundary.index, s.boundary.term
	i.SnapshotIndex, i.SnapshotTerm, i.SnapshotBytes = stored.at.index, stored.at.term, int64(len(stored.image))
	for _, voter := range stored.voters {
		i.Voters = append(i.Voters, brokerID(voter))
	}
	if i.Image, err = meta.DecodeImage(stored.image); err != nil {
		return s.corrupt("its snapshot: " + err.Error())
	}
	cursor := tx.Bucket(bucketLog).Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		entry, err := openEntry(key, value)
		if err != nil {
			return s.corrupt(err.Error())
		}
		content, err := openEnvelope(entry)
		if err != nil {
			return err
		}
		e := InspectedEntry{Index: binary.BigEndian.Uint64(key), Term: entry.GetTerm(), Bytes: len(entry.GetData()),
			Session: content.session, Proposal: content.sequence, Command: content.command}
		// The commit index is kept with the next entry and lags; a quorum of one needs nobody else.
		e.Committed = e.Index <= max(i.Commit, i.SnapshotIndex) || len(i.Voters) == 1
		if e.Committed && e.Index > i.SnapshotIndex {
			if e.Command == nil {
				i.Image = i.Image.WithIndex(e.Index)
			} else {
				i.Image, _, _, e.Refusal = meta.Apply(i.Image, e.Index, e.Command)
			}
		}
		i.Entries = append(i.Entries, e)
	}
	return nil
}
