package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ringlog/frontend/admin"
)

// journal is a log that a test can read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func TestRunStopsInOrderWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log journal
	config := testConfig(t, t.TempDir())
	config.Logger = log.logger()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, config) }()
	// Until it serves, somebody is told where. (The port is chosen by the broker.)
	for !strings.Contains(log.String(), "msg=ready") {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, log.String())
		case <-time.After(time.Millisecond):
		}
	}
	if !strings.Contains(log.String(), "admin=127.0.0.1:") {
		t.Errorf("the log does not say where metrics and health are:\n%s", log.String())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it stops with %v", err)
	}
	if !strings.Contains(log.String(), `reason="the kernel grants io_uring`) && !strings.Contains(log.String(), "io=portable") || strings.Contains(log.String(), `reason=""`) {
		t.Errorf("the log does not say which disk was chosen and why:\n%s", log.String())
	}
	if !strings.Contains(log.String(), "msg=stopped") {
		t.Errorf("the log does not say that the broker has stopped:\n%s", log.String())
	}
}

func TestRunEndsWithThePartThatItCannotLiveWithout(t *testing.T) {
	s := start(t, testConfig(t, t.TempDir()))
	if err := s.engine.Close(t.Context()); err != nil { // as if its disk had gone
		t.Fatal(err)
	}
	if err := <-s.Failed(); !errors.Is(err, ErrEngineEnded) {
		t.Errorf("got %v", err)
	}
	if s.Ready() {
		t.Error("a broker without engine is ready")
	}
}

// What was acknowledged before or during a shutdown is there after it.
func TestAShutdownUnderLoadLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	if _, err := kadm.NewClient(client(t, s)).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	producer := client(t, s, kgo.DefaultProduceTopic("orders"), kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(0))
	var mu sync.Mutex
	acknowledged := make(map[string]bool)
	enough, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for n := 0; ; n++ {
			value := fmt.Sprint(n)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
			cancel()
			if err != nil {
				return
			}
			mu.Lock()
			acknowledged[value] = true
			mu.Unlock()
			if n == 200 {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case <-over:
		t.Fatal("the producer failed before the shutdown")
	}
	stop(t, s)
	<-over
	s = start(t, testConfig(t, dir))
	mu.Lock()
	defer mu.Unlock()
	for _, value := range consume(t, s, "orders", len(acknowledged)) {
		delete(acknowledged, value)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged records are gone, among them %v", len(acknowledged), acknowledged)
	}
}

// Architecture rule 13: never delete because metadata is missing.
func TestALogThatNobodyKnowsIsKeptAndReported(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	if _, err := kadm.NewClient(client(t, s)).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	topic, _ := s.controller.Image().Topic("orders")
	stop(t, s)
	logs, stranger := filepath.Join(dir, logsName), strings.Repeat("ab", 16)
	if err := os.CopyFS(filepath.Join(logs, stranger), os.DirFS(filepath.Join(logs, topic.Partitions[0].LogID.String()))); err != nil {
		t.Fatal(err)
	}
	var log journal
	config := testConfig(t, dir)
	config.Logger = log.logger()
	stop(t, start(t, config))
	if !strings.Contains(log.String(), stranger) || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log does not name it:\n%s", log.String())
	}
	if _, err := os.Stat(filepath.Join(logs, stranger)); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// A log whose manifest is damaged is offline: the broker serves the others, and says that
// it is not well. (Scenario 10 of reliability: a damaged file is refused, never guessed.)
func TestALogThatCannotBeOpenedIsSeenFromOutside(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	admin := kadm.NewClient(client(t, s))
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, "damaged", "sound"); err != nil {
		t.Fatal(err)
	}
	topic, ok := s.controller.Image().Topic("damaged")
	if !ok {
		t.Fatal("the topic is not there")
	}
	manifest := filepath.Join(dir, logsName, topic.Partitions[0].LogID.String(), "log.meta")
	stop(t, s)
	content, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	content[20] ^= 1
	if err := os.WriteFile(manifest, content, 0o600); err != nil {
		t.Fatal(err)
	}

	s = start(t, testConfig(t, dir))
	if body, status := get(t, s, "/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "1 log(s) could not be opened") {
		t.Errorf("/healthz: %d %q", status, body)
	}
	if body, _ := get(t, s, "/metrics"); !strings.Contains(body, "\nringlog_offline_logs 1\n") {
		t.Error("the metric does not count the log")
	}
	if err := client(t, s).ProduceSync(t.Context(), &kgo.Record{Topic: "sound", Value: []byte("v")}).FirstErr(); err != nil {
		t.Errorf("produce to another topic: %v", err)
	}
	stop(t, s)
}

func TestAStartThatFailsLeavesNothingRunning(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for name, change := range map[string]func(*Config){
		"port taken":       func(c *Config) { c.KafkaAddr = taken.Addr().String() },
		"admin port taken": func(c *Config) { c.AdminAddr = taken.Addr().String() },
		"admin for all":    func(c *Config) { c.AdminAddr = "0.0.0.0:0" },
		"not a directory":  func(c *Config) { c.DataDir = file },
		"wrong setting":    func(c *Config) { c.IO = "floppy" },
	} {
		dir := t.TempDir()
		config := testConfig(t, dir)
		change(&config)
		s, err := Start(t.Context(), config)
		if err == nil {
			stop(t, s)
			t.Errorf("%s: it starts", name)
			continue
		}
		if name == "admin for all" && !errors.Is(err, admin.ErrNotLoopback) {
			t.Errorf("%s: %v", name, err)
		}
		start(t, testConfig(t, dir)) // the directory is free and sound
	}
}

func TestAListenerForOtherMachinesIsWarnedOf(t *testing.T) {
	var log journal
	config := testConfig(t, t.TempDir())
	config.KafkaAddr, config.AdvertisedAddr, config.AdminAddr, config.Logger = ":0", "127.0.0.1:0", AdminOff, log.logger()
	s := start(t, config)
	if s.AdminAddr() != nil {
		t.Errorf("an admin server listens at %s", s.AdminAddr())
	}
	if !strings.Contains(log.String(), "admin=off") {
		t.Errorf("the log does not say that there is no admin server:\n%s", log.String())
	}
	if !strings.Contains(log.String(), "without encryption or authentication") {
		t.Errorf("no warning:\n%s", log.String())
	}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	c := kadm.NewClient(client(t, s, kgo.SeedBrokers("127.0.0.1:"+port)))
	brokers, err := c.ListBrokers(t.Context())
	if err != nil || len(brokers) != 1 || brokers[0].Host != "127.0.0.1" || fmt.Sprint(brokers[0].Port) != port {
		t.Errorf("clients are told %+v, %v", brokers, err)
	}
}

// The flags reach what they are about.
func TestSettingsReachTheirParts(t *testing.T) {
	config := testConfig(t, t.TempDir())
	config.IO = IOPortable
	for name, value := range map[string]string{"num.partitions": "4", "log.retention.hours": "2", "broker.rack": "a", "max.connections.per.ip": "50", "delete.topic.enable": "false"} {
		if err := config.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, config)
	if name := s.engine.Info().Name; name != "portable" {
		t.Errorf("the disk is %s", name)
	}
	c := kadm.NewClient(client(t, s))
	created, err := c.CreateTopic(t.Context(), -1, -1, nil, "orders")
	if err != nil || created.NumPartitions != 4 {
		t.Errorf("a topic without a number has %d partitions, %v", created.NumPartitions, err)
	}
	configs, err := c.DescribeTopicConfigs(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range configs[0].Configs {
		if entry.Key == "retention.ms" && entry.MaybeValue() != "7200000" {
			t.Errorf("retention.ms is %s", entry.MaybeValue())
		}
	}
	brokers, err := c.ListBrokers(t.Context())
	if err != nil || brokers[0].Rack == nil || *brokers[0].Rack != "a" {
		t.Errorf("the rack is not told: %+v, %v", brokers, err)
	}
	if _, err := c.DeleteTopics(t.Context(), "orders"); err == nil {
		responses, _ := c.DeleteTopics(t.Context(), "orders")
		if responses["orders"].Err == nil {
			t.Error("a topic can be deleted although delete.topic.enable is false")
		}
	}
}
