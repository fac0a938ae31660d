package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"ringlog/internal/ringlogtest"
)

// topicIDText is a topic's id as Kafka's tools print it: 16 bytes in base64 for URLs.
var topicIDText = regexp.MustCompile(`([("])[A-Za-z0-9_-]{22}([)"])`)

// TestAgainstBroker runs each script of testdata/broker against a broker of its
// own.
func TestAgainstBroker(t *testing.T) {
	datadriven.Walk(t, "testdata/broker", func(t *testing.T, path string) {
		broker := ringlogtest.Start(t, ringlogtest.Options{})
		s := script{
			variables: map[string]string{"RINGLOG_BROKERS": broker.Address},
			normalize: func(output string) string {
				output = strings.ReplaceAll(output, broker.Address, "BROKER")
				return topicIDText.ReplaceAllString(output, "${1}TOPIC-ID${2}")
			},
		}
		datadriven.RunTest(t, path, s.run)
	})
}
