package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

// hostOf cuts the port off an address; brackets of IPv6 too.
func hostOf(address string) string {
	if at := strings.LastIndexByte(address, ':'); at >= 0 {
		address = address[:at]
	}
	return strings.Trim(address, "[]")
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func examineListener(f *Facts, l *list) {
	const check = "listener"
	switch n, at := &f.Network, f.Config.Listen; {
	case at == "":
	case n.ListenFree == Yes:
		l.ok(check, "%s is free", at)
	case n.ListenFree == No && f.Directory.Holder != "":
		l.ok(check, "%s is taken, and so is the data directory: a broker runs", at)
	case n.ListenFree == No:
		l.fail(check, "nobody can listen at "+at+": "+n.ListenError, "the broker does not start",
			"end what listens there (ss -ltnp), or choose another address with --kafka-addr")
	}
}

func examineAdvertised(f *Facts, l *list) {
	const check = "advertised"
	n, c := &f.Network, &f.Config
	if c.Listen == "" {
		return
	}
	address := orElse(c.Advertised, c.Listen)
	host := hostOf(address)
	const do = "set advertised-addr (Kafka: advertised.listeners) to a name and port under which clients reach this machine"
	switch {
	case n.AdvertisedError != "":
		l.fail(check, address+" cannot be resolved: "+n.AdvertisedError, "clients connect once, are told this address, and then only show time-outs", do)
	case c.Advertised != "" && isLoopback(host) && !isLoopback(hostOf(c.Listen)):
		l.warn(check, "the broker listens at "+c.Listen+" and tells clients to use "+address,
			"clients on other machines are sent to themselves: they connect once and then only show time-outs", do)
	case isLoopback(host):
		l.ok(check, "%s: clients on this machine only", address)
	case len(n.AdvertisedHosts) > 0:
		l.ok(check, "%s is %s", address, strings.Join(n.AdvertisedHosts, ", "))
	}
}

func examineBroker(f *Facts, l *list) {
	const check = "broker"
	switch b := &f.Broker; {
	case b.Asked == "":
	case b.Refusal != "" && f.Directory.Holder != "":
		l.fail(check, "nobody answers at "+b.Asked+": "+b.Refusal+", although process "+f.Directory.Holder+" uses the data directory",
			"clients cannot reach the broker there, or it is still starting", "look at its log, and at kafka-addr; ask it elsewhere with --brokers")
	case b.Refusal != "":
		l.ok(check, "nobody answers at %s (%s), so a running broker could not be looked at", b.Asked, b.Refusal)
	default:
		l.ok(check, "%d broker(s) in the cluster that answers at %s", len(b.Members), b.Asked)
	}
}

func examineMembers(f *Facts, l *list) {
	const check = "metadata"
	for _, m := range f.Broker.Members {
		seen := fmt.Sprintf("broker %d tells clients to use %s", m.ID, m.Address)
		const do = "set advertised-addr on that broker to a name and port under which its clients reach it; a port that is forwarded has to be the same on both sides"
		switch {
		case m.Refusal != "":
			l.fail(check, seen+", which cannot be reached from here: "+m.Refusal,
				"clients here connect once, are told this address, and then only show time-outs", do)
		case m.AnsweredAs >= 0 && m.AnsweredAs != m.ID:
			l.fail(check, fmt.Sprintf("%s, where broker %d answers", seen, m.AnsweredAs),
				"requests for one broker's partitions reach another: NOT_LEADER_OR_FOLLOWER for ever", do)
		case m.Told != "" && m.Told != m.Address:
			l.fail(check, seen+", where it tells them to use "+m.Told, "clients are sent from address to address",
				"one of the two is an older start's: restart the broker, and look whether two brokers have one node-id")
		default:
			l.ok(check, "%s, and answers there with the same address", seen)
		}
	}
}

func examineHealth(f *Facts, l *list) {
	const check = "health"
	switch b := &f.Broker; b.Healthy {
	case Yes:
		l.ok(check, "%s says: %s", b.HealthAddress, b.Health)
	case No:
		l.fail(check, b.HealthAddress+" says: "+b.Health, "some of what the broker promises does not hold now",
			"look at its log for the first error: it names the log and the cause; ringlog dump --verify says what the disk holds")
	}
}

func examinePartitions(f *Facts, l *list) {
	const check = "partitions"
	b := &f.Broker
	if b.Asked == "" || b.Refusal != "" {
		return
	}
	before := len(*l)
	if b.Controller < 0 {
		l.fail(check, "the cluster has no controller", "no topic can be created, changed or deleted", "look at the logs of the brokers that are voters")
	}
	if b.Leaderless > 0 {
		l.fail(check, fmt.Sprintf("%d of %d partitions have no leader", b.Leaderless, b.Partitions), "nobody can write to them or read from them",
			"ringlog topic describe TOPIC names them; their brokers' logs say why")
	}
	if b.Lagging > 0 {
		l.warn(check, fmt.Sprintf("%d of %d partitions have replicas that are not in sync", b.Lagging, b.Partitions), "one more failure may stop them",
			"see which brokers are down or behind: ringlog topic describe TOPIC")
	}
	if len(*l) == before {
		l.ok(check, "%d, all with a leader and all replicas in sync", b.Partitions)
	}
}
