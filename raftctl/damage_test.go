package raftctl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3/raftpb"

	"ringlog/meta"
)

// prepare makes a directory with some topics, a snapshot and a log behind it, and returns the
// file's path and the image in it.
func prepare(t *testing.T) (path string, image *meta.Image) {
	t.Helper()
	dir := t.TempDir()
	c := startFresh(t, dir, func(o *Options) { o.SnapshotLogBytes = 1 << 10 })
	startBroker(t, c)
	createTogether(t, c, 2*trailingEntries+20)
	image = c.Image()
	stop(t, c)
	return filepath.Join(dir, fileName), image
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	path, image := prepare(t)
	dir := filepath.Dir(path)
	cases := map[string]struct {
		change func(*Options)
		want   error
	}{
		"another cluster":    {func(o *Options) { o.ClusterID = "another" }, ErrWrongCluster},
		"another broker":     {func(o *Options) { o.NodeID = 2 }, ErrWrongNode},
		"create over it":     {func(o *Options) { o.Create = true }, ErrExists},
		"no broker id":       {func(o *Options) { o.NodeID = -1 }, nil},
		"not a voter":        {func(o *Options) { o.Voters = []int32{2, 3, 4}; o.Transport = discard{} }, nil},
		"no transport":       {func(o *Options) { o.Voters = []int32{1, 2, 3} }, nil},
		"a voter twice":      {func(o *Options) { o.Voters = []int32{1, 1}; o.Transport = discard{} }, nil},
		"six voters":         {func(o *Options) { o.Voters = []int32{1, 2, 3, 4, 5, 6}; o.Transport = discard{} }, nil},
		"no cluster id":      {func(o *Options) { o.ClusterID = "" }, nil},
		"a negative tick":    {func(o *Options) { o.TickInterval = -1 }, nil},
		"a negative log cap": {func(o *Options) { o.SnapshotLogBytes = -1 }, nil},
	}
	for name, test := range cases {
		options := testOptions()
		test.change(&options)
		c, err := Open(t.Context(), dir, options)
		if err == nil {
			c.Close()
		}
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	c := start(t, dir)
	sameMetadata(t, image, c.Image())
	if _, err := Open(t.Context(), dir, testOptions()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process got %v, want %v", err, ErrLocked)
	}
}

type discard struct{}

func (discard) Send([]Message) {}

func TestOpenRefusesANewerFormat(t *testing.T) {
	dir := t.TempDir()
	writeByHand(t, dir, handmade{version: formatVersion + 1})
	if _, err := Open(t.Context(), dir, testOptions()); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("a newer store: got %v", err)
	}
	// A newer command in the log is found when it is applied.
	dir = t.TempDir()
	writeByHand(t, dir, handmade{version: formatVersion, entry: append(make([]byte, envelopeBytes), newerFrame()...)})
	c, err := Open(t.Context(), dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-c.Failed()
	if err := c.Err(); !errors.Is(err, ErrNewerFormat) || !errors.Is(err, ErrFailed) {
		t.Errorf("a newer command: got %v", err)
	}
	if _, err := c.Propose(t.Context(), meta.DeleteTopics{}); !errors.Is(err, ErrFailed) {
		t.Errorf("a failed controller answers %v", err)
	}
}

// An empty or missing file must never turn into an empty cluster: its broker would take every
// topic for deleted (scenario 30).
func TestADamagedFileIsNeverAnEmptyStart(t *testing.T) {
	path, _ := prepare(t)
	whole := readWhole(t, path)
	open := func(data []byte) error {
		dir := t.TempDir()
		if data != nil {
			if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Open(t.Context(), dir, testOptions())
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := open(nil); !errors.Is(err, ErrMissing) {
		t.Errorf("no file: got %v", err)
	}
	for name, data := range map[string][]byte{
		"empty":         {},
		"zeros":         make([]byte, len(whole)),
		"one page":      whole[:4096],
		"two pages":     whole[:8192],
		"half":          whole[:len(whole)/2&^4095],
		"last page off": whole[:len(whole)-4096],
		"text":          bytes.Repeat([]byte("metadata\n"), 4096),
	} {
		if err := open(data); !errors.Is(err, ErrCorrupt) && (name != "last page off" || err != nil) {
			t.Errorf("%s: got %v, want %v", name, err, ErrCorrupt)
		}
	}
}

// Each page of the file is overwritten in turn: Open refuses the file, or it
// comes back as the image that was in it, or, when the page was the newer meta
// page, as what was committed just before.
func TestAnyDamagedPageIsFoundOrHarmless(t *testing.T) {
	path, image := prepare(t)
	whole := readWhole(t, path)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	refused := 0
	const page = 4096
	for at := 0; at < len(whole); at += page {
		damaged := bytes.Clone(whole)
		switch at / page % 3 {
		case 0:
			clear(damaged[at : at+page])
		case 1:
			damaged[at+random.IntN(page)] ^= 1 << random.IntN(8)
		case 2:
			for i := range damaged[at : at+page] {
				damaged[at+i] = byte(random.Uint32())
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(t.Context(), dir, testOptions())
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("page %d: %v is not %v", at/page, err, ErrCorrupt)
			}
			refused++
			continue
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at >= 2*page {
			sameMetadata(t, image, c.Image())
		} else if c.Image().TopicCount() < image.TopicCount()-1 {
			t.Errorf("page %d: %d topics of %d came back", at/page, c.Image().TopicCount(), image.TopicCount())
		}
		c.Close()
	}
	t.Logf("%d pages, %d refused", len(whole)/page, refused)
	if refused < 3 {
		t.Errorf("only %d damaged pages were found", refused)
	}
}

// readUsed reads the pages of a file that its database uses: not what is
// reserved behind them.
func readUsed(t *testing.T, path string, db *bbolt.DB) []byte {
	t.Helper()
	size := int64(0)
	if err := db.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		t.Error(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer file.Close()
	used := make([]byte, size)
	if _, err := file.ReadAt(used, 0); err != nil {
		t.Error(err)
	}
	return used
}

// readWhole is readUsed of a file that nobody has open.
func readWhole(t *testing.T, path string) []byte {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return readUsed(t, path, db)
}

// handmade is a store written without a controller.
type handmade struct {
	version uint64
	entry   []byte
}

// writeByHand makes a file in dir and changes it behind the store's back.
func writeByHand(t *testing.T, dir string, by handmade) {
	t.Helper()
	who := identity{1, testOptions().ClusterID}
	if err := create(dir, who, []int32{1}); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(dir, who)
	if err != nil {
		t.Fatal(err)
	}
	err = s.update(func(tx *bbolt.Tx) error {
		value := append(appendUvarints(nil, by.version, uint64(who.nodeID)), who.clusterID...)
		if err := put(tx.Bucket(bucketIdentity), keyIdentity, value); err != nil || by.entry == nil {
			return err
		}
		return s.append(tx, []*raftpb.Entry{{Index: new(uint64(2)), Term: new(uint64(1)), Data: by.entry}})
	})
	if err := errors.Join(err, s.close()); err != nil {
		t.Fatal(err)
	}
}

func newerFrame() []byte {
	frame := meta.AppendCommand(nil, meta.FormatCluster{ClusterID: "x"})
	frame[2] = 99
	binary.LittleEndian.PutUint32(frame[4:], crcOf(frame[:4], frame[8:]))
	return frame
}

func crcOf(parts ...[]byte) uint32 {
	sealed := seal(nil, bytes.Join(parts, nil))
	return binary.LittleEndian.Uint32(sealed)
}

// The kill test: the file is copied at every commit, as a kill at that moment would leave it, and
// must open with everything that had been answered.
func TestTheFileOpensFromEveryCommitPoint(t *testing.T) {
	dir := t.TempDir()
	if err := create(dir, identity{1, testOptions().ClusterID}, []int32{1}); err != nil {
		t.Fatal(err)
	}
	options, err := testOptions().withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	options.SnapshotLogBytes = 2 << 10
	s, err := openStore(dir, identity{1, options.ClusterID})
	if err != nil {
		t.Fatal(err)
	}
	type point struct {
		file     []byte
		answered int // topics answered before this commit
	}
	var points []point
	var answered atomic.Int64
	s.committed = func() { // on the loop
		file := readUsed(t, s.path, s.db)
		points = append(points, point{file, int(answered.Load())})
	}
	c, err := newController(options, s)
	if err != nil {
		t.Fatal(err)
	}
	go c.run()
	startBroker(t, c)
	const topics = 3 * trailingEntries
	names := make(map[string]bool)
	for n := range topics {
		name := fmt.Sprintf("topic-%04d", n)
		names[name] = true
		createTopic(t, c, name, 1)
		answered.Store(int64(n + 1))
	}
	stop(t, c)
	random := mathrand.New(mathrand.NewPCG(3, 4))
	for n, p := range points {
		if n%41 != 0 && n < len(points)-4 {
			continue // each costs an open: take some, and the last ones
		}
		verifyPoint(t, p.file, p.answered, topics)
		if n > 0 {
			verifyPoint(t, tear(random, points[n-1].file, p.file), points[n-1].answered, topics)
		}
	}
	t.Logf("%d commit points", len(points))
}

// verifyPoint opens a copy of the file and wants at least the topics answered.
func verifyPoint(t *testing.T, file []byte, answered, most int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), file, 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir)
	defer c.Close()
	if got := c.Image().TopicCount(); got < answered || got > most {
		t.Errorf("%d topics came back, %d had been answered", got, answered)
	}
	for n := range answered {
		if _, ok := c.Image().Topic(fmt.Sprintf("topic-%04d", n)); !ok {
			t.Errorf("topic %d is gone", n)
		}
	}
}

// tear makes the file that a power cut in the middle of the commit between before and
// after leaves: some of the changed pages are there, and the meta page, which is
// written when they are flushed, is old or torn.
func tear(random *mathrand.Rand, before, after []byte) []byte {
	const page = 4096
	torn := make([]byte, len(after))
	copy(torn, before)
	for at := 2 * page; at < len(after); at += page {
		if random.IntN(2) == 0 {
			copy(torn[at:at+page], after[at:])
		}
	}
	if random.IntN(2) == 0 { // all pages there, the meta page torn inside its checksummed part
		copy(torn[2*page:], after[2*page:])
		for at := 0; at < 2*page; at += page {
			copy(torn[at:at+40], after[at:])
		}
	}
	return torn
}

// Scenario 14: a disk that the data have filled must leave room to delete topics.
func TestTheFileHasItsSpaceFromTheStart(t *testing.T) {
	dir := t.TempDir()
	stop(t, startFresh(t, dir))
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < reservedBytes {
		t.Errorf("the file has %d bytes, %d are reserved", info.Size(), reservedBytes)
	}
}
