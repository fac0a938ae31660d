package raftctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/raft/v3/raftpb"
)

// The store is one bbolt file:
//
//	bucket     key             value
//	identity   "identity"      format version, node id, cluster id
//	state      "hard"          term, vote, commit
//	           "boundary"      index and term of the entry before the first one kept
//	           "snapshot"      index, term, voters, image (a frame of package meta)
//	log        index (8, BE)   term, type, data
//
// Every value is sealed: a CRC-32C over key and value, which bbolt itself does not
// have for its data pages, and then the value. Numbers are varints.
const (
	fileName      = "metadata.db"
	formatVersion = 1
	// reservedBytes is the disk space that a file has from the start: room for log
	// and snapshots of 48,000 partitions, old and new at once.
	reservedBytes = 16 << 20
	// lockTimeout is how long Open waits for another process to let go of the file.
	lockTimeout = time.Second
	// trailingEntries are kept behind a snapshot, so that a follower that is only
	// a little behind is not sent a whole image.
	trailingEntries = 64
)

var (
	bucketIdentity = []byte("identity")
	bucketState    = []byte("state")
	bucketLog      = []byte("log")
	keyIdentity    = []byte("identity")
	keyHard        = []byte("hard")
	keyBoundary    = []byte("boundary")
	keySnapshot    = []byte("snapshot")
)

// identity says whose data a file holds.
type identity struct {
	nodeID    int32
	clusterID string
}

// position names an entry of the log.
type position struct{ index, term uint64 }

// store is the durable half of raft and its raft.Storage. Owner: the
// controller's goroutine. Fields mirror what is in the file.
type store struct {
	db   *bbolt.DB
	path string

	boundary      position          // the entry before the first one kept
	last          uint64            // index of the last entry; boundary.index when there is none
	snapshotAt    position          // what the snapshot covers
	snapshotBytes int64             // its size
	conf          *raftpb.ConfState // voters, as of the snapshot
	logBytes      int64             // size of the entries kept

	// hard is what raft last asked to keep. A Ready that only moves the commit
	// index need not be durable: it waits in hard for the next transaction.
	hard        *raftpb.HardState
	hardPending bool

	// committed, if set, is called after each transaction: tests copy the file there.
	committed func()
}

// createStore makes the file with its first snapshot. It appears under its name only when it
// is whole and flushed.
func createStore(dir string, who identity, voters []uint64, image []byte) (err error) {
	path := filepath.Join(dir, fileName)
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("raftctl: creating metadata: %w", err)
	}
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("raftctl: creating metadata: %w", err)
	}
	if err := writeFirst(temporary, who, voters, image); err != nil {
		return fmt.Errorf("raftctl: creating %s: %w", temporary, err)
	}
	if err := reserve(temporary, reservedBytes); err != nil {
		return fmt.Errorf("raftctl: creating %s: %w", temporary, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("raftctl: creating metadata: %w", err)
	}
	return syncDirectory(dir)
}

func writeFirst(path string, who identity, voters []uint64, image []byte) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true})
	if err != nil {
		return err
	}
	first := position{index: 1, term: 1}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketIdentity, bucketState, bucketLog} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		state := tx.Bucket(bucketState)
		return errors.Join(
			put(tx.Bucket(bucketIdentity), keyIdentity, encodeIdentity(who)),
			put(state, keyHard, encodeHard(&raftpb.HardState{Term: new(first.term), Vote: new(uint64(0)), Commit: new(first.index)})),
			put(state, keyBoundary, encodePosition(first)),
			put(state, keySnapshot, encodeSnapshot(snapshot{at: first, voters: voters, image: image})))
	})
	return errors.Join(err, db.Close())
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("raftctl: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// openStore opens the file of who and checks all that is in it.
func openStore(dir string, who identity) (s *store, err error) {
	s = &store{path: filepath.Join(dir, fileName)}
	err = s.read(func(tx *bbolt.Tx) error { return s.load(tx, who) })
	if err != nil {
		return nil, err
	}
	err = guard(func() (err error) {
		s.db, err = bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
		return err
	})
	if err != nil {
		return nil, s.openError(err)
	}
	return s, nil
}

// fileBytes is the size of the file, which has to be one that can be opened.
func (s *store) fileBytes() (int64, error) {
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, fmt.Errorf("%w: there is no %s", ErrMissing, s.path)
	case err != nil:
		return 0, fmt.Errorf("raftctl: %w", err)
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%w: %s is not a file", ErrCorrupt, s.path)
	case info.Size() == 0:
		// bbolt would make an empty database of it: the one thing that must not happen.
		return 0, fmt.Errorf("%w: %s is empty", ErrCorrupt, s.path)
	}
	return info.Size(), nil
}

// read shows the whole file to load once, without taking it for writing. It comes before the
// real opening because bbolt looks for free pages there, on a goroutine whose panic over a
// damaged page could not be caught.
func (s *store) read(load func(tx *bbolt.Tx) error) error {
	fileBytes, err := s.fileBytes()
	if err != nil {
		return err
	}
	return guard(func() error {
		db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
		if err != nil {
			return s.openError(err)
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if tx.Size() > fileBytes {
				return s.corrupt(fmt.Sprintf("it is cut off: %d bytes of %d", fileBytes, tx.Size()))
			}
			return load(tx)
		})
	}, s.corruptPanic)
}

// openError turns bbolt's error into one of ours: what neither the lock nor the system
// says is about the bytes of the file.
func (s *store) openError(err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s", ErrLocked, s.path)
	case errors.As(err, &system):
		return fmt.Errorf("raftctl: opening %s: %w", s.path, err)
	}
	return s.corrupt(err.Error())
}

// load reads and checks everything, and that it is of who.
func (s *store) load(tx *bbolt.Tx, who identity) error {
	if err := s.checkIdentity(tx, who); err != nil {
		return err
	}
	return s.loadRaft(tx)
}

// loadRaft reads and checks what raft keeps, and fills in s.
func (s *store) loadRaft(tx *bbolt.Tx) error {
	state := tx.Bucket(bucketState)
	hard, err := get(state, keyHard, decodeHard)
	if err != nil {
		return s.corrupt(err.Error())
	}
	boundary, err := get(state, keyBoundary, decodePosition)
	if err != nil {
		return s.corrupt(err.Error())
	}
	snapshot, err := get(state, keySnapshot, decodeSnapshot)
	if err != nil {
		return s.corrupt(err.Error())
	}
	s.hard, s.boundary, s.last = hard, boundary, boundary.index
	s.snapshotAt, s.snapshotBytes = snapshot.at, int64(len(snapshot.image))
	s.conf = &raftpb.ConfState{Voters: snapshot.voters}
	if snapshot.at.index < boundary.index || hard.GetTerm() < snapshot.at.term {
		return s.corrupt("its log does not fit its snapshot")
	}
	return s.loadLog(tx)
}

// loadLog checks that the log goes on without a gap from the boundary to or past the
// snapshot and the commit index.
func (s *store) loadLog(tx *bbolt.Tx) error {
	term := s.boundary.term
	cursor := tx.Bucket(bucketLog).Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		if len(key) != 8 || binary.BigEndian.Uint64(key) != s.last+1 {
			return s.corrupt(fmt.Sprintf("entry %d of its log is missing", s.last+1))
		}
		entry, err := openEntry(key, value)
		if err != nil {
			return s.corrupt(err.Error())
		}
		if entry.GetTerm() < term || entry.GetTerm() > s.hard.GetTerm() {
			return s.corrupt(fmt.Sprintf("entry %d of its log has term %d, after %d", s.last+1, entry.GetTerm(), term))
		}
		term = entry.GetTerm()
		s.last++
		s.logBytes += int64(len(value))
	}
	if s.last < s.snapshotAt.index || s.last < s.hard.GetCommit() {
		return s.corrupt(fmt.Sprintf("its log ends at %d, before its snapshot (%d) or what was committed (%d)", s.last, s.snapshotAt.index, s.hard.GetCommit()))
	}
	return nil
}

func (s *store) checkIdentity(tx *bbolt.Tx, who identity) error {
	found, err := s.loadIdentity(tx)
	switch {
	case err != nil:
		return err
	case found.clusterID != who.clusterID:
		return fmt.Errorf("%w: %s is of cluster %s, this broker is of %s", ErrWrongCluster, s.path, found.clusterID, who.clusterID)
	case found.nodeID != who.nodeID:
		return fmt.Errorf("%w: %s is of broker %d, this is broker %d", ErrWrongNode, s.path, found.nodeID, who.nodeID)
	}
	return nil
}

// loadIdentity reads whose file it is, and that it is one of ours.
func (s *store) loadIdentity(tx *bbolt.Tx) (identity, error) {
	for _, name := range [][]byte{bucketIdentity, bucketState, bucketLog} {
		if tx.Bucket(name) == nil {
			return identity{}, s.corrupt(fmt.Sprintf("it has no bucket %s", name))
		}
	}
	raw, err := unseal(keyIdentity, tx.Bucket(bucketIdentity).Get(keyIdentity))
	if err != nil {
		return identity{}, s.corrupt(err.Error())
	}
	version, found, err := decodeIdentity(raw)
	switch {
	case version > formatVersion:
		return identity{}, fmt.Errorf("%w: %s has format %d, this version reads up to %d; upgrade this broker, or give it a data directory of its own version", ErrNewerFormat, s.path, version, formatVersion)
	case err != nil:
		return identity{}, s.corrupt(err.Error())
	}
	return found, nil
}

func (s *store) corrupt(cause string) error {
	return fmt.Errorf("%w: %s: %s", ErrCorrupt, s.path, cause)
}

func (s *store) corruptPanic(cause any) error { return s.corrupt(fmt.Sprint(cause)) }

func (s *store) close() error {
	var err error
	if s.hardPending {
		err = s.update(func(*bbolt.Tx) error { return nil })
	}
	return errors.Join(err, s.db.Close())
}

// guard runs f and turns a panic, and a fault on memory mapped from a damaged file, into
// an error.
func guard(f func() error, as ...func(any) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			if err = fmt.Errorf("%w: %v", ErrCorrupt, cause); len(as) > 0 {
				err = as[0](cause)
			}
		}
	}()
	return f()
}
