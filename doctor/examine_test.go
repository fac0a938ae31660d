package doctor

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// machine is one that suits a broker, with one that runs on it.
func machine() *Facts {
	return &Facts{
		System:    System{OS: "linux", Arch: "amd64", Kernel: "6.1.0-18-amd64"},
		Ring:      Ring{Disabled: 0, Seccomp: 0, Backend: "uring", Reason: "the kernel grants io_uring with everything the disk needs"},
		Limits:    Limits{MemlockBytes: 8 << 20, Files: 1 << 20},
		Processor: Processor{CPUs: 8},
		Memory:    Memory{PhysicalBytes: 16 << 30, AvailableBytes: 12 << 30, HugePages: "madvise", Overcommit: 0},
		Clock:     Clock{Synchronised: Yes, Source: "tsc"},
		Directory: Directory{Path: "/var/lib/ringlog", Exists: true, Writable: Yes, Holder: "4711", Owner: "broker 1 of cluster x", HasData: true,
			FileSystem: "xfs", MountPoint: "/var/lib", MountOptions: []string{"rw", "noatime"}, Direct: Yes, TotalBytes: 1 << 40, FreeBytes: 1 << 39,
			FilesFree: 1 << 20, FilesTotal: 1 << 21, JournalBytes: 512 << 20, Device: "nvme0n1", WriteCache: "write back", Rotational: No},
		Config: Config{IO: "auto", MemoryBytes: 4 << 30, JournalBytes: 512 << 20, KeptFreeBytes: 20 << 30, Files: 14_352, FilesMin: 10_320, Threads: 5,
			Listen: "10.0.0.7:9092", Advertised: "log1.example.org:9092"},
		Network: Network{ListenFree: No, ListenError: "address already in use", AdvertisedHosts: []string{"10.0.0.7"}},
		Broker: Broker{Asked: "log1.example.org:9092", Members: []Member{{ID: 1, Address: "log1.example.org:9092", AnsweredAs: 1, Told: "log1.example.org:9092"}},
			Health: "serving", HealthAddress: "http://127.0.0.1:9644/healthz", Healthy: Yes, Controller: 1, Partitions: 12},
	}
}

// story is what makes that machine worse, and what doctor says to it.
type story struct {
	tells  string
	change func(*Facts)
	check  string
	level  Level
	words  []string // that the finding has to have
}

var stories = []story{
	{"a laptop with macOS", func(f *Facts) { f.System.OS = "darwin"; f.Ring.Backend = "portable" }, "platform", Warning, []string{"ordinary system calls", "Linux 5.15"}},
	{"a kernel of 2019", func(f *Facts) { f.System.Kernel = "5.4.0-100-generic" }, "platform", Warning, []string{"older than Linux 5.15"}},

	{"a setting asks for a ring that the sandbox forbids", func(f *Facts) {
		f.Config.IO, f.Ring = "uring", Ring{OpenError: "disk: mode uring: io_uring is forbidden", Seccomp: 2}
	}, "io", Error, []string{"does not start with io=uring", "seccomp profile"}},
	{"a container of Docker", func(f *Facts) {
		f.System.Container, f.Ring = "docker", Ring{Refusal: "io_uring is forbidden", Backend: "portable", Seccomp: 2}
	}, "io", Warning, []string{"--security-opt seccomp=", "the promise is the same"}},
	{"an operator who disabled io_uring", func(f *Facts) {
		f.Ring = Ring{Refusal: "io_uring is forbidden", Backend: "portable", Disabled: 2}
	}, "io", Warning, []string{"kernel.io_uring_disabled is 2"}},
	{"a limit of locked memory", func(f *Facts) {
		f.Ring = Ring{Refusal: "no memory for a ring, perhaps the limit of locked memory", Backend: "portable"}
	}, "io", Warning, []string{"ulimit -l"}},
	{"no descriptor is left for a ring", func(f *Facts) {
		f.Ring = Ring{Refusal: "no file descriptor for a ring", Backend: "portable"}
	}, "io", Warning, []string{"ulimit -n"}},
	{"a sandbox of another kind", func(f *Facts) {
		f.Ring = Ring{Refusal: "the kernel or the sandbox has no io_uring", Backend: "portable"}
	}, "io", Warning, []string{"security module"}},
	{"root may have a ring, others may not", func(f *Facts) { f.Ring.Disabled = 1 }, "sysctl", Warning, []string{"the broker's user"}},

	{"an old kernel that counts rings as locked memory", func(f *Facts) {
		f.System.Kernel, f.Limits.MemlockBytes = "5.10.0", 32<<10
	}, "memlock", Warning, []string{"32 KiB", "LimitMEMLOCK"}},
	{"a shell's limit of 1024 files", func(f *Facts) { f.Limits.Files = 1024 }, "files", Warning, []string{"1024", "10320", "LimitNOFILE=14352"}},
	{"a limit that is enough for clients and few segments", func(f *Facts) { f.Limits.Files = 12_000 }, "files", Warning, []string{"12000", "fewer segments"}},

	{"a setting with a slip", func(f *Facts) { f.Config = Config{Fault: `shards: "many" is not a number`} }, "config", Error, []string{"ringlog settings"}},
	{"a file where the directory should be", func(f *Facts) { f.Directory.Error = "it is not a directory" }, "data-dir", Error, []string{"/var/lib/ringlog"}},
	{"another user's directory", func(f *Facts) { f.Directory.Writable = No }, "data-dir", Error, []string{"as the user that owns it"}},
	{"a directory whose ringlog.properties was lost", func(f *Facts) { f.Directory.Owner = "" }, "data-dir", Error, []string{"ringlog.properties", "put it back"}},

	{"the root was mounted read-only after an error", func(f *Facts) { f.Directory.MountOptions = []string{"ro", "noatime"} }, "mount", Error, []string{"read-only", "dmesg"}},
	{"an old hint for speed in fstab", func(f *Facts) { f.Directory.MountOptions = []string{"rw", "nobarrier"} }, "mount", Error, []string{"nobarrier", "lost when the power is"}},
	{"the same for ext4", func(f *Facts) { f.Directory.MountOptions = []string{"rw", "barrier=0"} }, "mount", Error, []string{"barrier=0"}},
	{"an SSD that is told at once what is free", func(f *Facts) { f.Directory.MountOptions = []string{"rw", "discard"} }, "mount", Warning, []string{"fstrim.timer"}},
	{"a careful administrator", func(f *Facts) { f.Directory.MountOptions = []string{"rw", "sync"} }, "mount", Warning, []string{"flush of its own"}},
	{"an even more careful one", func(f *Facts) { f.Directory.MountOptions = []string{"rw", "data=journal"} }, "mount", Warning, []string{"twice"}},
	{"a file system without direct I/O", func(f *Facts) { f.Directory.Direct = No }, "direct-io", Warning, []string{"page cache"}},
	{"a disk that turns", func(f *Facts) { f.Directory.Rotational, f.Directory.Device = Yes, "sda" }, "device", Warning, []string{"SSD", "sda"}},

	{"no room for the journals of the first start", func(f *Facts) { f.Directory.JournalBytes, f.Directory.FreeBytes = 0, 100<<20 }, "space", Error, []string{"does not start", "512 MiB more"}},
	{"less free than what is kept free", func(f *Facts) { f.Directory.FreeBytes = 19 << 30 }, "space", Error, []string{"KAFKA_STORAGE_ERROR", "19 GiB", "20 GiB"}},
	{"nearly as little", func(f *Facts) { f.Directory.FreeBytes = 30 << 30 }, "space", Warning, []string{"10 GiB are left for records"}},
	{"a disk full of small files", func(f *Facts) { f.Directory.FilesFree = 12 }, "inodes", Warning, []string{"12 of"}},

	{"a budget that is larger than the container", func(f *Facts) { f.Memory.GroupBytes = 4 << 30 }, "memory", Error, []string{"control group grants 4 GiB", "ends the broker"}},
	{"a budget that leaves little", func(f *Facts) { f.Memory.PhysicalBytes = 5 << 30 }, "memory", Warning, []string{"the machine has 5 GiB"}},
	{"others use the memory, before the broker starts", func(f *Facts) {
		f.Memory.AvailableBytes, f.Directory.Holder, f.Network.ListenFree = 1<<30, "", Yes
	}, "memory", Warning, []string{"1 GiB are available"}},
	{"huge pages are off", func(f *Facts) { f.Memory.HugePages = "never" }, "huge-pages", Warning, []string{"madvise"}},
	{"a strict accounting of memory", func(f *Facts) { f.Memory.Overcommit = 2 }, "overcommit", Warning, []string{"vm.overcommit_memory"}},

	{"GOMAXPROCS=2 in the unit", func(f *Facts) { f.Processor.GOMAXPROCS = 2 }, "cpu", Warning, []string{"GOMAXPROCS=2", "7 or more"}},
	{"half a CPU in a container", func(f *Facts) { f.Processor.Quota = 0.5 }, "cpu", Warning, []string{"0.5 of them granted"}},
	{"many shards on few CPUs", func(f *Facts) { f.Config.Threads = 20 }, "cpu", Warning, []string{"20 busy threads"}},

	{"a battery that died", func(f *Facts) { f.Clock.BehindMillis = 3_600_000 }, "clock", Error, []string{"1h0m0s behind", "timedatectl"}},
	{"somebody set the clock meanwhile", func(f *Facts) { f.Clock.SteppedMillis = -800 }, "clock", Warning, []string{"-800 ms", "slew"}},
	{"nobody keeps the clock", func(f *Facts) { f.Clock.Synchronised = No }, "clock", Warning, []string{"chrony"}},
	{"a kernel that gave up on the tsc", func(f *Facts) { f.Clock.Source = "hpet" }, "clock-source", Warning, []string{"hpet"}},

	{"another program has the port", func(f *Facts) { f.Directory.Holder = "" }, "listener", Error, []string{"10.0.0.7:9092", "ss -ltnp"}},
	{"a name that nobody knows", func(f *Facts) { f.Network.AdvertisedError = "no such host" }, "advertised", Error, []string{"log1.example.org:9092", "time-outs"}},
	{"a broker for everybody that tells them localhost", func(f *Facts) {
		f.Config.Listen, f.Config.Advertised = "0.0.0.0:9092", "localhost:9092"
	}, "advertised", Warning, []string{"sent to themselves"}},

	{"a broker that has the data and does not answer", func(f *Facts) {
		f.Broker = Broker{Asked: "log1.example.org:9092", Refusal: "connection refused", Controller: -1}
	}, "broker", Error, []string{"process 4711"}},
	{"an address behind a firewall", func(f *Facts) { f.Broker.Members[0].Refusal = "connection refused" }, "metadata", Error, []string{"cannot be reached from here"}},
	{"a port that is forwarded to another broker", func(f *Facts) { f.Broker.Members[0].AnsweredAs = 2 }, "metadata", Error, []string{"where broker 2 answers"}},
	{"two brokers of one number", func(f *Facts) { f.Broker.Members[0].Told = "log2.example.org:9092" }, "metadata", Error, []string{"log2.example.org:9092"}},
	{"a log that is poisoned", func(f *Facts) {
		f.Broker.Healthy, f.Broker.Health = No, "serving, but 1 log(s) take no more records"
	}, "health", Error, []string{"1 log(s)", "dump --verify"}},
	{"a quorum without a leader", func(f *Facts) { f.Broker.Controller = -1 }, "partitions", Error, []string{"no controller"}},
	{"a broker is down", func(f *Facts) { f.Broker.Leaderless = 3 }, "partitions", Error, []string{"3 of 12"}},
	{"a broker is behind", func(f *Facts) { f.Broker.Lagging = 4 }, "partitions", Warning, []string{"4 of 12"}},
}

// allStories adds one for each kind of file system.
func allStories() []story {
	all := slices.Clone(stories)
	for _, kind := range slices.Sorted(maps.Keys(fileSystems)) {
		all = append(all, story{"a data directory on " + kind, func(f *Facts) { f.Directory.FileSystem = kind },
			"file-system", fileSystems[kind].level, []string{kind, fileSystems[kind].do}})
	}
	return append(all, story{"a data directory on a program's file system", func(f *Facts) { f.Directory.FileSystem = "fuse.sshfs" },
		"file-system", Warning, []string{"fuse.sshfs"}})
}

func TestAGoodMachineHasNoFindings(t *testing.T) {
	for _, finding := range Examine(machine()) {
		if finding.Level != OK || finding.Seen == "" || finding.Why != "" || finding.Do != "" {
			t.Errorf("%+v", finding)
		}
	}
}

func TestStories(t *testing.T) {
	for _, s := range allStories() {
		t.Run(s.tells, func(t *testing.T) {
			f := machine()
			s.change(f)
			told := false
			for _, finding := range Examine(f) {
				if finding.Level != OK && (finding.Why == "" || finding.Do == "") {
					t.Errorf("%+v says neither why nor what to do", finding)
				}
				if finding.Check != s.check || finding.Level != s.level {
					continue
				}
				told = true
				text := finding.Seen + "\n" + finding.Why + "\n" + finding.Do
				for _, words := range s.words {
					if !strings.Contains(text, words) {
						t.Errorf("no %q in\n%s", words, text)
					}
				}
			}
			if !told {
				t.Errorf("no %s of %s in\n%+v", s.level, s.check, Examine(f))
			}
		})
	}
}

// TestEveryFindingHasAStory reads the source for reasons that no story brings about.
func TestEveryFindingHasAStory(t *testing.T) {
	var told []string
	for _, s := range allStories() {
		f := machine()
		s.change(f)
		for _, finding := range Examine(f) {
			told = append(told, finding.Why)
		}
	}
	reasons := 0
	for _, file := range []string{"kernel.go", "storage.go", "machine.go", "network.go"} {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(syntax, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "warn" && method.Sel.Name != "fail" {
				return true
			}
			reason := firstText(call.Args[2])
			if reason == "" {
				return true // of the table of file systems
			}
			reasons++
			if !slices.ContainsFunc(told, func(why string) bool { return strings.HasPrefix(why, reason) }) {
				t.Errorf("%s: no story tells of %q", file, reason)
			}
			return true
		})
	}
	if reasons < 30 {
		t.Errorf("found %d reasons in the source: this test has lost sight of them", reasons)
	}
}

// firstText is the first string in an expression, up to its first figure.
func firstText(expression ast.Expr) (text string) {
	ast.Inspect(expression, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING && text == "" {
			text, _ = strconv.Unquote(literal.Value)
			text, _, _ = strings.Cut(text, "%")
		}
		return true
	})
	return text
}

// TestAVirtualDiskIsNotCalledSlow: virtio says of every disk that it turns.
func TestAVirtualDiskIsNotCalledSlow(t *testing.T) {
	f := machine()
	f.Directory.Rotational, f.Directory.Device = Yes, "vda"
	if findings := Examine(f); Worst(findings) != OK {
		t.Errorf("%+v", findings)
	}
}

// TestNothingKnownIsNothingSaid: in a sandbox that hides everything, doctor invents nothing.
func TestNothingKnownIsNothingSaid(t *testing.T) {
	unknown := &Facts{System: System{OS: "linux", Arch: "amd64"}, Ring: Ring{Disabled: -1, Seccomp: -1}, Memory: Memory{Overcommit: -1}}
	for _, finding := range Examine(unknown) {
		if finding.Level != OK {
			t.Errorf("%+v", finding)
		}
	}
}

func TestKernelsAreCompared(t *testing.T) {
	for release, wanted := range map[string]version{"6.1.0-18-amd64": {6, 1}, "5.15.167.4-microsoft-standard-WSL2": {5, 15}, "4.14": {4, 14}} {
		if got, ok := parseVersion(release); !ok || got != wanted {
			t.Errorf("%s is %v, %v", release, got, ok)
		}
	}
	for _, release := range []string{"", "six", "6", "6.x"} {
		if got, ok := parseVersion(release); ok {
			t.Errorf("%q is %v", release, got)
		}
	}
	if !(version{4, 19}).before(kernelOfRing) || (version{5, 15}).before(kernelOfRing) || (version{6, 1}).before(kernelOfRing) {
		t.Error("kernels are in the wrong order")
	}
}

func TestAReportCanBeReadBack(t *testing.T) {
	found := Examine(machine())
	found = append(found, Finding{Check: "x", Level: Error, Seen: "s", Why: "w", Do: "d"})
	text, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	var read []Finding
	if err := json.Unmarshal(text, &read); err != nil || !slices.Equal(read, found) {
		t.Errorf("%v\n%s", err, text)
	}
	if Worst(found) != Error || Count(found, Error) != 1 || Worst(nil) != OK {
		t.Error("the worst of them is not the last")
	}
	var level Level
	if err := level.UnmarshalText([]byte("fine")); err == nil {
		t.Error("\"fine\" is a level")
	}
}
