package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlog/broker/brokertest"
	"ringlog/record"
)

// said is a log that a test can read while others write it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A producer whose clock is wrong is stored, and named once; one that is right, or that is refused, is not.
func TestTheClientWhoseClockIsWrongIsNamed(t *testing.T) {
	var log said
	s := newScene(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 1, nil) // keeps seven days, and takes an hour ahead
	stamped := brokertest.CreateTopic(t, s.broker, "stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	at := func(id [16]byte, distance time.Duration) int16 {
		var b record.Builder
		b.Reset(record.BuilderOptions{})
		b.Append(time.Now().Add(distance).UnixMilli(), nil, []byte("x"))
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return s.produced(id, bytes.Clone(built))
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		what     string
		id       [16]byte
		distance time.Duration
		code     int16
	}{
		{"now", topic.ID, 0, 0},
		{"two days behind", topic.ID, -2 * day, 0},
		{"half an hour ahead", topic.ID, time.Hour / 2, 0},
		{"a year ahead", topic.ID, 365 * day, 32},
		{"eight days behind, where nobody asks", stamped.ID, -8 * day, 0},
	} {
		if got := at(c.id, c.distance); got != c.code {
			t.Errorf("%s: code %d, want %d", c.what, got, c.code)
		}
		if text := log.String(); strings.Contains(text, "clock") {
			t.Fatalf("%s: %s", c.what, text)
		}
	}
	for range 2 {
		if got := at(topic.ID, -8*day); got != 0 {
			t.Errorf("eight days behind: code %d", got)
		}
	}
	text := log.String()
	if strings.Count(text, "clock of the broker") != 1 || !strings.Contains(text, "client_id=tester") || !strings.Contains(text, "topic=orders") {
		t.Errorf("eight days behind, twice: %q", text)
	}
	if got := s.protocol.Metrics().SkewedBatches.Load(); got != 2 {
		t.Errorf("%d batches are counted, want 2", got)
	}
}
