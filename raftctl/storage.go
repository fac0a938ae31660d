package raftctl

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// The methods below are raft.Storage. raft calls them on the controller's
// goroutine only, from inside its own methods.

// InitialState returns what was kept of the hard state and the voters.
func (s *store) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.conf, nil
}

// FirstIndex returns the index of the first entry kept.
func (s *store) FirstIndex() (uint64, error) { return s.boundary.index + 1, nil }

// LastIndex returns the index of the last entry.
func (s *store) LastIndex() (uint64, error) { return s.last, nil }

// Term returns the term of entry index.
func (s *store) Term(index uint64) (uint64, error) {
	switch {
	case index == s.boundary.index:
		return s.boundary.term, nil
	case index == s.snapshotAt.index:
		return s.snapshotAt.term, nil
	case index < s.boundary.index:
		return 0, raft.ErrCompacted
	case index > s.last:
		return 0, raft.ErrUnavailable
	}
	var term uint64
	err := s.view(func(tx *bbolt.Tx) error {
		key := entryKey(index)
		entry, err := openEntry(key, tx.Bucket(bucketLog).Get(key))
		term = entry.GetTerm()
		return err
	})
	return term, err
}

// Entries returns copies of the entries in [low, high), at least one and not
// much more than bytesMax.
func (s *store) Entries(low, high, bytesMax uint64) ([]*raftpb.Entry, error) {
	if low <= s.boundary.index {
		return nil, raft.ErrCompacted
	}
	if high > s.last+1 {
		return nil, raft.ErrUnavailable
	}
	var entries []*raftpb.Entry
	err := s.view(func(tx *bbolt.Tx) error {
		bytes := uint64(0)
		for index := low; index < high; index++ {
			key := entryKey(index)
			sealed := tx.Bucket(bucketLog).Get(key)
			if bytes += uint64(len(sealed)); len(entries) > 0 && bytes > bytesMax {
				break
			}
			entry, err := openEntry(key, sealed)
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		return nil
	})
	return entries, err
}

// Snapshot returns the snapshot.
func (s *store) Snapshot() (*raftpb.Snapshot, error) {
	snapshot, err := s.readSnapshot()
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{Data: snapshot.image, Metadata: &raftpb.SnapshotMetadata{
		Index: &snapshot.at.index, Term: &snapshot.at.term, ConfState: &raftpb.ConfState{Voters: snapshot.voters}}}, nil
}

func (s *store) readSnapshot() (found snapshot, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		found, err = get(tx.Bucket(bucketState), keySnapshot, decodeSnapshot)
		return err
	})
	return found, err
}

// save makes a Ready durable in one transaction. One that only moves the
// commit index costs nothing: it goes with the next.
func (s *store) save(ready *raft.Ready) error {
	if ready.HardState != nil && !raft.IsEmptyHardState(ready.HardState) {
		s.hard, s.hardPending = ready.HardState, true
	}
	received := !raft.IsEmptySnap(ready.Snapshot)
	if !received && len(ready.Entries) == 0 && !ready.MustSync {
		return nil
	}
	next := *s // the mirror of the file follows only when the file has changed
	err := s.update(func(tx *bbolt.Tx) error {
		if received {
			if err := next.install(tx, ready.Snapshot); err != nil {
				return err
			}
		}
		return next.append(tx, ready.Entries)
	})
	if err != nil {
		return err
	}
	s.boundary, s.last, s.logBytes = next.boundary, next.last, next.logBytes
	s.snapshotAt, s.snapshotBytes, s.conf = next.snapshotAt, next.snapshotBytes, next.conf
	return nil
}

// install replaces snapshot and log by a snapshot received from the leader.
func (s *store) install(tx *bbolt.Tx, received *raftpb.Snapshot) error {
	at := position{index: received.GetMetadata().GetIndex(), term: received.GetMetadata().GetTerm()}
	conf := received.GetMetadata().GetConfState()
	state := tx.Bucket(bucketState)
	if err := put(state, keySnapshot, encodeSnapshot(snapshot{at: at, voters: conf.GetVoters(), image: received.GetData()})); err != nil {
		return err
	}
	if err := put(state, keyBoundary, encodePosition(at)); err != nil {
		return err
	}
	if err := s.remove(tx, s.boundary.index+1, s.last); err != nil {
		return err
	}
	s.boundary, s.last, s.snapshotAt = at, at.index, at
	s.snapshotBytes, s.conf = int64(len(received.GetData())), conf
	return nil
}

// append adds entries, which replace those from the first one's index on.
func (s *store) append(tx *bbolt.Tx, entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if first <= s.boundary.index || first > s.last+1 {
		return fmt.Errorf("raftctl: entry %d does not follow a log that ends at %d", first, s.last)
	}
	if err := s.remove(tx, first, s.last); err != nil {
		return err
	}
	s.last = first - 1
	bucket := tx.Bucket(bucketLog)
	bucket.FillPercent = 1 // keys only grow
	for _, entry := range entries {
		key := entryKey(entry.GetIndex())
		sealed := seal(key, encodeEntry(entry))
		if err := bucket.Put(key, sealed); err != nil {
			return err
		}
		s.last++
		s.logBytes += int64(len(sealed))
	}
	return nil
}

// remove deletes the entries from first to last.
func (s *store) remove(tx *bbolt.Tx, first, last uint64) error {
	bucket := tx.Bucket(bucketLog)
	for index := first; index <= last; index++ {
		key := entryKey(index)
		s.logBytes -= int64(len(bucket.Get(key)))
		if err := bucket.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// compact replaces the snapshot by image, which stands at an entry of the log that was
// applied, and drops the entries it makes needless.
func (s *store) compact(at position, image []byte) error {
	next := *s
	err := s.update(func(tx *bbolt.Tx) error {
		state := tx.Bucket(bucketState)
		if err := put(state, keySnapshot, encodeSnapshot(snapshot{at: at, voters: s.conf.GetVoters(), image: image})); err != nil {
			return err
		}
		next.snapshotAt, next.snapshotBytes = at, int64(len(image))
		if at.index <= s.boundary.index+trailingEntries {
			return nil
		}
		cut := at.index - trailingEntries
		key := entryKey(cut)
		entry, err := openEntry(key, tx.Bucket(bucketLog).Get(key))
		if err != nil {
			return err
		}
		if err := next.remove(tx, s.boundary.index+1, cut); err != nil {
			return err
		}
		next.boundary = position{index: cut, term: entry.GetTerm()}
		return put(state, keyBoundary, encodePosition(next.boundary))
	})
	if err != nil {
		return err
	}
	s.boundary, s.logBytes, s.snapshotAt, s.snapshotBytes = next.boundary, next.logBytes, next.snapshotAt, next.snapshotBytes
	return nil
}

// update runs one flushed transaction, with the hard state if it has changed.
func (s *store) update(change func(*bbolt.Tx) error) error {
	err := guard(func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			if s.hardPending {
				if err := put(tx.Bucket(bucketState), keyHard, encodeHard(s.hard)); err != nil {
					return err
				}
			}
			return change(tx)
		})
	}, s.corruptPanic)
	if err != nil {
		return s.failed("writing", err)
	}
	s.hardPending = false
	if s.committed != nil {
		s.committed()
	}
	return nil
}

func (s *store) view(read func(*bbolt.Tx) error) error {
	if err := guard(func() error { return s.db.View(read) }, s.corruptPanic); err != nil {
		return s.failed("reading", err)
	}
	return nil
}

func (s *store) failed(doing string, err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	if errors.Is(err, errSum) || errors.Is(err, errCut) || errors.Is(err, errNoValue) {
		return s.corrupt(err.Error())
	}
	return fmt.Errorf("raftctl: %s %s: %w", doing, s.path, err)
}
