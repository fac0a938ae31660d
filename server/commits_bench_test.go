package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkCommitsOverTheWire commits offsets through 256 connections of this process, each of which waits for an answer before it
// sends the next request, with 96,000 offsets in play: what four applications that read 24,000 partitions have. They
// need 19,200 commits a second when each offset is committed every 5 s. One request is one offset of one
// group, the dearest way to commit.
//
//	go test ./server -run - -bench CommitsOverTheWire -benchtime 200000x
func BenchmarkCommitsOverTheWire(b *testing.B) {
	const (
		connections = 256
		groups      = 1000
		partitions  = 96
	)
	s, err := Start(b.Context(), Config{DataDir: b.TempDir(), KafkaAddr: "127.0.0.1:0", AdminAddr: AdminOff, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	fillGroups(b, s, groups, partitions)
	var next atomic.Int64
	var running sync.WaitGroup
	waits := make([][]time.Duration, connections)
	b.ResetTimer()
	began := time.Now()
	for at := range connections {
		running.Go(func() {
			socket, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer socket.Close()
			for op := next.Add(1) - 1; op < int64(b.N); op = next.Add(1) - 1 {
				asked := time.Now()
				if err := commitOne(socket, fmt.Sprint("group-", op%groups), int32(op/groups%partitions), op); err != nil {
					b.Error(err)
					return
				}
				waits[at] = append(waits[at], time.Since(asked))
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "commits/s")
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// fillGroups commits an offset for every partition of a topic in every group.
func fillGroups(b *testing.B, s *Server, groups, partitions int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addr().String()))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if created, err := admin.CreateTopic(b.Context(), int32(partitions), 1, nil, "orders"); errors.Join(err, created.Err) != nil {
		b.Fatal(err, created.Err)
	}
	var offsets kadm.Offsets
	for partition := range int32(partitions) {
		offsets.Add(kadm.Offset{Topic: "orders", Partition: partition, At: 1, LeaderEpoch: -1})
	}
	for n := range groups {
		if err := admin.CommitAllOffsets(b.Context(), fmt.Sprint("group-", n), offsets); err != nil {
			b.Fatal(err)
		}
	}
}

// commitOne commits one offset and reads the answer.
func commitOne(socket net.Conn, group string, partition int32, offset int64) error {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Version, request.Group, request.Generation = 7, group, -1
	of := kmsg.NewOffsetCommitRequestTopicPartition()
	of.Partition, of.Offset = partition, offset
	request.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetCommitRequestTopicPartition{of}}}
	if _, err := socket.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		return err
	}
	var prefix [8]byte
	if _, err := io.ReadFull(socket, prefix[:]); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(prefix[:])-4)
	if _, err := io.ReadFull(socket, body); err != nil {
		return err
	}
	response := kmsg.NewPtrOffsetCommitResponse()
	response.Version = request.Version
	if err := response.ReadFrom(body); err != nil {
		return err
	}
	if number := response.Topics[0].Partitions[0].ErrorCode; number != 0 {
		return fmt.Errorf("%s, partition %d: code %d", group, partition, number)
	}
	return nil
}
