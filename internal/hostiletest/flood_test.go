package hostiletest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFlood: one address takes all the connections that it can get, by asking something on each. Others get in,
// because the last ones are kept for them, and so does the operator. When all are in use and some were never used
// for anything, these make place.
func TestFlood(t *testing.T) {
	const most = 320
	b := startTarget(t, "max.connections=320", "max.connections.per.ip=320")
	h := startHealthy(t, b.Address, "before")
	h.awaitRecords("before", 100)
	h.enter("flood")
	flood := floodFrom(t, b.Address, 2, most)
	if flood < most/2 || flood > most-most/16 {
		t.Errorf("one address has %d of %d connections", flood, most)
	}
	for source := byte(3); source < 9; source++ { // newcomers
		asks := mustDial(t, b.Address, source)
		ask[*kmsg.MetadataResponse](t, asks, at(9, kmsg.NewPtrMetadataRequest()))
	}
	if b.Metric("ringlog_network_connections_refused_total") == 0 {
		t.Error("no connection was refused: the flood was none")
	}

	// The rest is taken by connections on which nothing is ever asked, from so many addresses that each has few.
	for i := range most {
		if socket, err := dial(b.Address, byte(10+i%200)); err == nil {
			t.Cleanup(func() { _ = socket.Close() })
		}
	}
	await(t, "a newcomer is served in the place of a silent connection", func() bool {
		return servedFrom(b.Address, 240)
	})
	if b.Metric("ringlog_network_silent_closed_total") == 0 {
		t.Error("no silent connection has made place")
	}
	h.awaitRecords("flood", 50)
	h.finish()
	h.report("before", "flood")
	b.expectAlive()
}

// floodFrom opens connections from one address until there are count or the broker refuses, asks something on each, and
// returns how many it keeps.
func floodFrom(t *testing.T, address string, source byte, count int) (kept int) {
	t.Helper()
	probe := frameOf(at(0, kmsg.NewPtrApiVersionsRequest()), 1)
	for range count {
		socket, err := dial(address, source)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		if _, err := socket.Write(probe); err != nil {
			continue
		}
		if _, err := receive(socket); err == nil {
			kept++
		}
	}
	return kept
}

// servedFrom reports whether a new connection from an address is answered.
func servedFrom(address string, source byte) bool {
	socket, err := dial(address, source)
	if err != nil {
		return false
	}
	defer socket.Close()
	if _, err := socket.Write(frameOf(at(0, kmsg.NewPtrApiVersionsRequest()), 1)); err != nil {
		return false
	}
	_, err = receive(socket)
	return err == nil
}
