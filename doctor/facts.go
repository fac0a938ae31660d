package doctor

// Facts is all that the rules look at. Zero values are "not known", or "not there" where
// a field says so. The JSON form is part of the report of `ringlog doctor --json`.
type Facts struct {
	System    System    `json:"system"`
	Ring      Ring      `json:"ring"`
	Limits    Limits    `json:"limits"`
	Processor Processor `json:"processor"`
	Memory    Memory    `json:"memory"`
	Clock     Clock     `json:"clock"`
	Directory Directory `json:"directory"`
	Config    Config    `json:"config"`
	Network   Network   `json:"network"`
	Broker    Broker    `json:"broker"`
}

// Answer is yes, no, or not known.
type Answer string

// The answers.
const (
	Unknown Answer = ""
	Yes     Answer = "yes"
	No      Answer = "no"
)

// AnswerOf is Yes or No.
func AnswerOf(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// System is the kernel and what stands around the process.
type System struct {
	OS        string `json:"os"`                  // as Go names it: "linux", "darwin"
	Arch      string `json:"arch"`                // as Go names it
	Kernel    string `json:"kernel,omitempty"`    // release, such as "6.1.0-18-amd64"
	Container string `json:"container,omitempty"` // "docker", "podman", "kubernetes", ...; empty: none that is known
}

// Ring is whether io_uring can be had, and what may forbid it.
type Ring struct {
	// Refusal says in a sentence why there is no ring; empty: there is one.
	Refusal string `json:"refusal,omitempty"`
	// Disabled is sysctl kernel.io_uring_disabled (0, 1, 2); -1 when there is none.
	Disabled int `json:"disabled"`
	// Seccomp is the mode in /proc/self/status: 0 none, 2 a filter; -1 when it is not known.
	Seccomp int `json:"seccomp"`
	// Backend is the disk that the configuration comes to here, "uring" or "portable", and
	// Reason why; OpenError why there is none. All empty: it was not tried.
	Backend   string `json:"backend,omitempty"`
	Reason    string `json:"reason,omitempty"`
	OpenError string `json:"open_error,omitempty"`
}

// Unlimited is a limit that there is not.
const Unlimited = int64(1<<63 - 1)

// Limits are resource limits of this process; a broker started from the same
// shell has the same. 0 is not known.
type Limits struct {
	MemlockBytes int64 `json:"memlock_bytes,omitempty"`
	Files        int64 `json:"files,omitempty"` // hard: a broker raises the soft one to it
}

// Processor is how much of the machine a broker gets.
type Processor struct {
	CPUs       int     `json:"cpus"`                 // that this process may run on
	Quota      float64 `json:"quota,omitempty"`      // CPUs that a control group grants; 0: all
	GOMAXPROCS int     `json:"gomaxprocs,omitempty"` // from the environment; 0: not set
}

// Memory is how much there is.
type Memory struct {
	PhysicalBytes  int64 `json:"physical_bytes,omitempty"`
	GroupBytes     int64 `json:"group_bytes,omitempty"` // limit of the control group; 0: none
	AvailableBytes int64 `json:"available_bytes,omitempty"`
	// HugePages is how the kernel gives transparent huge pages: "always", "madvise", "never".
	HugePages string `json:"huge_pages,omitempty"`
	// Overcommit is sysctl vm.overcommit_memory: 0, 1, 2; -1 when it is not known.
	Overcommit int `json:"overcommit"`
}

// Clock is how far the wall clock can be believed.
type Clock struct {
	Synchronised Answer `json:"synchronised,omitempty"` // by the kernel's own account
	Source       string `json:"source,omitempty"`       // "tsc", "kvm-clock", "hpet", ...
	// SteppedMillis is how far the wall clock moved against the monotonic one while the facts
	// were gathered.
	SteppedMillis int64 `json:"stepped_millis,omitempty"`
	// BehindMillis is how far the clock is behind the newest file of the data directory: it
	// was set back since.
	BehindMillis int64 `json:"behind_millis,omitempty"`
}

// Directory is the data directory and the file system and device below it.
type Directory struct {
	Path string `json:"path"`
	// Exists: it is there; else everything below is of its nearest parent that is.
	Exists bool `json:"exists"`
	// Error is why nothing can be said of it, or why a broker cannot use it.
	Error    string `json:"error,omitempty"`
	Writable Answer `json:"writable,omitempty"`
	// Holder is the process that has the directory's lock; empty: nobody.
	Holder string `json:"holder,omitempty"`
	// Owner says whose data it holds; empty: nobody's yet.
	Owner   string `json:"owner,omitempty"`
	HasData bool   `json:"has_data"`

	FileSystem   string   `json:"file_system,omitempty"` // type, such as "ext4"
	MountPoint   string   `json:"mount_point,omitempty"`
	MountOptions []string `json:"mount_options,omitempty"`
	Direct       Answer   `json:"direct,omitempty"` // files open with O_DIRECT
	TotalBytes   int64    `json:"total_bytes,omitempty"`
	FreeBytes    int64    `json:"free_bytes"`            // that this user may still use
	FilesFree    int64    `json:"files_free,omitempty"`  // inodes; 0 with FilesTotal 0: no limit
	FilesTotal   int64    `json:"files_total,omitempty"` //
	JournalBytes int64    `json:"journal_bytes"`         // of the commit journals that are there already

	Device     string `json:"device,omitempty"`      // such as "nvme0n1"
	WriteCache string `json:"write_cache,omitempty"` // "write back", "write through"
	Rotational Answer `json:"rotational,omitempty"`
}

// Config is what a broker with the configuration at hand takes of the machine.
type Config struct {
	// Fault is why a broker does not start with it; then nothing else is set.
	Fault string `json:"fault,omitempty"`
	IO    string `json:"io,omitempty"` // auto, uring, portable, giouring
	// MemoryBytes is the budget of data in memory; the Go heap comes on top.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// JournalBytes is what all commit journals together will take of the disk.
	JournalBytes int64 `json:"journal_bytes"`
	// KeptFreeBytes is below how much free space produces are refused.
	KeptFreeBytes int64 `json:"kept_free_bytes"`
	// Files is how many descriptors it may come to, FilesMin with how many it is not yet in
	// the way of its clients.
	Files    int64 `json:"files,omitempty"`
	FilesMin int64 `json:"files_min,omitempty"`
	// Threads are busy ones: shards and event loops.
	Threads int `json:"threads,omitempty"`
	// Listen and Advertised are host:port; Advertised is empty when it is Listen.
	Listen     string `json:"listen,omitempty"`
	Advertised string `json:"advertised,omitempty"`
}

// Network is what became of the configured addresses when they were tried.
type Network struct {
	// ListenFree: nobody listens there, and this process could.
	ListenFree  Answer `json:"listen_free,omitempty"`
	ListenError string `json:"listen_error,omitempty"`
	// AdvertisedHosts are the addresses that the advertised name has here.
	AdvertisedHosts []string `json:"advertised_hosts,omitempty"`
	AdvertisedError string   `json:"advertised_error,omitempty"`
}

// Broker is what a running broker says of itself; Asked empty means that none was looked for.
type Broker struct {
	Asked   string `json:"asked,omitempty"` // addresses
	Refusal string `json:"refusal,omitempty"`
	// Members are the brokers of the cluster, as its metadata tells clients.
	Members []Member `json:"members,omitempty"`
	// Health is what the admin address says; empty: nobody answers there.
	Health        string `json:"health,omitempty"`
	HealthAddress string `json:"health_address,omitempty"`
	Healthy       Answer `json:"healthy,omitempty"`
	// Controller is the broker that answers for the metadata, -1 when there is none.
	Controller int32 `json:"controller"`
	Partitions int   `json:"partitions"`
	Leaderless int   `json:"leaderless"` // partitions without a leader
	Lagging    int   `json:"lagging"`    // partitions with fewer replicas in sync than there are
}

// Member is one broker under the address that it tells its clients.
type Member struct {
	ID      int32  `json:"id"`
	Address string `json:"address"`
	// Refusal is why it cannot be reached there.
	Refusal string `json:"refusal,omitempty"`
	// AnsweredAs is the id that whoever answers there has, -1 when it was not asked; and
	// Told the address that it gives for itself.
	AnsweredAs int32  `json:"answered_as"`
	Told       string `json:"told,omitempty"`
}
