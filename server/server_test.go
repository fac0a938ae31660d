package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"ringlog/meta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig is a broker on a free port with little memory.
func testConfig(t *testing.T, dir string) Config {
	return Config{
		DataDir: dir, KafkaAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", MemoryBytes: memoryBytesMin, JournalBytes: 4 << 20,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func start(t *testing.T, config Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func client(t *testing.T, s *Server, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(s.Addr().String()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// consume reads the values of all records of a topic up to now.
func consume(t *testing.T, s *Server, topic string, want int) (values []string) {
	t.Helper()
	c := client(t, s, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for len(values) < want {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func TestWhatAClientProducedIsThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	s := start(t, testConfig(t, dir))
	admin := kadm.NewClient(client(t, s))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	producer := client(t, s, kgo.DefaultProduceTopic("orders"))
	for n := range 10 {
		if err := producer.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(n))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(consume(t, s, "orders", 10), " "); got != "0 1 2 3 4 5 6 7 8 9" {
		t.Fatalf("before the restart: %s", got)
	}
	cluster := s.ClusterID()
	stop(t, s)

	s = start(t, testConfig(t, dir))
	if s.ClusterID() != cluster {
		t.Errorf("the cluster was %s and is %s", cluster, s.ClusterID())
	}
	if got := strings.Join(consume(t, s, "orders", 10), " "); got != "0 1 2 3 4 5 6 7 8 9" {
		t.Errorf("after the restart: %s", got)
	}
	// Architecture rule 11: the restart leads under a higher epoch.
	topic, _ := s.controller.Image().Topic("orders")
	if topic.Partitions[0].LeaderEpoch != 1 {
		t.Errorf("after one restart the leader epoch is %d", topic.Partitions[0].LeaderEpoch)
	}
}

// Clients see no difference between those who serve them, and metrics say who does.
func TestBothNetworkEnginesServe(t *testing.T) {
	for _, engine := range []string{defaultNetworkEngine, NetworkStream} {
		t.Run(engine, func(t *testing.T) {
			config := testConfig(t, t.TempDir())
			for name, value := range map[string]string{"ringlog.network.engine": engine, "ringlog.network.loops": "3"} {
				if err := config.Set(name, value); err != nil {
					t.Fatal(err)
				}
			}
			s := start(t, config)
			c := client(t, s, kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()))
			sizes := []int{1, 1000, 100_000}
			for _, size := range sizes {
				if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "sizes", Value: bytes.Repeat([]byte("x"), size)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			for i, value := range consume(t, s, "sizes", len(sizes)) {
				if len(value) != sizes[i] {
					t.Errorf("record %d has %d bytes, want %d", i, len(value), sizes[i])
				}
			}
			body, _ := get(t, s, "/metrics")
			if light := !strings.Contains(body, "ringlog_network_connections_light 0\n"); light != (engine == NetworkLoop) {
				t.Errorf("connections at event loops: %v", light)
			}
			if moved := !strings.Contains(body, "ringlog_network_connections_moved_total 0\n"); moved != (engine == NetworkLoop) {
				t.Errorf("connections moved from them: %v", moved)
			}
		})
	}
}

func TestASecondBrokerOnOneDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	_, err := Start(t.Context(), testConfig(t, dir))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want ErrLocked naming process %d", err, os.Getpid())
	}
	stop(t, s)
	start(t, testConfig(t, dir)) // the lock goes with its holder
}

func TestMetricsAndHealthAreServed(t *testing.T) {
	s := start(t, testConfig(t, t.TempDir()))
	if !s.Ready() {
		t.Error("a broker that has started is not ready")
	}
	if body, status := get(t, s, "/healthz"); status != http.StatusOK || body != "serving\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	body, status := get(t, s, "/metrics")
	if status != http.StatusOK {
		t.Errorf("/metrics: %d", status)
	}
	for _, m := range metrics {
		if !strings.Contains(body, "\nringlog_"+m.name+" ") {
			t.Errorf("metric %s is missing", m.name)
		}
	}
	for _, line := range []string{`ringlog_kafka_requests_total{api="Produce"}`, `ringlog_memory_limit_bytes{pool="tail"} 3.3554432e+07`, "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(body, line) {
			t.Errorf("%s is missing", line)
		}
	}
}

func get(t *testing.T, s *Server, path string) (body string, status int) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://" + s.AdminAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), response.StatusCode
}

// Removing files takes its time; a broker that stops does not wait for it, and the next
// one finishes the work.
func TestABrokerStopsWhileTopicsAreBeingRemoved(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	admin := kadm.NewClient(client(t, s))
	for n := range 8 {
		name := fmt.Sprintf("gone-%d", n)
		if _, err := admin.CreateTopic(t.Context(), 2, 1, nil, name); err != nil {
			t.Fatal(err)
		}
		if err := client(t, s).ProduceSync(t.Context(), &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 8 {
		if _, err := admin.DeleteTopics(t.Context(), fmt.Sprintf("gone-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, s)
	s = start(t, testConfig(t, dir))
	if count := s.controller.Image().TopicCount(); count != 0 {
		t.Errorf("%d topics came back", count)
	}
	gone := make(chan struct{}, 1000)
	defer s.controller.Subscribe(meta.NewImage(), func(_ meta.Delta, image *meta.Image) {
		if len(image.Tombstones()) == 0 {
			gone <- struct{}{}
		}
	})()
	<-gone
	left, err := os.ReadDir(filepath.Join(dir, logsName))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if len(entry.Name()) == 32 {
			t.Errorf("log %s is still there", entry.Name())
		}
	}
}
