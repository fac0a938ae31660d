package perf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is what a run cost, in percent of one core.
type CPU struct {
	// User and System are the load generator's.
	User   float64 `json:"user"`
	System float64 `json:"system"`
	// Server is the measured process's, when it is known (Bare, or ServerPID).
	Server *ProcessCPU `json:"server,omitempty"`
	// Foreign is everybody else's on this machine: with an unknown local broker,
	// the broker's too. A figure beside much foreign CPU proves little.
	Foreign float64 `json:"foreign"`
}

// ProcessCPU is the cost of one process, in percent of one core.
type ProcessCPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
}

// clockTick is the unit of /proc/*/stat: USER_HZ, 100 on every Linux (proc(5)).
const clockTick = 10 * time.Millisecond

// cpuTimes are used CPU times up to a moment.
type cpuTimes struct {
	at           time.Time
	user, system time.Duration // this process
	server       [2]time.Duration
	machine      time.Duration // all processes, interrupts included
}

// CPUMeter compares the CPU used at two moments.
type CPUMeter struct {
	serverPID int // 0: unknown
	start     cpuTimes
}

// StartCPUMeter begins; serverPID is the process to report apart, 0 for none.
func StartCPUMeter(serverPID int) *CPUMeter {
	m := &CPUMeter{serverPID: serverPID}
	m.start = m.read()
	return m
}

func (m *CPUMeter) read() cpuTimes {
	t := cpuTimes{at: time.Now()}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		t.user, t.system = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
	}
	if m.serverPID != 0 {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.serverPID)); err == nil {
			t.server = parseProcessStat(string(stat))
		}
	}
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		t.machine = parseMachineStat(string(stat))
	}
	return t
}

// Stop returns the CPU used since the start.
func (m *CPUMeter) Stop() CPU {
	end := m.read()
	elapsed := end.at.Sub(m.start.at)
	if elapsed <= 0 {
		return CPU{}
	}
	percent := func(used time.Duration) float64 { return 100 * float64(used) / float64(elapsed) }
	c := CPU{User: percent(end.user - m.start.user), System: percent(end.system - m.start.system)}
	others := percent(end.machine-m.start.machine) - c.User - c.System
	if m.serverPID != 0 {
		c.Server = &ProcessCPU{User: percent(end.server[0] - m.start.server[0]), System: percent(end.server[1] - m.start.server[1])}
		others -= c.Server.User + c.Server.System
	}
	c.Foreign = max(others, 0) // the counters tick at different moments
	return c
}

// parseProcessStat returns user and system time of /proc/<pid>/stat: fields 14
// and 15, counted after the command's closing parenthesis, because a command may
// contain spaces.
func parseProcessStat(stat string) (times [2]time.Duration) {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return times
	}
	for i := range times {
		ticks, err := strconv.ParseInt(fields[11+i], 10, 64)
		if err != nil {
			return [2]time.Duration{}
		}
		times[i] = time.Duration(ticks) * clockTick
	}
	return times
}

// parseMachineStat adds up what the first line of /proc/stat calls used: user,
// nice, system, irq and softirq. Stolen time is the host's, not used here.
func parseMachineStat(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0
	}
	var used time.Duration
	for _, i := range []int{1, 2, 3, 6, 7} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		used += time.Duration(ticks) * clockTick
	}
	return used
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}
