package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Who is in a group is shown with what each has; one member more than there are partitions is idle, and says why.
// While they are there, nobody moves their offsets or deletes the group.
func TestAGroupWithMembersIsDescribedAndNotReset(t *testing.T) {
	broker := startConsumerGroupBroker(t)
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			g := newConsumerGroup(t, broker, 2)
			options := []kgo.Opt{}
			if protocol == "consumer" {
				options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.CooperativeStickyBalancer()))
			}
			for _, name := range []string{"a", "b", "c"} {
				_, leave := g.join(name, append(options, kgo.ClientID(name))...)
				defer leave()
			}
			ask := script{variables: map[string]string{"RINGLOG_BROKERS": broker.Address}}
			var report groupReport
			for deadline := time.Now().Add(groupPatience); ; {
				output, complaint, code := ask.execute(t, strings.NewReader(""), "group", "describe", g.topic, "--json")
				reports := []groupReport{{}}
				if code == exitOK { // not before the first of them has joined
					if err := json.Unmarshal([]byte(output), &reports); err != nil || len(reports) != 1 {
						t.Fatalf("%s: %v", output, err)
					}
				}
				report = reports[0]
				idle := 0
				for _, m := range report.Members {
					if m.Idle {
						idle++
					}
				}
				if report.State == "Stable" && len(report.Members) == 3 && idle == 1 && len(report.Partitions) == 2 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s%s", output, complaint)
				}
			}
			for _, p := range report.Partitions {
				if p.Member == "" || p.Client == "" || p.Start == nil || p.End == nil {
					t.Errorf("%+v", p)
				}
			}
			if report.Type != protocol || (report.Epoch != nil) != (protocol == "consumer") || report.Protocol == "" {
				t.Errorf("%+v", report)
			}
			output, _, code := ask.execute(t, strings.NewReader(""), "group", "describe", g.topic)
			if code != exitOK || strings.Count(output, " is idle: the group has more members than partitions to read") != 1 {
				t.Errorf("exit code %d:\n%s", code, output)
			}
			for _, command := range [][]string{{"reset", g.topic, "--to", "end", "--execute"}, {"delete", g.topic}} {
				_, complaint, code := ask.execute(t, strings.NewReader(""), append([]string{"group"}, command...)...)
				if code != exitRefused || !strings.Contains(complaint, "ringlog group describe") {
					t.Errorf("%v: exit code %d, %s", command, code, complaint)
				}
			}
		})
	}
}
