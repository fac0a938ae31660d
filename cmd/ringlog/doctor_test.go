package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"ringlog/doctor"
	"ringlog/internal/ringlogtest"
)

// examined runs doctor and returns its report, whatever this machine is like.
func examined(t *testing.T, arguments ...string) (report doctorReport, code exitCode) {
	t.Helper()
	output, complaint, code := script{}.execute(t, strings.NewReader(""), append([]string{"doctor", "--json"}, arguments...)...)
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		t.Fatalf("%v: exit code %d\n%s%s", err, code, output, complaint)
	}
	return report, code
}

// finding returns what the report has to say of a subject.
func finding(t *testing.T, report doctorReport, check string) doctor.Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Errorf("nothing is said of %s: %+v", check, report.Findings)
	return doctor.Finding{}
}

// TestDoctorOfARunningBroker: it is found by the settings that it was started with, and looked at
// as its clients see it.
func TestDoctorOfARunningBroker(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{})
	settings := []string{"--data-dir", broker.DataDirectory, "--kafka-addr", broker.Address, "--admin-addr", broker.AdminAddress, "--memory", "64MiB", "--journal-bytes", "4MiB"}
	report, _ := examined(t, settings...)
	for check, words := range map[string]string{
		"broker": "1 broker(s)", "metadata": "answers there with the same address", "health": "serving", "partitions": "0, all", "data-dir": "in use by process",
		"listener": "a broker runs",
	} {
		if f := finding(t, report, check); f.Level != doctor.OK || !strings.Contains(f.Seen, words) {
			t.Errorf("%+v", f)
		}
	}
	if report.Facts.Broker.Members[0].AnsweredAs != 1 {
		t.Errorf("%+v", report.Facts.Broker.Members)
	}
}

// TestDoctorFindsAWrongAdvertisedAddress: the wall that Kafka's users hit first.
func TestDoctorFindsAWrongAdvertisedAddress(t *testing.T) {
	broker := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--advertised-addr", "127.0.0.1:1"}})
	report, code := examined(t, "--data-dir", broker.DataDirectory, "--kafka-addr", broker.Address, "--admin-addr", broker.AdminAddress, "--brokers", broker.Address)
	if f := finding(t, report, "metadata"); f.Level != doctor.Error || !strings.Contains(f.Seen, "127.0.0.1:1") || code != exitErrors {
		t.Errorf("exit code %d, %+v", code, f)
	}
}

// TestDoctorBeforeTheFirstStart: a port that is taken and a setting with a slip are found before a broker is.
func TestDoctorBeforeTheFirstStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	report, code := examined(t, "--data-dir", t.TempDir(), "--kafka-addr", taken.Addr().String(), "--timeout", "100ms")
	if f := finding(t, report, "listener"); f.Level != doctor.Error || code != exitErrors || report.Level != doctor.Error {
		t.Errorf("exit code %d, %+v", code, f)
	}
	report, code = examined(t, "--set", "num.partitions=many")
	if f := finding(t, report, "config"); f.Level != doctor.Error || code != exitErrors {
		t.Errorf("exit code %d, %+v", code, f)
	}
}

// TestDoctorSaysWhatToDo: as text, the remedy stands below what was seen.
func TestDoctorSaysWhatToDo(t *testing.T) {
	output, complaint, code := script{}.execute(t, strings.NewReader(""), "doctor", "--set", "num.partitions=many")
	if code != exitErrors || !strings.Contains(output, "ERROR config: ") || !strings.Contains(output, "do:  correct it") || !strings.Contains(complaint, "1 error") {
		t.Errorf("exit code %d\n%s%s", code, output, complaint)
	}
}
