package doctor

import (
	"fmt"
	"time"
)

// heapBytes is what the Go heap, stacks and the kernel's own buffers take beside the
// budget, for a broker of some thousand connections.
const heapBytes = 256 << 20

func examineMemory(f *Facts, l *list) {
	const check = "memory"
	m, want := &f.Memory, f.Config.MemoryBytes
	total, whose := m.PhysicalBytes, "the machine has "
	if m.GroupBytes > 0 && (total == 0 || m.GroupBytes < total) {
		total, whose = m.GroupBytes, "the control group grants "
	}
	if total == 0 || want == 0 {
		return
	}
	seen := fmt.Sprintf("%s%s, the budget (memory) is %s", whose, bytes(total), bytes(want))
	const do = "set memory to a quarter to a half of what there is, and leave the rest to the heap, the kernel and others"
	switch {
	case want+heapBytes > total:
		l.fail(check, seen, "the kernel ends the broker when it uses its budget", do)
	case want > total/4*3:
		l.warn(check, seen, "little is left for the heap, for sockets and for everybody else: the kernel may end the broker under load", do)
	case m.AvailableBytes > 0 && want > m.AvailableBytes && f.Directory.Holder == "": // a broker that runs has it already
		l.warn(check, fmt.Sprintf("%s, and %s are available now", seen, bytes(m.AvailableBytes)),
			"the budget is taken as it is needed: when it is, others have to give theirs up", "end what else uses memory, or set memory to less")
	default:
		l.ok(check, "%s", seen)
	}
}

func examineHugePages(f *Facts, l *list) {
	switch f.Memory.HugePages {
	case "":
	case "never":
		l.warn("huge-pages", "transparent huge pages are off",
			"the memory for records is then in pages of 4 KiB: copying into it was measured at half the speed",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, on the host when this is a container; only memory that asks for it gets any then")
	default:
		l.ok("huge-pages", "%s", f.Memory.HugePages)
	}
}

func examineOvercommit(f *Facts, l *list) {
	if f.Memory.Overcommit == 2 {
		l.warn("overcommit", "vm.overcommit_memory is 2",
			"address space counts as memory then: the broker reserves its budget at the start and may be refused, and so may others",
			"vm.overcommit_memory=0, which is the default; or raise vm.overcommit_ratio")
	}
}

func examineProcessor(f *Facts, l *list) {
	const check = "cpu"
	p := &f.Processor
	if p.CPUs == 0 {
		return
	}
	usable, seen := float64(p.CPUs), fmt.Sprintf("%d CPU(s)", p.CPUs)
	if p.Quota > 0 && p.Quota < usable {
		usable = p.Quota
		seen += fmt.Sprintf(", %.3g of them granted by the control group", p.Quota)
	}
	if p.GOMAXPROCS > 0 {
		seen += fmt.Sprintf(", GOMAXPROCS=%d", p.GOMAXPROCS)
	}
	want := f.Config.Threads + 2
	switch {
	case f.Config.Threads > 0 && p.GOMAXPROCS > 0 && p.GOMAXPROCS < want:
		l.warn(check, seen, fmt.Sprintf("shards and event loops are %d busy threads: one that comes back from the disk waits for a time slice of others, milliseconds each", f.Config.Threads),
			fmt.Sprintf("do not set GOMAXPROCS, or set it to %d or more", want))
	case usable < 2:
		l.warn(check, seen, "network, checks of what producers send and the disk's thread share one CPU: latencies are as long as the longest of them",
			"give it two CPUs or more")
	case f.Config.Threads > 2*p.CPUs:
		l.warn(check, fmt.Sprintf("%s for %d busy threads", seen, f.Config.Threads), "shards and event loops take the CPUs from each other",
			"lower shards and ringlog.network.loops")
	default:
		l.ok(check, "%s", seen)
	}
}

// steppedMillisMax is how far two clocks may part while doctor looks: scheduling, no more.
const steppedMillisMax = 100

func examineClock(f *Facts, l *list) {
	const check = "clock"
	c := &f.Clock
	before := len(*l)
	if c.BehindMillis > 2000 { // the times of files are as coarse as that on some file systems
		behind := (time.Duration(c.BehindMillis) * time.Millisecond).Round(time.Second)
		l.fail(check, fmt.Sprintf("the clock is %s behind the newest file of the data directory", behind),
			"it was set back since: new records are stamped before old ones, searches by time find the wrong place, and retention by time waits",
			"set the clock right before the broker takes records: timedatectl status; chronyc tracking")
	}
	if c.SteppedMillis > steppedMillisMax || c.SteppedMillis < -steppedMillisMax {
		l.warn(check, fmt.Sprintf("the clock jumped by %d ms while this ran", c.SteppedMillis),
			"timestamps that the broker sets (LogAppendTime) and retention by time follow it; the promise and all time-outs do not",
			"let a daemon slew the clock instead of setting it: chrony without makestep, or with makestep 1 3")
	}
	if c.Synchronised == No {
		l.warn(check, "the kernel says that nobody keeps the clock right",
			"timestamps and retention by time follow it, and consumers that ask for a time get another one",
			"run chrony, ntpd or systemd-timesyncd; in a container or virtual machine it is the host's to do")
	}
	if len(*l) == before && c.Synchronised == Yes {
		l.ok(check, "kept right, by the kernel's own account")
	}
}

func examineClockSource(f *Facts, l *list) {
	switch source := f.Clock.Source; source {
	case "":
	case "hpet", "acpi_pm", "pit", "refined-jiffies", "jiffies":
		l.warn("clock-source", source, "reading the clock is a slow system call with it, and every request reads it some times",
			"find out why the kernel gave up on the tsc (dmesg | grep -i tsc); on virtual machines kvm-clock or hyperv_clocksource are good")
	default:
		l.ok("clock-source", "%s", source)
	}
}
