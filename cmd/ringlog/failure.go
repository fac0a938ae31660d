package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
)

// exitCode is what scripts go by. The numbers are part of the interface.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2
	exitUnreachable exitCode = 3
	exitNotFound    exitCode = 4
	exitRefused     exitCode = 5
	exitDamaged     exitCode = 6   // dump --verify found damage
	exitWarnings    exitCode = 7   // doctor found warnings and no errors
	exitErrors      exitCode = 8   // doctor found errors
	exitInterrupted exitCode = 130 // as shells count SIGINT
)

// failure is how a command ends when it did not do what was asked.
type failure struct {
	code  exitCode
	cause error
	hint  string // what to do next; may be empty
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// usageErrorf is a failure of the command line itself.
func usageErrorf(format string, arguments ...any) error {
	return &failure{code: exitUsage, cause: fmt.Errorf(format, arguments...)}
}

// usageFailure turns cobra's complaint into a failure that says where help is.
func usageFailure(err error, command *cobra.Command) *failure {
	text := strings.TrimSpace(err.Error())
	if number, is := errors.AsType[*strconv.NumError](err); is {
		text = strings.TrimSuffix(text, number.Error()) + wantedNumber(number)
	}
	hint := "see: " + command.CommandPath() + " --help"
	return &failure{code: exitUsage, cause: errors.New(text), hint: hint}
}

// wantedNumber says what is wrong with the value of a flag in place of strconv,
// whose own words name one of its functions.
func wantedNumber(err *strconv.NumError) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	case err.Func == "ParseBool":
		return "neither true nor false"
	case err.Func == "ParseFloat":
		return "not a number"
	}
	return "not a whole number"
}

// reportFailure prints a failure to standard error, in the form asked for.
func (app *application) reportFailure(f *failure) {
	if app.json {
		line, err := json.Marshal(struct {
			Error    string   `json:"error"`
			Hint     string   `json:"hint,omitempty"`
			ExitCode exitCode `json:"exit_code"`
		}{f.Error(), f.hint, f.code})
		if err == nil {
			fmt.Fprintf(app.errorOutput, "%s\n", line)
			return
		}
	}
	fmt.Fprintf(app.errorOutput, "ringlog: %v\n", f)
	for line := range strings.Lines(f.hint) {
		fmt.Fprintf(app.errorOutput, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// explain gives any error of a command its exit code and what to do next.
func (app *application) explain(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var kafka *kerr.Error
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{code: exitInterrupted, cause: errors.New("interrupted")}
	case errors.As(err, &kafka):
		return explainKafka(err, kafka)
	case isUnreachable(err):
		return &failure{exitUnreachable, fmt.Errorf("no answer from a broker at %s: %w", app.brokers, err), unreachableHint}
	}
	return &failure{code: exitFailed, cause: err}
}

// isUnreachable says whether an error means that nobody answered, as opposed to
// answering with an error.
func isUnreachable(err error) bool {
	var operation *net.OpError
	var name *net.DNSError
	return errors.As(err, &operation) || errors.As(err, &name) || errors.Is(err, io.EOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

const unreachableHint = "is a broker running there? start one: ringlog serve\n" +
	"is it elsewhere? name it: --brokers host:port, or RINGLOG_BROKERS=host:port"

// explainKafka says what a broker's error code means for the person at the
// keyboard.
func explainKafka(err error, kafka *kerr.Error) *failure {
	f := &failure{code: exitRefused, cause: err, hint: kafkaHints[kafka.Code]}
	switch {
	case errors.Is(kafka, kerr.UnknownTopicOrPartition), errors.Is(kafka, kerr.UnknownTopicID):
		f.code = exitNotFound
	case f.hint == "" && kafka.Retriable:
		f.hint = "this may pass: try again"
	}
	return f
}

var kafkaHints = map[int16]string{
	kerr.UnknownTopicOrPartition.Code: "see which topics there are: ringlog topic list",
	kerr.TopicAlreadyExists.Code:      "to go on when it is there already: --if-not-exists",
	kerr.InvalidTopicException.Code:   "a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ -",
	kerr.InvalidPartitions.Code:       "ask for 1 or more partitions; a topic never loses any",
	kerr.InvalidReplicationFactor.Code: "there are fewer brokers than replicas asked for: " +
		"leave --replication-factor out to take the broker's default",
	kerr.InvalidConfig.Code: "the names and values are those of Kafka's topic configuration, such as retention.ms=86400000",
	kerr.MessageTooLarge.Code: "the limits are the topic's max.message.bytes and this command's --batch-bytes; " +
		"of large things keep the bytes elsewhere and send their name",
	kerr.RecordListTooLarge.Code:           "send smaller batches: --batch-bytes",
	kerr.NotEnoughReplicas.Code:            "fewer replicas are in sync than the topic's min.insync.replicas: wait for brokers to return",
	kerr.NotEnoughReplicasAfterAppend.Code: "the records are stored, but not on min.insync.replicas brokers: sending them again may store them twice",
	kerr.InvalidTimestamp.Code:             "the topic takes timestamps within message.timestamp.before.max.ms and message.timestamp.after.max.ms of now",
	kerr.KafkaStorageError.Code: "the broker's disk failed under this partition, and what is not durable is refused: " +
		"look at the broker's log, mend the disk, restart",
	kerr.OffsetOutOfRange.Code: "see which offsets there are: ringlog topic describe TOPIC",
	kerr.CorruptMessage.Code:   "the bytes were changed on the way or on disk: look at the broker's log",
}
