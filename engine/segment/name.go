package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Names in a log's directory.
const (
	ManifestName    = "log.meta"
	ManifestNewName = "log.meta.new" // takes the next manifest; never read

	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	SnapshotSuffix  = ".snapshot"
	NewSuffix       = ".new" // of a file being written; never read
	PreparedPrefix  = "coming-"
	PreparedSuffix  = ".prepared"
)

// offsetDigits makes names sort like offsets, as in Kafka.
const offsetDigits = 20

// FileName is the name of the file of the kind (a suffix) that begins at offset.
func FileName(offset int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, offset, suffix)
}

// PassName is FileName of a segment's file that compaction wrote in its pass-th pass over
// the segment; pass 0 are the files that appends made.
func PassName(offset int64, pass uint32, suffix string) string {
	if pass == 0 {
		return FileName(offset, suffix)
	}
	return FileName(offset, "."+strconv.FormatUint(uint64(pass), 10)+suffix)
}

// ParsePassName splits a name that PassName, and so FileName, made; ok is false for any other.
func ParsePassName(name string) (offset int64, pass uint32, suffix string, ok bool) {
	offset, suffix, ok = ParseName(name)
	if !ok {
		return 0, 0, "", false
	}
	digits, rest, compacted := strings.Cut(suffix[1:], ".")
	if !compacted {
		return offset, 0, suffix, true
	}
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || number == 0 || name != PassName(offset, uint32(number), "."+rest) {
		return 0, 0, "", false
	}
	return offset, uint32(number), "." + rest, true
}

// ParseName splits a name that FileName made; ok is false for any other. Of a name with a pass
// (ParsePassName) that is part of the suffix.
func ParseName(name string) (offset int64, suffix string, ok bool) {
	if len(name) <= offsetDigits || name[offsetDigits] != '.' {
		return 0, "", false
	}
	offset, err := strconv.ParseInt(name[:offsetDigits], 10, 64)
	if err != nil || offset < 0 || name[0] == '+' {
		return 0, "", false
	}
	return offset, name[offsetDigits:], true
}

// PreparedName is the name of the number-th file of prepared space.
func PreparedName(number int) string {
	return PreparedPrefix + strconv.Itoa(number) + PreparedSuffix
}

// IsPrepared says whether name is one that PreparedName makes.
func IsPrepared(name string) bool {
	digits, ok := strings.CutPrefix(name, PreparedPrefix)
	if !ok {
		return false
	}
	digits, ok = strings.CutSuffix(digits, PreparedSuffix)
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(digits, 10, 31)
	return err == nil
}

// Kinds of the files of a shard.
const (
	CheckpointKind = "checkpoint"
	JournalKind    = "journal"
	ReserveKind    = "reserve"

	shardPrefix = "shard-"
)

// CheckpointName is the name of a shard's checkpoint, beside the log directories.
func CheckpointName(shard int) string { return shardName(shard, CheckpointKind) }

// JournalName is the name of a shard's ring of frames, beside the log directories.
func JournalName(shard int) string { return shardName(shard, JournalKind) }

// ReserveName is the name of a file that is nothing but space, beside the log
// directories: it is given up when the disk is full.
func ReserveName(shard int) string { return shardName(shard, ReserveKind) }

func shardName(shard int, kind string) string {
	return fmt.Sprintf("%s%d.%s", shardPrefix, shard, kind)
}

// ParseShardName splits a name that one of the functions above made; kind is CheckpointKind,
// JournalKind or ReserveKind. ok is false for any other.
func ParseShardName(name string) (shard int, kind string, ok bool) {
	rest, ok := strings.CutPrefix(name, shardPrefix)
	if !ok {
		return 0, "", false
	}
	digits, kind, _ := strings.Cut(rest, ".")
	shard, err := strconv.Atoi(digits)
	known := kind == CheckpointKind || kind == JournalKind || kind == ReserveKind
	if err != nil || shard < 0 || !known || name != shardName(shard, kind) {
		return 0, "", false
	}
	return shard, kind, true
}
