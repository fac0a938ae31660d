package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheZeroConfigIsSoundAndSafe(t *testing.T) {
	var c Config
	c.EnsureDefaults()
	r, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	if !r.listen.loopback() || r.listen.port != 9092 || r.nodeID != 1 || r.advertise(r.listen) != r.listen {
		t.Errorf("it listens at %s, advertises %s, as broker %d", r.listen, r.advertise(r.listen), r.nodeID)
	}
	if r.frameBytes != min(100<<20, r.budget.frameBytesMax()) {
		t.Errorf("requests of up to %d bytes", r.frameBytes)
	}
	if got := r.defaults; got == nil || r.integer("num.partitions") != 1 || !r.boolean("auto.create.topics.enable") || r.millis("connections.max.idle.ms") != 10*time.Minute {
		t.Error("Kafka's defaults do not hold")
	}
}

// Convention 38: Validate reports all faults, not the first.
func TestValidateReportsEveryFault(t *testing.T) {
	c := Config{
		KafkaAddr: "nowhere", AdvertisedAddr: "0.0.0.0:9092", AdminAddr: "127.0.0.1:port", IO: "floppy", NetworkEngine: "telegraph", MemoryBytes: 1, ShutdownTimeout: -1,
		Broker: map[string]string{"num.partitions": "0", "log.dirs": "/x", "log.segment.bytes": "big"},
	}
	c.EnsureDefaults()
	err := c.Validate()
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, fault := range []string{"kafka-addr: ", "advertised-addr: ", "admin-addr: ", "io: ", "ringlog.network.engine: ", "memory: ", "shutdown-timeout: ", "num.partitions", "log.dirs: set it as data-dir", "log.segment.bytes"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("no word about %q in:\n%v", fault, err)
		}
	}
}

func TestWhatContradictsItselfIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		fault  string
	}{
		"every address":       {func(c *Config) { c.KafkaAddr = ":9092" }, "advertised-addr"},
		"two names, two ids":  {func(c *Config) { c.Broker = map[string]string{"node.id": "1", "broker.id": "2"} }, "broker.id"},
		"request over memory": {func(c *Config) { c.Broker = map[string]string{"socket.request.max.bytes": "104857600"} }, "memory"},
		"batch over request":  {func(c *Config) { c.Broker = map[string]string{"message.max.bytes": "104857600"} }, "message.max.bytes"},
		"SSL":                 {func(c *Config) { c.KafkaAddr = "SSL://127.0.0.1:9092" }, "PLAINTEXT"},
		"two listeners":       {func(c *Config) { c.KafkaAddr = "127.0.0.1:9092,127.0.0.1:9093" }, "one listener"},
		"no event loop":       {func(c *Config) { c.NetworkLoops = -1 }, "ringlog.network.loops"},
		"port out of range":   {func(c *Config) { c.KafkaAddr = "127.0.0.1:65536" }, "not a port"},
	} {
		c := Config{MemoryBytes: memoryBytesMin}
		test.change(&c)
		c.EnsureDefaults()
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: got %v, want a word about %s", name, err, test.fault)
		}
	}
}

func TestAdvertisedAddressFillsInWhatIsNotSaid(t *testing.T) {
	for _, test := range []struct{ listen, advertised, want string }{
		{"127.0.0.1:9092", "", "127.0.0.1:9092"},
		{"PLAINTEXT://127.0.0.1:9092", "", "127.0.0.1:9092"},
		{"0.0.0.0:9092", "broker-1:19092", "broker-1:19092"},
		{":9092", "plaintext://broker-1:0", "broker-1:9092"},
		{"[::1]:9092", "", "[::1]:9092"},
	} {
		c := Config{KafkaAddr: test.listen, AdvertisedAddr: test.advertised, MemoryBytes: memoryBytesMin}
		c.EnsureDefaults()
		r, err := c.resolve()
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		if got := r.advertise(r.listen).String(); got != test.want {
			t.Errorf("%+v: clients are told %s", test, got)
		}
	}
}

func TestSettingsGoByOurNameAndKafkas(t *testing.T) {
	var c Config
	for name, value := range map[string]string{
		"log.dirs": "/a", "listeners": "PLAINTEXT://127.0.0.1:1", "advertised-addr": "x:2", "admin-addr": "off", "io": "portable",
		"memory": "1 GiB", "shutdown-timeout": "3s", "profiling": "true", "num.partitions": "7", "auto.create.topics.enable": "FALSE",
	} {
		if err := c.Set(name, value); err != nil {
			t.Error(err)
		}
	}
	want := Config{DataDir: "/a", KafkaAddr: "PLAINTEXT://127.0.0.1:1", AdvertisedAddr: "x:2", AdminAddr: AdminOff, IO: IOPortable,
		MemoryBytes: 1 << 30, ShutdownTimeout: 3 * time.Second, Profiling: true}
	broker := c.Broker
	if broker["num.partitions"] != "7" || broker["auto.create.topics.enable"] != "false" || len(broker) != 2 {
		t.Errorf("Kafka's settings are %v", broker)
	}
	c.Broker = nil
	if c.DataDir != want.DataDir || c.KafkaAddr != want.KafkaAddr || c.AdvertisedAddr != want.AdvertisedAddr || c.AdminAddr != want.AdminAddr ||
		c.IO != want.IO || c.MemoryBytes != want.MemoryBytes || c.ShutdownTimeout != want.ShutdownTimeout || c.Profiling != want.Profiling {
		t.Errorf("got %+v, want %+v", c, want)
	}
	for name, value := range map[string]string{"memory": "much", "shutdown-timeout": "soon", "profiling": "maybe", "num.partitions": "many", "no.such": "1"} {
		if err := c.Set(name, value); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
	seen := make(map[string]bool)
	for _, setting := range Settings() {
		if seen[setting.Name] || setting.Documentation == "" {
			t.Errorf("setting %s is there twice or has no documentation", setting.Name)
		}
		seen[setting.Name] = true
	}
}

func TestAFileSetsWhatFlagsSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ringlog.toml")
	text := `# a broker
data-dir = "/var/lib/ringlog"
memory = "512MiB"
num.partitions = 3
max.connections = 1_000
max.connections.per.ip = 100     # TOML alone would refuse this beside the line above
auto.create.topics.enable = false
log.cleanup.policy = ["delete"]
"log.retention.hours" = 0x30
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := c.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	c.EnsureDefaults()
	r, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	if c.DataDir != "/var/lib/ringlog" || c.MemoryBytes != 512<<20 || r.integer("num.partitions") != 3 || r.integer("max.connections") != 1000 ||
		r.integer("max.connections.per.ip") != 100 || r.boolean("auto.create.topics.enable") || r.value("log.cleanup.policy") != "delete" || r.integer("log.retention.hours") != 48 {
		t.Errorf("the file is read as %+v", c)
	}
}

func TestEveryFaultOfAFileHasItsLine(t *testing.T) {
	text := `num.partition = 3
[broker]
num.partitions = "many"
data-dir = "/a"
log.dirs = "/b"
io = { kind = "uring" }
listeners = 2026-11-29
`
	var c Config
	err := c.read("f.toml", []byte(text))
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{
		`f.toml:1: there is no setting "num.partition"; did you mean num.partitions?`, "f.toml:2: [broker]", "f.toml:3: ", "f.toml:5: log.dirs is set in line 4 already", "f.toml:6: ", "f.toml:7: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	for text, line := range map[string]string{"a b\n": "f.toml:1: ", "io = \"uring\"\nmemory = \n": "f.toml:2: ", "io = \"auto\"\n\nmemory = [1,\n": "f.toml:"} {
		var c Config
		if err := c.read("f.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: got %v, want %s", text, err, line)
		}
	}
	if err := c.ReadFile(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestBytesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "512MiB": 512 << 20, "2 GiB": 2 << 30, "1GB": 1e9, "64m": 64 << 20} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1 PiB", "99999999999999999999", "9999999999GiB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestTheBudgetIsSharedOut(t *testing.T) {
	b := newBudget(1<<30, 256<<20)
	if b.FrameBytes+b.TailBytes+b.ColdBytes != 1<<30 || b.frameBytesMax() != 128<<20 {
		t.Errorf("1 GiB is shared as %+v, with requests of up to %d", b, b.frameBytesMax())
	}
	if got := newBudget(memoryBytesMin, 16<<20).frameBytesMax(); got != 8<<20 {
		t.Errorf("the least memory allows requests of %d bytes", got)
	}
	if got := defaultMemoryBytes(); got < memoryDefaultMin || got > memoryDefaultMax {
		t.Errorf("the default is %d", got)
	}
}

// Scenario 51: clients must not use up the descriptors of the engine.
func TestDescriptorsAreSharedOut(t *testing.T) {
	for _, test := range []struct {
		limit       uint64
		connections int
		files       int
		enough      bool
	}{
		{1 << 20, 10_000, segmentFilesMax, true}, {1<<64 - 1, 10_000, segmentFilesMax, true}, {12_000, 10_000, 1744, true}, {1024, 10_000, segmentFilesMin, false}, {1024, 100, 668, true},
	} {
		if files, enough := shareDescriptors(test.limit, test.connections); files != test.files || enough != test.enough {
			t.Errorf("%+v: %d, %t", test, files, enough)
		}
	}
}

// FuzzReadFile: a file may say anything.
func FuzzReadFile(f *testing.F) {
	f.Add([]byte("num.partitions = 3\n"))
	f.Add([]byte("[a]\nb = [1, \"x\", {c = 1}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Config{Logger: slog.New(slog.DiscardHandler)}
		if err := c.read("f.toml", text); err != nil {
			return
		}
		c.EnsureDefaults()
		_ = c.Validate()
	})
}
