package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlog/engine"
	"ringlog/meta"
	"ringlog/net/loop"
)

// Config says how a broker runs. Zero values mean the defaults. Flags and the file
// set its fields by the names in Settings.
type Config struct {
	// DataDir holds everything that is stored. Default "./data".
	DataDir string
	// KafkaAddr is where Kafka clients are served: "host:port", or Kafka's
	// "PLAINTEXT://host:port". An empty host is every address; port 0 is any free
	// port. Default "127.0.0.1:9092".
	KafkaAddr string
	// AdvertisedAddr is what clients are told to connect to, in the same
	// form. The default is where the broker listens, and must be given when that
	// is every address.
	AdvertisedAddr string
	// AdminAddr is where metrics and health are served by HTTP. "off" serves
	// none. Default "127.0.0.1:9644".
	AdminAddr string
	// AdminAllowRemote lets AdminAddr be reachable from other machines. There is no
	// authentication: only behind something that has it.
	AdminAllowRemote bool
	// Profiling serves Go profiles beside metrics and health.
	Profiling bool
	// IO is how disks are reached: "uring", "portable", or "auto" for io_uring
	// where the system has it. Default "auto".
	IO string
	// Shards is how many threads of the storage engine, each with a way to the disk of its
	// own, share the logs. One serves a device and up to four cores; it may be
	// changed from one start to the next. Default 1.
	Shards int
	// NetworkEngine is who serves clients: "loop" is event loops, which hand over connections
	// that move much to goroutines of their own; "stream" is goroutines for every
	// connection. Default "loop" where the platform has event loops.
	NetworkEngine string
	// NetworkLoops is the number of event loops. Default one for every two cores, 8 at most.
	NetworkLoops int
	// MemoryBytes is the budget for data in memory; see Budget for its parts. The Go heap
	// comes on top. The default is a quarter of what the machine, or
	// the container, has, between 256 MiB and 4 GiB.
	MemoryBytes int64
	// ColdBytes is the part of MemoryBytes for what is read back from disk, for consumers that are
	// behind: what is being sent to them, and what is read ahead. Between coldBytesMin and half of
	// MemoryBytes; what it takes or leaves is the tails'. Default a quarter of MemoryBytes.
	ColdBytes int64
	// JournalBytes is the size of the commit journal of each shard, and how much of
	// what was appended may be in memory and in no segment; JournalOff has none.
	// It may be changed from one start to the next. The default is a quarter of the memory for
	// tails, shared by the shards, between 32 and 512 MiB each, and never more than half of it.
	JournalBytes int64
	// DiskFreeBytesMin is how much of the data directory's file system is kept free:
	// while less is, produces that need new space are refused, so that everything else
	// finds some. DiskFreeOff keeps nothing free. The default is engine.FreeBytesDefault.
	DiskFreeBytesMin int64
	// ScrubBytesPerSecond is how fast sealed segments are read again in the background, so that what has rotted
	// is found and named before a consumer meets it; ScrubOff never does. The default is 8 MiB.
	ScrubBytesPerSecond int64
	// ScrubInterval is the time from the begin of one pass over all of them to the begin of the next. Default
	// a week.
	ScrubInterval time.Duration
	// ShutdownTimeout bounds how long Run waits, once it is told to stop, for
	// requests in flight to be answered. It then waits as long again, 10 s at least,
	// for the disk to take what is not flushed. Default 10 s.
	ShutdownTimeout time.Duration
	// Broker holds Kafka's broker configurations by their names, for example
	// "num.partitions"; meta.BrokerConfigKeys lists them with their defaults.
	Broker map[string]string
	// Logger gets what operators should know; the default is slog.Default().
	Logger *slog.Logger
}

// Values of Config fields with a meaning.
const (
	IOAuto     = "auto"
	IOUring    = "uring"
	IOPortable = "portable"
	IOGiouring = "giouring" // in binaries built with that tag
	AdminOff   = "off"

	NetworkLoop   = "loop"
	NetworkStream = "stream"

	// JournalOff in Config.JournalBytes is "0" as a setting: every commit is then a
	// flush of the segments.
	JournalOff = -1

	// ScrubOff in Config.ScrubBytesPerSecond is "0" as a setting.
	ScrubOff = -1

	// DiskFreeOff in Config.DiskFreeBytesMin is "0" as a setting: nothing is kept free.
	DiskFreeOff = -2
)

// memoryBytesMin is the smallest budget with which every part can do its work.
const memoryBytesMin = 64 << 20

// What is read again when nobody says otherwise: 675 GiB a day at most, and each byte once a week.
const (
	defaultScrubBytesPerSecond = 8 << 20
	defaultScrubInterval       = 7 * 24 * time.Hour
)

// EnsureDefaults fills in what is zero.
func (c *Config) EnsureDefaults() {
	setDefault(&c.DataDir, "./data")
	setDefault(&c.KafkaAddr, "127.0.0.1:9092")
	setDefault(&c.AdminAddr, "127.0.0.1:9644")
	setDefault(&c.IO, IOAuto)
	setDefault(&c.Shards, 1)
	setDefault(&c.NetworkEngine, defaultNetworkEngine)
	setDefault(&c.NetworkLoops, loop.DefaultLoopCount())
	setDefault(&c.ScrubBytesPerSecond, defaultScrubBytesPerSecond)
	setDefault(&c.ScrubInterval, defaultScrubInterval)
	setDefault(&c.ShutdownTimeout, 10*time.Second)
	if c.MemoryBytes == 0 {
		c.MemoryBytes = defaultMemoryBytes()
	}
	setDefault(&c.ColdBytes, c.MemoryBytes/4)
	if c.JournalBytes == 0 {
		c.JournalBytes = newBudget(c.MemoryBytes, c.ColdBytes).journalBytes(c.Shards)
	}
	setDefault(&c.DiskFreeBytesMin, engine.FreeBytesDefault)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with a configuration whose defaults
// are filled in.
func (c *Config) Validate() error {
	_, err := c.resolve()
	return err
}

// resolved is a Config in the form in which the parts want it.
type resolved struct {
	Config
	nodeID     int32
	rack       *string
	listen     address
	advertised address // zero when it is where the broker listens
	budget     Budget
	frameBytes int // socket.request.max.bytes, or what memory allows
	defaults   *meta.Defaults
}

// resolve checks c and works out what follows from it. The error joins all faults.
func (c *Config) resolve() (*resolved, error) {
	r := &resolved{Config: *c}
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if c.DataDir == "" {
		fault(errors.New("data-dir: it is empty"))
	}
	var err error
	if r.listen, err = parseAddress(c.KafkaAddr); err != nil {
		fault(fmt.Errorf("kafka-addr: %w", err))
	}
	fault(r.resolveAdvertised())
	if c.AdminAddr != AdminOff {
		if _, err := parseAddress(c.AdminAddr); err != nil {
			fault(fmt.Errorf("admin-addr: %w", err))
		}
	}
	if !slices.Contains([]string{IOAuto, IOUring, IOPortable, IOGiouring}, c.IO) {
		fault(fmt.Errorf("io: %q is not %s, %s, %s or %s", c.IO, IOAuto, IOUring, IOPortable, IOGiouring))
	}
	if c.Shards < 1 || c.Shards > engine.ShardsMax {
		fault(fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, engine.ShardsMax))
	}
	fault(c.checkNetwork())
	if c.MemoryBytes < memoryBytesMin {
		fault(fmt.Errorf("memory: %d bytes are less than %d, the least with which the broker can work", c.MemoryBytes, memoryBytesMin))
	} else if c.ColdBytes < coldBytesMin || c.ColdBytes > c.MemoryBytes/2 {
		fault(fmt.Errorf("%s: %d bytes are not between %d and half of memory=%d", coldSetting, c.ColdBytes, int64(coldBytesMin), c.MemoryBytes))
	}
	if c.DiskFreeBytesMin < 0 && c.DiskFreeBytesMin != DiskFreeOff && c.DiskFreeBytesMin != engine.FreeBytesDefault {
		fault(fmt.Errorf("%s: %d bytes cannot be kept free", diskFreeSetting, c.DiskFreeBytesMin))
	}
	if c.JournalBytes != JournalOff && (c.JournalBytes < engine.JournalBytesMin || c.JournalBytes > engine.JournalBytesMax) {
		fault(fmt.Errorf("%s: %d bytes are neither 0, for none, nor between %d and %d", journalSetting, c.JournalBytes, int64(engine.JournalBytesMin), int64(engine.JournalBytesMax)))
	}
	if c.ScrubBytesPerSecond < 0 && c.ScrubBytesPerSecond != ScrubOff {
		fault(fmt.Errorf("%s: %d bytes a second cannot be read", scrubRateSetting, c.ScrubBytesPerSecond))
	}
	if c.ScrubInterval < 0 {
		fault(fmt.Errorf("%s: %v is negative", scrubIntervalSetting, c.ScrubInterval))
	}
	if c.ShutdownTimeout < 0 {
		fault(fmt.Errorf("shutdown-timeout: %v is negative", c.ShutdownTimeout))
	}
	faults = append(faults, r.resolveBroker()...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return r, nil
}

// resolveBroker checks Kafka's configurations and takes from them what the
// process needs before there is a broker.
func (r *resolved) resolveBroker() (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(r.Broker)) {
		if field, ours := fieldOfKafka[name]; ours {
			faults = append(faults, fmt.Errorf("%s: set it as %s", name, field))
			continue
		}
		if err := meta.CheckBrokerConfigs(map[string]string{name: r.Broker[name]}); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return faults
	}
	if id, older := r.Broker["node.id"], r.Broker["broker.id"]; id != "" && older != "" && id != older {
		faults = append(faults, fmt.Errorf("node.id is %s and broker.id, its older name, is %s", id, older))
	}
	shown := maps.Clone(r.Broker)
	if shown == nil {
		shown = make(map[string]string)
	}
	if shown["node.id"] == "" && shown["broker.id"] != "" {
		shown["node.id"] = shown["broker.id"]
	}
	shown["log.dirs"], shown["listeners"] = r.DataDir, r.listen.kafka()
	if r.advertised != (address{}) {
		shown["advertised.listeners"] = r.advertised.kafka()
	}
	var err error
	if r.defaults, err = meta.NewDefaults(shown); err != nil {
		return append(faults, err)
	}
	r.nodeID = int32(r.integer("node.id"))
	if rack, set := r.Broker["broker.rack"]; set {
		r.rack = &rack
	}
	r.budget = newBudget(r.MemoryBytes, r.ColdBytes)
	r.frameBytes = int(r.integer("socket.request.max.bytes"))
	if largest := r.budget.frameBytesMax(); r.frameBytes > largest {
		if _, explicit := r.Broker["socket.request.max.bytes"]; explicit {
			faults = append(faults, fmt.Errorf("socket.request.max.bytes: %d bytes do not fit into the %d that memory=%d leaves for one request", r.frameBytes, largest, r.MemoryBytes))
		}
		r.frameBytes = largest
	}
	if batch := r.integer("message.max.bytes"); batch > int64(r.frameBytes) {
		faults = append(faults, fmt.Errorf("message.max.bytes: %d is more than one request may have, %d (socket.request.max.bytes, memory)", batch, r.frameBytes))
	}
	return faults
}

// value returns what holds for one of Kafka's broker configurations.
func (r *resolved) value(name string) string {
	key, known := meta.BrokerConfigKey(name)
	if !known {
		panic("server: no broker configuration " + name)
	}
	return r.defaults.DescribeBroker(key).Value
}

// integer is value of a configuration that is a number; resolve has checked it.
func (r *resolved) integer(name string) int64 {
	number, err := strconv.ParseInt(r.value(name), 10, 64)
	if err != nil {
		panic("server: " + name + " is no number: " + err.Error())
	}
	return number
}

// bytesPerSecond is value of a rate; 0 is one that nothing reaches.
func (r *resolved) bytesPerSecond(name string) int64 {
	rate, err := strconv.ParseFloat(strings.TrimSpace(r.value(name)), 64)
	if err != nil {
		panic("server: " + name + " is no number: " + err.Error())
	}
	if rate >= math.MaxInt64 {
		return 0
	}
	return max(int64(rate), 1)
}

func (r *resolved) boolean(name string) bool { return r.value(name) == "true" }

func (r *resolved) millis(name string) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(r.integer(name), most)) * time.Millisecond
}
