// Package gather finds out what package doctor judges: it reads what the kernel
// says of itself, asks for a ring, and looks at the data directory's file system.
// `ringlog doctor` calls it once, from its own goroutine. It changes nothing: the only
// files that it makes have no name, or are gone when it returns.
//
// What cannot be found out is left out. The parts that only one system has are
// in files named by it; the rest is for all.
package gather

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"ringlog/doctor"
	"ringlog/engine/disk/backend"
	"ringlog/engine/segment"
)

// Options say what to look at. Config is what the broker's configuration comes to.
type Options struct {
	DataDir string
	// LogsDir is the engine's directory in DataDir.
	LogsDir string
	Config  doctor.Config
}

// resolveTimeout bounds the look-up of a name.
const resolveTimeout = 5 * time.Second

// Facts gathers all but what a running broker says.
func Facts(ctx context.Context, options Options) *doctor.Facts {
	began := time.Now()
	f := &doctor.Facts{
		System:    doctor.System{OS: runtime.GOOS, Arch: runtime.GOARCH},
		Ring:      doctor.Ring{Disabled: -1, Seccomp: -1},
		Processor: doctor.Processor{CPUs: runtime.NumCPU()},
		Memory:    doctor.Memory{Overcommit: -1},
		Config:    options.Config,
	}
	if procs, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil {
		f.Processor.GOMAXPROCS = procs
	}
	gatherSystem(f)
	gatherLimits(f)
	gatherDirectory(f, options, began)
	gatherRing(f, options)
	gatherNetwork(ctx, f)
	// Round strips the monotonic reading of both: what is left is the wall clock's own account.
	ended := time.Now()
	f.Clock.SteppedMillis = (ended.Round(0).Sub(began.Round(0)) - ended.Sub(began)).Milliseconds()
	return f
}

// gatherDirectory looks at the data directory, or at the nearest one above it that is there.
func gatherDirectory(f *doctor.Facts, options Options, now time.Time) {
	d := &f.Directory
	d.Path = options.DataDir
	if d.Path == "" {
		return
	}
	info, err := os.Stat(d.Path)
	switch {
	case err == nil && !info.IsDir():
		d.Error = "it is not a directory"
		return
	case err == nil:
		d.Exists = true
	case !errors.Is(err, os.ErrNotExist):
		d.Error = rootCause(err)
		return
	}
	at, err := nearest(d.Path)
	if err != nil {
		d.Error = rootCause(err)
		return
	}
	gatherFileSystem(f, at)
	if !d.Exists {
		return
	}
	newest := newestFile(d.Path, options.LogsDir)
	if behind := newest.Sub(now).Milliseconds(); !newest.IsZero() && behind > 0 {
		f.Clock.BehindMillis = behind
	}
	d.JournalBytes = journalBytes(options.LogsDir)
}

// nearest returns the path, without symbolic links, of the nearest directory at or above path
// that is there.
func nearest(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		at, err := filepath.EvalSymlinks(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
			return at, err
		}
		path = filepath.Dir(path)
	}
}

// newestFile is when something in one of the directories was written last. It looks at names in
// them and no deeper: checkpoints and metadata are among them, and written often.
func newestFile(directories ...string) (newest time.Time) {
	for _, directory := range directories {
		entries, err := os.ReadDir(directory)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	return newest
}

// journalBytes is what the commit journals that are there take.
func journalBytes(logsDir string) (bytes int64) {
	entries, err := os.ReadDir(logsDir)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		if _, kind, ok := segment.ParseShardName(entry.Name()); ok && kind == segment.JournalKind {
			if info, err := entry.Info(); err == nil {
				bytes += max(info.Size()-segment.RingHeadBytes, 0)
			}
		}
	}
	return bytes
}

// gatherRing asks for the disk that a broker would get.
func gatherRing(f *doctor.Facts, options Options) {
	if err := backend.Probe(); err != nil {
		f.Ring.Refusal = err.Error()
	}
	if f.Directory.Path == "" || f.Directory.Error != "" || options.Config.Fault != "" {
		return
	}
	at, err := nearest(f.Directory.Path)
	if err != nil {
		return
	}
	d, err := backend.Open(at, options.Config.IO, backend.Options{})
	if err != nil {
		f.Ring.OpenError = err.Error()
		return
	}
	info := d.Info()
	f.Ring.Backend, f.Ring.Reason = info.Name, info.Reason
	if f.Directory.Writable != doctor.No { // without a file nobody can tell
		f.Directory.Direct = doctor.AnswerOf(info.Direct)
	}
	if err := d.Close(); err != nil {
		f.Ring.OpenError = err.Error()
	}
}

// gatherNetwork tries the configured addresses.
func gatherNetwork(ctx context.Context, f *doctor.Facts) {
	if f.Config.Listen == "" {
		return
	}
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", f.Config.Listen)
	if err != nil {
		f.Network.ListenFree, f.Network.ListenError = doctor.No, rootCause(err)
	} else {
		f.Network.ListenFree = doctor.Yes
		_ = socket.Close() // nothing was accepted
	}
	address := f.Config.Advertised
	if address == "" {
		address = f.Config.Listen
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		f.Network.AdvertisedError = err.Error()
	}
	f.Network.AdvertisedHosts = hosts
}

// rootCause is what the system said, without the path and the name of the call.
func rootCause(err error) string {
	var path *os.PathError
	var call *os.SyscallError
	var operation *net.OpError
	for {
		switch {
		case errors.As(err, &operation) && operation.Err != nil:
			err, operation = operation.Err, nil
		case errors.As(err, &path):
			err, path = path.Err, nil
		case errors.As(err, &call):
			err, call = call.Err, nil
		default:
			return err.Error()
		}
	}
}
