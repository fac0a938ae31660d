package gather

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ringlog/doctor"
)

const mountinfo = `22 27 0:20 / /proc rw,nosuid,nodev shared:13 - proc proc rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 27 259:2 / /var/lib rw,noatime shared:20 - xfs /dev/nvme0n1p2 rw,attr2,discard
41 40 0:33 / /var/lib/with\040space ro,relatime shared:21 - tmpfs tmpfs rw,size=1024k
broken line
`

func TestTheMountOfADirectoryIsFound(t *testing.T) {
	for at, wanted := range map[string]string{
		"/srv/me": "/", "/var/lib": "/var/lib", "/var/lib/ringlog": "/var/lib", "/var/library": "/", "/var/lib/with space/x": "/var/lib/with space",
	} {
		if m, ok := mountOf(mountinfo, at); !ok || m.point != wanted {
			t.Errorf("%s is on %+v", at, m)
		}
	}
	m, _ := mountOf(mountinfo, "/var/lib/ringlog")
	if m.kind != "xfs" || m.device != "259:2" || m.source != "/dev/nvme0n1p2" || len(m.options) != 4 || m.options[3] != "discard" {
		t.Errorf("%+v", m)
	}
	// The mount is read-only although its file system is not.
	if m, _ := mountOf(mountinfo, "/var/lib/with space"); m.options[0] != "ro" || len(m.options) != 3 {
		t.Errorf("%+v", m)
	}
	if _, ok := mountOf("", "/"); ok {
		t.Error("a mount was found in nothing")
	}
}

func TestWhatTheKernelWritesIsRead(t *testing.T) {
	if mode := seccompMode("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"); mode != 2 {
		t.Errorf("seccomp mode %d", mode)
	}
	if mode := seccompMode("Name:\tx\n"); mode != -1 {
		t.Errorf("seccomp mode %d of a kernel that does not say", mode)
	}
	const meminfo = "MemTotal:       16384 kB\nMemFree: 12 kB\nMemAvailable:    8192 kB\n"
	if total, available := meminfoBytes(meminfo, "MemTotal"), meminfoBytes(meminfo, "MemAvailable"); total != 16<<20 || available != 8<<20 {
		t.Errorf("%d bytes, %d available", total, available)
	}
	if word := chosen("always [madvise] never"); word != "madvise" {
		t.Errorf("huge pages are %q", word)
	}
	if word := chosen(""); word != "" {
		t.Errorf("huge pages are %q", word)
	}
	groups := controlGroups("1:name=systemd:/x\n0::/system.slice/ringlog.service\n")
	if len(groups) != 3 || groups[0] != "/system.slice/ringlog.service" || groups[2] != "/" {
		t.Errorf("%q", groups)
	}
}

// TestFactsOfThisMachine: whatever the machine, they are of it, and nothing was left behind.
func TestFactsOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "shard-0.journal"), make([]byte, 12288), 0o600); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(logs, "shard-0.journal"), future, future); err != nil {
		t.Fatal(err)
	}
	f := Facts(t.Context(), Options{DataDir: dir, LogsDir: logs, Config: doctor.Config{IO: "portable", Listen: "127.0.0.1:0"}})
	if f.System.OS == "" || f.Processor.CPUs < 1 || !f.Directory.Exists || f.Directory.Error != "" {
		t.Errorf("%+v", f)
	}
	if f.Directory.JournalBytes != 8192 {
		t.Errorf("journals of %d bytes", f.Directory.JournalBytes)
	}
	if f.Clock.BehindMillis < 3_000_000 {
		t.Errorf("a file of the future puts the clock %d ms behind", f.Clock.BehindMillis)
	}
	if f.Ring.Backend != "portable" || f.Ring.OpenError != "" {
		t.Errorf("%+v", f.Ring)
	}
	if f.Network.ListenFree != doctor.Yes {
		t.Errorf("%+v", f.Network)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestADirectoryThatIsNotThereIsItsParents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	f := Facts(t.Context(), Options{DataDir: dir, Config: doctor.Config{IO: "auto"}})
	if f.Directory.Exists || f.Directory.Error != "" || f.Ring.Backend == "" {
		t.Errorf("%+v %+v", f.Directory, f.Ring)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := Facts(t.Context(), Options{DataDir: file}); f.Directory.Error == "" {
		t.Error("a file passes for a directory")
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := Facts(t.Context(), Options{Config: doctor.Config{Listen: taken.Addr().String()}})
	if f.Network.ListenFree != doctor.No || f.Network.ListenError == "" || len(f.Network.AdvertisedHosts) != 1 {
		t.Errorf("%+v", f.Network)
	}
}
