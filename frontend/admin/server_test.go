package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"ringlog/frontend/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server whose health is *health; it ends with the test.
func start(t *testing.T, adjust func(*admin.Options)) *admin.Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "ringlog_tests_total", Help: "Tests."})
	counter.Add(3)
	registry.MustRegister(counter)
	options := admin.Options{
		Address:  "127.0.0.1:0",
		Gatherer: registry,
		Health:   func(context.Context) admin.Health { return admin.Health{Healthy: true, Sentence: "all is well"} },
		Logger:   slog.New(slog.DiscardHandler),
	}
	if adjust != nil {
		adjust(&options)
	}
	server, err := admin.Listen(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return server
}

// get returns status, content type and body.
func get(t *testing.T, server *admin.Server, path string, header ...string) (int, string, string) {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+server.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(body)
}

func TestMetricsComeFromTheRegistry(t *testing.T) {
	status, kind, body := get(t, start(t, nil), "/metrics")
	if status != 200 || !strings.HasPrefix(kind, "text/plain") || !strings.Contains(body, "ringlog_tests_total 3") {
		t.Errorf("%d %s\n%s", status, kind, body)
	}
}

func TestHealthIsASentenceOrJSON(t *testing.T) {
	var healthy atomic.Bool
	server := start(t, func(o *admin.Options) {
		o.Health = func(context.Context) admin.Health {
			if healthy.Load() {
				return admin.Health{Healthy: true, Sentence: "serving 3 partitions"}
			}
			return admin.Health{Sentence: "shard 0 is poisoned", Details: map[string]any{"shard": 0}}
		}
	})
	status, kind, body := get(t, server, "/healthz")
	if status != 503 || !strings.HasPrefix(kind, "text/plain") || body != "shard 0 is poisoned\n" {
		t.Errorf("%d %s %q", status, kind, body)
	}
	healthy.Store(true)
	for _, ask := range [][]string{
		{"/healthz?format=json"},
		{"/healthz", "Accept", "application/json"},
		{"/healthz", "Accept", "application/json;q=0.9, text/plain"},
	} {
		status, kind, body := get(t, server, ask[0], ask[1:]...)
		var decoded struct {
			Healthy  bool
			Sentence string
		}
		if err := json.Unmarshal([]byte(body), &decoded); err != nil || status != 200 || kind != "application/json" ||
			!decoded.Healthy || decoded.Sentence != "serving 3 partitions" {
			t.Errorf("%v: %d %s %q %v", ask, status, kind, body, err)
		}
	}
	for _, ask := range [][]string{
		{"/healthz", "Accept", "text/html,application/json"},
		{"/healthz?format=text", "Accept", "application/json"},
		{"/healthz", "Accept", "*/*"},
	} {
		if _, _, body := get(t, server, ask[0], ask[1:]...); body != "serving 3 partitions\n" {
			t.Errorf("%v: %q", ask, body)
		}
	}
}

// Security item 15: profiles are off by default.
func TestProfilesAreOptIn(t *testing.T) {
	if status, _, _ := get(t, start(t, nil), "/debug/pprof/"); status != 404 {
		t.Errorf("without Profiling: %d", status)
	}
	server := start(t, func(o *admin.Options) { o.Profiling, o.RequestTimeout = true, time.Second })
	if status, _, body := get(t, server, "/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("with Profiling: %d %s", status, body)
	}
	// A trace may take longer than other answers, but has a bound too.
	if status, _, body := get(t, server, "/debug/pprof/trace?seconds=1.2"); status != 200 || !strings.HasPrefix(body, "go 1.") {
		t.Errorf("trace: %d %.60q", status, body)
	}
	for _, path := range []string{"trace?seconds=1000", "profile?seconds=NaN", "heap?seconds=-1", "goroutine?seconds=x"} {
		if status, _, _ := get(t, server, "/debug/pprof/"+path); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// Security item 15: start fails when bound beyond loopback, without a word that allows it.
func TestRefusesToListenBeyondLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		_, err := admin.Listen(context.Background(), admin.Options{
			Address: address, Gatherer: prometheus.NewRegistry(), Health: func(context.Context) admin.Health { return admin.Health{} },
		})
		if !errors.Is(err, admin.ErrNotLoopback) {
			t.Errorf("%s: %v", address, err)
		}
	}
	server := start(t, func(o *admin.Options) { o.Address, o.AllowRemote = "0.0.0.0:0", true })
	port := server.Addr().(*net.TCPAddr).Port
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("explicitly allowed: %d", response.StatusCode)
	}
}

// A page in the operator's browser that rebinds its own name to 127.0.0.1 learns nothing.
func TestRefusesForeignHostNames(t *testing.T) {
	server := start(t, nil)
	for host, want := range map[string]int{"evil.example": 421, "evil.example:80": 421, "localhost:1": 200, "127.0.0.1": 200, "[::1]:9": 200} {
		request, err := http.NewRequest("GET", "http://"+server.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, response.StatusCode, want)
		}
	}
}

// Security item 15: no state changes here, and nothing but GET (and HEAD) is answered.
func TestOnlyReadingMethods(t *testing.T) {
	server := start(t, nil)
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		request, err := http.NewRequest(method, "http://"+server.Addr().String()+"/healthz", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, response.StatusCode)
		}
	}
}

// Security item 15: header, time and connection limits.
func TestLimits(t *testing.T) {
	server := start(t, func(o *admin.Options) {
		o.RequestTimeout, o.HeaderBytesMax, o.ConnectionsMax = 100*time.Millisecond, 1024, 2
	})
	if status, _, _ := get(t, server, "/healthz", "X-Long", strings.Repeat("x", 16<<10)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 16 KiB: %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
	// Two connections that never finish their header hold both places, until time is up.
	var silent []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\n")); err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	if status, _, _ := get(t, server, "/healthz"); status != 200 {
		t.Errorf("after the silent ones: %d", status)
	}
	for _, c := range silent {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("a silent connection was not closed: %v", err)
		}
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := admin.Listen(context.Background(), admin.Options{Address: "nonsense", RequestTimeout: -1})
	for _, want := range []error{admin.ErrGathererMissing, admin.ErrHealthMissing} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not contain %v", err, want)
		}
	}
	for _, want := range []string{"RequestTimeout", "nonsense"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
