package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"ringlog/perf"
)

// printReport writes a report for people.
func printReport(output io.Writer, report perf.Report) {
	fmt.Fprintf(output, "%s: %.1f s\n", report.Kind, report.Seconds)
	if report.Kind == "device" { // which knows writes, and no records
		fmt.Fprintf(output, "  throughput  %.1f MB/s, %s writes/s\n", report.MBPerSecond, grouped(report.RequestsPerS))
		fmt.Fprintf(output, "  total       %s bytes in %s writes\n", grouped(float64(report.Bytes)), grouped(float64(report.Requests)))
	} else {
		fmt.Fprintf(output, "  throughput  %.1f MB/s, %s records/s, %s requests/s\n",
			report.MBPerSecond, grouped(report.RecordsPerSecond), grouped(report.RequestsPerS))
		fmt.Fprintf(output, "  total       %s records, %s bytes in %s requests\n",
			grouped(float64(report.Records)), grouped(float64(report.Bytes)), grouped(float64(report.Requests)))
	}
	if latency := report.AckLatency; latency != nil {
		fmt.Fprintf(output, "  latency     p50 %s, p99 %s, p99.9 %s, max %s\n",
			micros(latency.P50), micros(latency.P99), micros(latency.P999), micros(latency.Max))
	}
	if report.Engine != nil {
		printEngine(output, report.Engine)
	}
	fmt.Fprintf(output, "  CPU         load %.0f %%", report.CPU.User+report.CPU.System)
	if server := report.CPU.Server; server != nil {
		fmt.Fprintf(output, ", server %.0f %%", server.User+server.System)
	}
	fmt.Fprintf(output, ", others %.0f %% (of one core; there are %d)\n", report.CPU.Foreign, report.Environment.Cores)
	for _, name := range slices.Sorted(maps.Keys(report.Errors)) {
		fmt.Fprintf(output, "  error       %s: %d replies\n", name, report.Errors[name])
	}
	for _, note := range report.Notes {
		fmt.Fprintf(output, "  note        %s\n", note)
	}
}

// printWindow writes a window as one line.
func printWindow(output io.Writer, window perf.Window) {
	fmt.Fprintf(output, "%s  %.1f s  %.1f MB/s", window.Started.Add(time.Duration(window.Seconds*float64(time.Second))).Format(time.TimeOnly), window.Seconds, window.MBPerSecond)
	if latency := window.AckLatency; latency != nil {
		fmt.Fprintf(output, "  p50 %s, p99 %s, p99.9 %s, max %s", micros(latency.P50), micros(latency.P99), micros(latency.P999), micros(latency.Max))
	}
	if server := window.CPU.Server; server != nil {
		fmt.Fprintf(output, "  server %.0f %% CPU, %s bytes", server.User+server.System, grouped(float64(window.ServerResidentBytes)))
	}
	for _, name := range slices.Sorted(maps.Keys(window.Errors)) {
		fmt.Fprintf(output, "  %s: %d replies", name, window.Errors[name])
	}
	fmt.Fprintln(output)
}

// micros prints microseconds in a unit that can be read.
func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).String()
}

// grouped prints a whole number with its thousands apart: 1,234,567.
func grouped(number float64) string {
	digits := strconv.FormatFloat(number, 'f', 0, 64)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
