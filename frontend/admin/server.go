package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server is a running admin server. Its methods may be called from any goroutine.
type Server struct {
	http   *http.Server
	socket net.Listener
	ended  chan error // receives the result of Serve, once
}

// Listen starts a server. ctx bounds only the listening itself. An address
// that other machines can reach is refused with ErrNotLoopback unless allowed;
// what counts is the address that was really bound, not its name.
func Listen(ctx context.Context, options Options) (*Server, error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if !options.AllowRemote {
		if err := requireLoopback(ctx, options.Address); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("admin: listen: %w", err)
	}
	if !options.AllowRemote && !socket.Addr().(*net.TCPAddr).IP.IsLoopback() {
		// The name meant something else the second time.
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrNotLoopback, socket.Addr()), socket.Close())
	}
	s := &Server{
		http: &http.Server{
			Handler:           handler(&options),
			ReadHeaderTimeout: options.RequestTimeout,
			ReadTimeout:       options.RequestTimeout,
			WriteTimeout:      options.RequestTimeout,
			IdleTimeout:       options.IdleTimeout,
			MaxHeaderBytes:    options.HeaderBytesMax,
			ErrorLog:          slog.NewLogLogger(options.Logger.Handler(), slog.LevelWarn),
		},
		socket: socket,
		ended:  make(chan error, 1),
	}
	go func() { s.ended <- s.http.Serve(newLimitedListener(socket.(*net.TCPListener), options.ConnectionsMax)) }()
	return s, nil
}

// requireLoopback checks every address that the host may mean, before
// anything is bound, so that nothing is ever reachable for a moment.
func requireLoopback(ctx context.Context, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("admin: address: %w", err)
	}
	if host == "" {
		return fmt.Errorf("%w: %q means every interface", ErrNotLoopback, address)
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return fmt.Errorf("admin: address: %w", err)
	}
	for _, a := range addresses {
		if !a.IP.IsLoopback() {
			return fmt.Errorf("%w: %s", ErrNotLoopback, a.IP)
		}
	}
	return nil
}

// Addr returns the address that the server listens at.
func (s *Server) Addr() net.Addr { return s.socket.Addr() }

// Shutdown stops accepting, waits for requests in progress until ctx ends, and
// then cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.ended <- http.ErrServerClosed // for another Shutdown
	return err
}

// handler routes requests.
func handler(options *Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(options.Gatherer, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(options.Logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector hides no others
		MaxRequestsInFlight: 4,
		Timeout:             options.RequestTimeout,
		EnableOpenMetrics:   true,
	}))
	mux.Handle("GET /healthz", healthHandler(options))
	if options.Profiling {
		mux.Handle("GET /debug/pprof/", bounded(options, pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.Handle("GET /debug/pprof/profile", bounded(options, pprof.Profile))
		mux.Handle("GET /debug/pprof/trace", bounded(options, pprof.Trace))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if !localHost(options, r.Host) {
			// A web page that rebinds its name to 127.0.0.1 may send requests
			// here from the operator's browser, but with its own name in them.
			http.Error(w, "admin: unexpected Host", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyBytesMax)
		mux.ServeHTTP(w, r)
	})
}

// localHost reports whether a Host header may name a loopback server.
func localHost(options *Options, host string) bool {
	if options.AllowRemote {
		return true // whatever name it has there
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback()
	}
	configured, _, _ := net.SplitHostPort(options.Address) // Validate saw that it splits
	return strings.EqualFold(name, "localhost") || strings.EqualFold(name, configured)
}

// bounded serves a profile that takes no longer than ProfileTimeout. (pprof
// itself prolongs the server's write deadline by whatever is asked for.)
func bounded(options *Options, profile http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked := r.FormValue("seconds"); asked != "" {
			seconds, err := strconv.ParseFloat(asked, 64)
			if err != nil || !(seconds >= 0 && seconds <= options.ProfileTimeout.Seconds()) {
				http.Error(w, fmt.Sprintf("admin: seconds must be a number up to %v", options.ProfileTimeout.Seconds()), http.StatusBadRequest)
				return
			}
		}
		profile(w, r)
	})
}
