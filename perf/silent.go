package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

var (
	// ErrFiles is returned when the run needs more open files than this process may have.
	ErrFiles = errors.New("perf: too few open files are allowed")
	// ErrRefused is returned when the broker closes connections that are opened to it.
	ErrRefused = errors.New("perf: the broker closes connections")
)

const (
	// dialsTogether bounds the connections that are being opened at a time: a
	// broker's queue of new ones is a few hundred.
	dialsTogether = 32
	// filesBeside is what this process has open besides the silent connections.
	filesBeside = 64
	// idleFetchWaitMillis is how long a broker keeps the fetch of an idle connection: for ever, to any run.
	idleFetchWaitMillis = math.MaxInt32
)

// silence is a number of connections whose requests are written once and whose replies
// are never read.
type silence struct {
	sockets []net.Conn
}

// openSilence opens count connections, spread over the targets, and writes to each
// the frames that it gets from requests.
func openSilence(ctx context.Context, count int, targets []target, requests func(number int, t target) []byte, adjust func(*net.TCPConn) error) (*silence, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && uint64(count+filesBeside) > uint64(limit.Cur) {
		return nil, fmt.Errorf("%w: %d connections need %d, and %d are", ErrFiles, count, count+filesBeside, limit.Cur)
	}
	s := &silence{sockets: make([]net.Conn, count)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsTogether)
	for i := range s.sockets {
		group.Go(func() error {
			t := targets[i%len(targets)]
			var dialer net.Dialer
			dialer.SetMultipathTCP(false)
			dialer.KeepAlive = -1 // ten thousand timers are not what is measured
			socket, err := dialer.DialContext(ctx, "tcp", t.address)
			if err != nil {
				return fmt.Errorf("perf: connection %d of %d: %w", i+1, count, err)
			}
			s.sockets[i] = socket
			if adjust != nil {
				if err := adjust(socket.(*net.TCPConn)); err != nil {
					return err
				}
			}
			if _, err := socket.Write(requests(i, t)); err != nil {
				return fmt.Errorf("%w: connection %d of %d: %w", ErrRefused, i+1, count, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// look counts the connections that were closed and those on which something came.
func (s *silence) look() (closed, answered int) {
	for _, socket := range s.sockets {
		raw, err := socket.(syscall.Conn).SyscallConn()
		if err != nil {
			closed++
			continue
		}
		var n int
		var got error
		err = raw.Control(func(fd uintptr) {
			var one [1]byte
			n, _, got = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		})
		switch {
		case err == nil && (errors.Is(got, unix.EAGAIN) || errors.Is(got, unix.EINTR)):
		case err == nil && got == nil && n > 0:
			answered++
		default:
			closed++
		}
	}
	return closed, answered
}

// close closes all, many at a time: the kernel's part of it is not free.
func (s *silence) close() {
	var closing sync.WaitGroup
	piece := (len(s.sockets) + dialsTogether - 1) / dialsTogether
	for first := 0; first < len(s.sockets); first += piece {
		closing.Go(func() {
			for _, socket := range s.sockets[first:min(first+piece, len(s.sockets))] {
				if socket != nil {
					_ = socket.Close() // nothing is owed on it
				}
			}
		})
	}
	closing.Wait()
}

// fetchFrame is a Fetch of one partition as bytes.
func fetchFrame(version int16, topic string, partition int32, offset int64, waitMillis, bytesMax, correlation int32) []byte {
	request := newFetchRequest(version, topic, waitMillis, bytesMax, fetchPartition(partition, offset, bytesMax))
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, correlation)
}

// openIdle opens connections that wait at the ends of a topic's partitions.
func openIdle(ctx context.Context, c *cluster, o *BesideOptions, targets []target, version int16) (*silence, error) {
	ends, err := c.offsets(ctx, o.IdleTopic, targets, FromEnd)
	if err != nil {
		return nil, err
	}
	return openSilence(ctx, o.Idle, targets, func(number int, t target) []byte {
		partition := t.partitions[number/len(targets)%len(t.partitions)]
		return fetchFrame(version, o.IdleTopic, partition, ends[partition], idleFetchWaitMillis, 1<<20, 1)
	}, nil)
}

// stuckBufferBytes is the receive buffer of a stuck connection: small, so that the
// broker notices at once.
const stuckBufferBytes = 4096

// openStuck opens connections that ask for much and read nothing.
func openStuck(ctx context.Context, c *cluster, o *BesideOptions, targets []target, version int16) (*silence, error) {
	starts, err := c.offsets(ctx, o.Producer.Topic, targets, FromEarliest)
	if err != nil {
		return nil, err
	}
	return openSilence(ctx, o.Stuck, targets, func(number int, t target) []byte {
		partition := t.partitions[number/len(targets)%len(t.partitions)]
		var frames []byte
		for i := range o.StuckFetches {
			frames = append(frames, fetchFrame(version, o.Producer.Topic, partition, starts[partition], 0, 4<<20, int32(i))...)
		}
		return frames
	}, func(socket *net.TCPConn) error {
		if err := socket.SetReadBuffer(stuckBufferBytes); err != nil {
			return fmt.Errorf("perf: receive buffer of a stuck connection: %w", err)
		}
		return nil
	})
}
