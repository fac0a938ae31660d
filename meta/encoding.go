package meta

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Every command and every snapshot is one frame:
//
//	byte   bytes
//	0      2      magic "RM"
//	2      1      format version: 1, or 2 or 3 for what came later
//	3      1      kind: a command's number, or 64 for a snapshot
//	4      4      CRC-32C, little-endian, of bytes 0 to 3 and all from 8 on
//	8      ...    body
//
// In a body, numbers are varints (signed ones zigzag), ids are their 16 bytes, and
// strings, lists and maps start with their count; maps are in the order of
// their keys. A reader refuses a higher version than its own: a new field means a new version.
const (
	frameMagic     = "RM"
	frameVersion   = 3 // the highest that is read
	frameHeader    = 8
	kindSnapshot   = 64
	versionsAdvice = "upgrade this broker, or give it a data directory of its own version"
)

// frameVersionGroups is the first version in which groups have configurations; frames without
// these are written in the version before.
const frameVersionGroups = 3

// commandKind numbers the commands on disk; a number is never given to another command.
type commandKind uint8

const (
	kindFormatCluster       commandKind = 1
	kindStartBroker         commandKind = 2
	kindCreateTopics        commandKind = 3
	kindDeleteTopics        commandKind = 4
	kindRemoveTombstones    commandKind = 5
	kindAllocateProducerIDs commandKind = 6
	kindAlterConfigs        commandKind = 7 // from format version 2 on
	kindCreatePartitions    commandKind = 8 // from format version 2 on
)

// frameVersionOf is the lowest version that has all that a frame of that kind holds, so
// that what an older program can read stays readable for it.
func frameVersionOf(kind byte) byte {
	if kind == kindSnapshot || commandKind(kind) >= kindAlterConfigs {
		return 2
	}
	return 1
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendCommand appends command as one frame to dst.
func AppendCommand(dst []byte, command Command) []byte {
	version := frameVersionOf(byte(command.kind()))
	if alter, is := command.(AlterConfigs); is && alter.concernsGroups() {
		version = frameVersionGroups
	}
	e := encoder{beginFrame(dst, version, byte(command.kind()))}
	command.encode(&e)
	return endFrame(e.dst, len(dst))
}

// DecodeCommand reads a frame that AppendCommand wrote. It returns
// ErrNewerFormat or a *CorruptionError; the command holds no reference to data.
func DecodeCommand(data []byte) (Command, error) {
	kind, version, err := openFrame("command", data)
	if err != nil {
		return nil, err
	}
	d := decoder{what: "command", data: data, at: frameHeader, version: version}
	if kind != kindSnapshot && version < frameVersionOf(kind) {
		d.fail(fmt.Sprintf("format %d has no command %d", version, kind))
	}
	command := decodeCommand(&d, commandKind(kind))
	if err := d.finish(); err != nil {
		return nil, err
	}
	return command, nil
}

func decodeCommand(d *decoder, kind commandKind) Command {
	switch kind {
	case kindFormatCluster:
		return decodeFormatCluster(d)
	case kindStartBroker:
		return decodeStartBroker(d)
	case kindCreateTopics:
		return decodeCreateTopics(d)
	case kindDeleteTopics:
		return decodeDeleteTopics(d)
	case kindRemoveTombstones:
		return decodeRemoveTombstones(d)
	case kindAllocateProducerIDs:
		return decodeAllocateProducerIDs(d)
	case kindAlterConfigs:
		return decodeAlterConfigs(d)
	case kindCreatePartitions:
		return decodeCreatePartitions(d)
	}
	d.at = 3
	d.fail(fmt.Sprintf("no command has number %d", kind))
	return nil
}

func beginFrame(dst []byte, version, kind byte) []byte {
	dst = append(dst, frameMagic...)
	return append(dst, version, kind, 0, 0, 0, 0)
}

func endFrame(dst []byte, start int) []byte {
	frame := dst[start:]
	binary.LittleEndian.PutUint32(frame[4:], frameSum(frame))
	return dst
}

func frameSum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, frame[frameHeader:])
}

// openFrame checks a frame's header and sum and returns its kind and format version.
func openFrame(what string, data []byte) (kind, version byte, err error) {
	switch {
	case len(data) < frameHeader:
		return 0, 0, &CorruptionError{What: what, Offset: len(data), Cause: "it is cut off"}
	case string(data[:2]) != frameMagic:
		return 0, 0, &CorruptionError{What: what, Offset: 0, Cause: fmt.Sprintf("it begins with %q, not %q", data[:2], frameMagic)}
	case binary.LittleEndian.Uint32(data[4:]) != frameSum(data):
		// Before the version: a flipped bit must not read as "upgrade".
		return 0, 0, &CorruptionError{What: what, Offset: 4, Cause: "its checksum does not match"}
	case data[2] > frameVersion:
		return 0, 0, fmt.Errorf("%w: the %s has format %d, this version reads up to %d; %s", ErrNewerFormat, what, data[2], frameVersion, versionsAdvice)
	case data[2] == 0:
		return 0, 0, &CorruptionError{What: what, Offset: 2, Cause: "there is no format 0"}
	}
	return data[3], data[2], nil
}
