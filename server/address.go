package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// address is a host and a port.
type address struct {
	host string
	port uint16
}

// parseAddress reads "host:port" and Kafka's "PLAINTEXT://host:port".
func parseAddress(text string) (address, error) {
	rest := text
	if scheme, after, found := strings.Cut(text, "://"); found {
		if !strings.EqualFold(scheme, "PLAINTEXT") {
			return address{}, fmt.Errorf("%q: only PLAINTEXT listeners are there yet", text)
		}
		rest = after
	}
	if strings.Contains(rest, ",") {
		return address{}, fmt.Errorf("%q: there is one listener", text)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return address{}, fmt.Errorf("%q is not host:port", text)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return address{}, fmt.Errorf("%q: %q is not a port", text, port)
	}
	return address{host: host, port: uint16(number)}, nil
}

// String returns host:port.
func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// kafka returns the address as Kafka writes listeners.
func (a address) kafka() string { return "PLAINTEXT://" + a.String() }

// everywhere says that the address stands for all addresses of the machine,
// which nobody can connect to from elsewhere.
func (a address) everywhere() bool {
	if a.host == "" {
		return true
	}
	ip, err := netip.ParseAddr(a.host)
	return err == nil && ip.IsUnspecified()
}

// loopback says that only this machine can connect to the address.
func (a address) loopback() bool {
	if a.host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(a.host)
	return err == nil && ip.IsLoopback()
}

var errAdvertise = errors.New("clients cannot connect to \"every address\": say by advertised-addr (advertised.listeners) under which address they reach this broker")

// resolveAdvertised reads the address that clients are told.
func (r *resolved) resolveAdvertised() error {
	if r.AdvertisedAddr == "" {
		if r.listen.everywhere() && r.listen != (address{}) {
			return fmt.Errorf("kafka-addr: %q: %w", r.KafkaAddr, errAdvertise)
		}
		return nil
	}
	var err error
	if r.advertised, err = parseAddress(r.AdvertisedAddr); err != nil {
		return fmt.Errorf("advertised-addr: %w", err)
	}
	if r.advertised.everywhere() {
		return fmt.Errorf("advertised-addr: %q: %w", r.AdvertisedAddr, errAdvertise)
	}
	return nil
}

// advertise returns what clients are told when the broker listens at bound.
func (r *resolved) advertise(bound address) address {
	if r.advertised == (address{}) {
		return address{host: r.listen.host, port: bound.port}
	}
	if r.advertised.port == 0 {
		return address{host: r.advertised.host, port: bound.port}
	}
	return r.advertised
}
