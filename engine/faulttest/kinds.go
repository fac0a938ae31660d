package faulttest

import (
	"syscall"

	"ringlog/engine"
	"ringlog/engine/disk"
	"ringlog/engine/disk/crash"
	"ringlog/engine/segment"
)

// The logs of a trial. Faults are for files of victim and of its shard.
var (
	victim    = engine.LogID{0xa0} // on shard 0
	stranger  = engine.LogID{0xb0} // on shard 1
	neighbour = engine.LogID{0xc0} // on shard 0
	doomed    = engine.LogID{0xd0} // deleted at work
	newcomer  = engine.LogID{0xe0} // made at work
)

// fileKind is a section of the page: files, or directories, of one kind.
type fileKind struct {
	name     string
	about    string
	patterns []string // as of crash.Fault.Path; "" is every path
}

// fileKinds are in the order of the page.
var fileKinds = []fileKind{
	{"Segment", "`OFFSET.log`: the records.", []string{victim.String() + "/*" + segment.LogSuffix}},
	{"Prepared space", "`coming-N.prepared`: what becomes the next segment.", []string{victim.String() + "/" + segment.PreparedPrefix + "*"}},
	{"Manifest", "`log.meta`: which segments there are, and from which offset on.", []string{victim.String() + "/" + segment.ManifestName + "*"}},
	{"Indexes", "`OFFSET.index`, `OFFSET.timeindex`: rebuilt when they are missing or lie.", []string{victim.String() + "/*" + segment.IndexSuffix + "*", victim.String() + "/*" + segment.TimeIndexSuffix + "*"}},
	{"Producer snapshot", "`OFFSET.snapshot`: what is known of idempotent producers; rebuilt like an index.", []string{victim.String() + "/*" + segment.SnapshotSuffix + "*"}},
	{"Directory of a log", "", []string{victim.String()}},
	{"Commit journal", "`shard-N.journal`: what is not in the segments yet.", []string{segment.JournalName(0) + "*"}},
	{"Checkpoint", "`shard-N.checkpoint`: from where a start reads.", []string{segment.CheckpointName(0) + "*"}},
	{"Placement table", "`placement`: which log lives on which shard; rebuilt when it is missing.", []string{segment.PlacementName + "*"}},
	{"Reserve", "`shard-N.reserve`: space for a disk that is full.", []string{segment.ReserveName(0) + "*"}},
	{"Data directory", "", []string{"."}},
	{"A log that is made", "Any file of it, and its directory.", []string{newcomer.String(), newcomer.String() + "/*"}},
	{"A log that is deleted", "Any file of it, and its directory.", []string{doomed.String(), doomed.String() + ".deleted", doomed.String() + "/*", doomed.String() + ".deleted/*"}},
	{"File system", "Operations that name no file.", []string{""}},
}

// operations are in the order of the page, as far as a kind of file has them.
var operations = []disk.Kind{
	disk.Open, disk.Read, disk.Write, disk.Flush, disk.Preallocate, disk.ZeroRange, disk.Rename, disk.Exchange,
	disk.Unlink, disk.Close, disk.SyncDirectory, disk.MakeDirectory, disk.RemoveDirectory, disk.ReadDirectory,
	disk.SyncFilesystem, disk.FreeSpace,
}

// has says whether the page shows the operation for this kind of file: those that name
// no file belong to the file system.
func (f *fileKind) has(operation disk.Kind) bool {
	general := operation == disk.SyncFilesystem || operation == disk.FreeSpace
	return general == (f.patterns[0] == "")
}

// fault is a column of the page.
type fault struct {
	name  string
	rule  crash.Fault
	of    []disk.Kind // the operations that it can happen to; nil is all
	lies  bool        // the device says that it did what it has not done
	hangs bool
}

var faults = []fault{
	{name: "EIO", rule: crash.Fault{Err: syscall.EIO}},
	{name: "ENOSPC", rule: crash.Fault{Err: syscall.ENOSPC},
		of: []disk.Kind{disk.Open, disk.Write, disk.Preallocate, disk.Rename, disk.Exchange, disk.MakeDirectory, disk.ZeroRange}},
	{name: "EMFILE", rule: crash.Fault{Err: syscall.EMFILE}, of: []disk.Kind{disk.Open, disk.SyncDirectory, disk.ReadDirectory}},
	{name: "short", rule: crash.Fault{Effect: crash.Short}, of: []disk.Kind{disk.Read, disk.Write}},
	{name: "late", rule: crash.Fault{Effect: crash.Delay, Completions: 40}},
	{name: "hangs", rule: crash.Fault{Effect: crash.Hang}, of: []disk.Kind{disk.Read, disk.Write, disk.Flush, disk.SyncFilesystem}, hangs: true},
	{name: "lies", lies: true, of: []disk.Kind{disk.Read, disk.Write, disk.Flush, disk.SyncDirectory, disk.SyncFilesystem}},
}

// meets says whether the fault can happen to an operation.
func (f *fault) meets(operation disk.Kind) bool {
	if f.of == nil {
		return true
	}
	for _, kind := range f.of {
		if kind == operation {
			return true
		}
	}
	return false
}

// rules returns the fault script of a trial.
func (t *trial) rules() []crash.Fault {
	rule := t.fault.rule
	if t.fault.lies {
		switch t.operation {
		case disk.Read:
			rule.Effect, rule.Times = crash.FlipBit, 1
		case disk.Write:
			rule.Effect, rule.Times = crash.LoseWrite, 1
		default:
			rule.Effect = crash.LieAboutFlush
		}
	}
	rule.Kind = t.operation
	rules := make([]crash.Fault, len(t.file.patterns))
	for i, pattern := range t.file.patterns {
		rules[i] = rule
		rules[i].Path = pattern
	}
	return rules
}
