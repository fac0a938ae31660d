package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultAddress is where the server listens when nothing else is said.
const DefaultAddress = "127.0.0.1:9644"

var (
	// ErrNotLoopback is returned by Listen when the address can be reached from
	// other machines and AllowRemote is not set.
	ErrNotLoopback = errors.New("admin: address is not loopback; there is no authentication, so set AllowRemote only behind something that has it")
	// ErrGathererMissing is returned by Listen when Options.Gatherer is nil.
	ErrGathererMissing = errors.New("admin: Gatherer is missing")
	// ErrHealthMissing is returned by Listen when Options.Health is nil.
	ErrHealthMissing = errors.New("admin: Health is missing")
)

// Health is what /healthz says. It is public to whoever reaches the server: no secrets.
type Health struct {
	// Healthy chooses between 200 and 503.
	Healthy bool
	// Sentence says in one line how the broker is, and what is wrong if something is.
	Sentence string
	// Details are optional facts for the JSON form.
	Details map[string]any
}

// Options configure a Server. Zero means the default that the field names.
type Options struct {
	// Address is host:port. Default DefaultAddress.
	Address string
	// AllowRemote lets Address be other than loopback.
	AllowRemote bool

	// Gatherer gives the metrics. Required.
	Gatherer prometheus.Gatherer
	// Health gives the state; it returns soon, at the latest when ctx ends. Required.
	Health func(ctx context.Context) Health
	// Profiling serves /debug/pprof/.
	Profiling bool

	// RequestTimeout bounds reading one request and writing its answer; a
	// profile may take the seconds that it asks for on top. Default 10 s.
	RequestTimeout time.Duration
	// ProfileTimeout bounds the seconds that a profile may ask for. Default 2 minutes.
	ProfileTimeout time.Duration
	// IdleTimeout closes a connection that asks nothing. Default 1 minute.
	IdleTimeout time.Duration
	// HeaderBytesMax bounds a request's header. Default 16 KiB.
	HeaderBytesMax int
	// ConnectionsMax bounds the open connections. Default 64.
	ConnectionsMax int

	// Logger gets errors of the HTTP server. Default slog.Default().
	Logger *slog.Logger
}

// bodyBytesMax bounds the body of a request: no request here needs one.
const bodyBytesMax = 4 << 10

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Address, DefaultAddress)
	setDefault(&o.RequestTimeout, 10*time.Second)
	setDefault(&o.ProfileTimeout, 2*time.Minute)
	setDefault(&o.IdleTimeout, time.Minute)
	setDefault(&o.HeaderBytesMax, 16<<10)
	setDefault(&o.ConnectionsMax, 64)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with options whose defaults are
// filled in.
func (o *Options) Validate() error {
	var faults []error
	if o.Gatherer == nil {
		faults = append(faults, ErrGathererMissing)
	}
	if o.Health == nil {
		faults = append(faults, ErrHealthMissing)
	}
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{{"RequestTimeout", o.RequestTimeout}, {"ProfileTimeout", o.ProfileTimeout}, {"IdleTimeout", o.IdleTimeout}} {
		if timeout.value <= 0 {
			faults = append(faults, fmt.Errorf("admin: %s is %v", timeout.name, timeout.value))
		}
	}
	if o.HeaderBytesMax < 0 || o.ConnectionsMax < 0 {
		faults = append(faults, fmt.Errorf("admin: HeaderBytesMax is %d, ConnectionsMax is %d", o.HeaderBytesMax, o.ConnectionsMax))
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		faults = append(faults, fmt.Errorf("admin: address: %w", err))
	}
	return errors.Join(faults...)
}
