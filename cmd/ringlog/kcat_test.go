package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringlog/internal/ringlogtest"
)

// These stories are told by kcat, and so by librdkafka: the C client under most
// of the world's Kafka clients, and nobody's here. Each gets a topic of its own
// on one broker; those that stop or kill a broker start their own.

const kcatMissing = "kcat is not installed here, so librdkafka does not get to speak; scripts/install-test-tools.sh " +
	"installs it, and make check runs that first"

func TestMain(m *testing.M) { ringlogtest.Main(m) }

// kcat runs kcat against one broker.
type kcat struct {
	t       *testing.T
	address string
	topic   string
}

var notInTopicName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// newKcat returns a kcat for a new topic with so many partitions.
func newKcat(t *testing.T, broker *ringlogtest.Broker, partitions int, configs ...string) *kcat {
	t.Helper()
	requireKcat(t)
	k := &kcat{t: t, address: broker.Address, topic: notInTopicName.ReplaceAllString(t.Name(), "-")}
	arguments := []string{"topic", "create", k.topic, "--brokers", broker.Address, "--partitions", strconv.Itoa(partitions)}
	for _, config := range configs {
		arguments = append(arguments, "--config", config)
	}
	if _, complaint, code := (script{}).execute(t, strings.NewReader(""), arguments...); code != exitOK {
		t.Fatalf("creating topic %s: %s", k.topic, complaint)
	}
	return k
}

func requireKcat(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip(kcatMissing)
	}
}

// try runs kcat with an input and returns what it printed.
func (k *kcat) try(input string, arguments ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(k.t.Context(), 60*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "kcat", append([]string{"-b", k.address, "-m", "30", "-X", "broker.address.family=v4"}, arguments...)...)
	var out, complaint bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &complaint
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("kcat %s: %w\n%s", strings.Join(arguments, " "), err, complaint.String())
	}
	return out.String(), nil
}

// run is try for what must work.
func (k *kcat) run(input string, arguments ...string) string {
	k.t.Helper()
	output, err := k.try(input, arguments...)
	if err != nil {
		k.t.Fatal(err)
	}
	return output
}

// produce sends lines to the topic.
func (k *kcat) produce(lines string, arguments ...string) {
	k.t.Helper()
	k.run(lines, append([]string{"-P", "-t", k.topic}, arguments...)...)
}

// produceWhole sends one record of any bytes: kcat takes a file as one.
func (k *kcat) produceWhole(value []byte, arguments ...string) error {
	k.t.Helper()
	file := filepath.Join(k.t.TempDir(), "value")
	if err := os.WriteFile(file, value, 0o600); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.try("", append([]string{"-P", "-t", k.topic}, append(arguments, file)...)...)
	return err
}

// consume prints the topic in a format, up to its end.
func (k *kcat) consume(format string, arguments ...string) string {
	k.t.Helper()
	return k.run("", append([]string{"-C", "-q", "-e", "-X", "fetch.wait.max.ms=50", "-X", "check.crcs=true", "-t", k.topic, "-f", format}, arguments...)...)
}

// expect compares what a story led to with what it must lead to.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %.400q\nwant %.400q", what, got, want)
	}
}

// numbered returns the lines "from" to "to", each with a prefix.
func numbered(prefix string, from, to int) string {
	var lines strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&lines, "%s%d\n", prefix, i)
	}
	return lines.String()
}

func TestKcat(t *testing.T) {
	requireKcat(t)
	broker := ringlogtest.Start(t, ringlogtest.Options{})

	t.Run("metadata", func(t *testing.T) {
		k := newKcat(t, broker, 3)
		all := k.run("", "-L")
		if !strings.Contains(all, broker.Address) || !strings.Contains(all, `topic "`+k.topic+`" with 3 partitions`) {
			t.Errorf("the broker's address and the topic must be listed:\n%s", all)
		}
		one := k.run("", "-L", "-t", k.topic)
		for partition := range 3 {
			if want := fmt.Sprintf("partition %d, leader 1, replicas: 1, isrs: 1", partition); !strings.Contains(one, want) {
				t.Errorf("%q is missing:\n%s", want, one)
			}
		}
	})

	t.Run("a topic comes into being when it is first written to", func(t *testing.T) {
		k := &kcat{t: t, address: broker.Address, topic: "on-first-use"}
		k.produce("hello\n")
		expect(t, "what was sent", k.consume("%o %s\n"), "0 hello\n")
	})

	t.Run("records come back in order at dense offsets", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		k.produce(numbered("record ", 0, 4999))
		var want strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&want, "%d record %d\n", i, i)
		}
		expect(t, "the log", k.consume("%o %s\n"), want.String())
	})

	t.Run("keys, null and empty are three things", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		k.produce("key:value\n:empty key\nempty value:\n", "-K:")
		k.produce("no key\n")
		k.produce("tombstone:\n", "-K:", "-Z")
		expect(t, "lengths (-1 is null)", k.consume("%K %k|%S %s\n"),
			"3 key|5 value\n0 |9 empty key\n11 empty value|0 \n-1 |6 no key\n9 tombstone|-1 \n")
	})

	t.Run("headers keep their order, repeats and nulls", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		k.produce("x\n", "-H", "a=1", "-H", "b=", "-H", "c", "-H", "a=2")
		expect(t, "headers", k.consume("%h\n"), "a=1,b=,c=NULL,a=2\n")
	})

	t.Run("a value may be any bytes", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		random := rand.NewChaCha8([32]byte{1})
		value := make([]byte, 300_000)
		random.Read(value)
		if err := k.produceWhole(value); err != nil {
			t.Fatal(err)
		}
		got := k.consume("%s")
		if sha256.Sum256([]byte(got)) != sha256.Sum256(value) {
			t.Errorf("%d bytes came back changed as %d bytes", len(value), len(got))
		}
	})

	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run("codec "+codec, func(t *testing.T) {
			k := newKcat(t, broker, 1)
			lines := numbered("the same words again and again, and a number: ", 1, 3000)
			k.produce(lines, "-z", codec, "-X", "linger.ms=20")
			expect(t, "the log", k.consume("%s\n"), lines)
		})
	}

	t.Run("one partition may hold every codec", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		var want string
		for _, codec := range []string{"zstd", "none", "lz4", "gzip", "snappy"} {
			lines := numbered(codec+" ", 1, 200)
			k.produce(lines, "-z", codec)
			want += lines
		}
		expect(t, "the log", k.consume("%s\n"), want)
	})

	t.Run("a key stays in one partition", func(t *testing.T) {
		k := newKcat(t, broker, 4)
		for range 3 {
			var keyed strings.Builder
			for i := range 40 {
				fmt.Fprintf(&keyed, "key-%d\tvalue\n", i)
			}
			k.produce(keyed.String(), "-K", "\t", "-X", "partitioner=murmur2_random")
		}
		places := map[string]string{}
		for line := range strings.Lines(k.consume("%k %p\n")) {
			key, partition, _ := strings.Cut(strings.TrimSpace(line), " ")
			if before, again := places[key]; again && before != partition {
				t.Errorf("%s is in partitions %s and %s", key, before, partition)
			}
			places[key] = partition
		}
		if len(places) != 40 {
			t.Errorf("%d keys came back, not 40", len(places))
		}
	})

	t.Run("positions: offset, end, the last few", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		k.produce(numbered("", 0, 9))
		expect(t, "from offset 7", k.consume("%s ", "-p", "0", "-o", "7"), "7 8 9 ")
		expect(t, "the last two", k.consume("%s ", "-p", "0", "-o", "-2"), "8 9 ")
		expect(t, "from the end", k.consume("%s ", "-p", "0", "-o", "end"), "")
		expect(t, "three from the beginning", k.consume("%s ", "-p", "0", "-o", "beginning", "-c", "3"), "0 1 2 ")
		if output, err := k.try("", "-C", "-q", "-e", "-t", k.topic, "-p", "0", "-o", "99", "-X", "auto.offset.reset=error"); err == nil {
			t.Errorf("an offset past the end was read: %q", output)
		}
		if output, err := k.try("", "-C", "-q", "-e", "-t", k.topic, "-p", "7"); err == nil {
			t.Errorf("a partition that is not there was read: %q", output)
		}
	})

	t.Run("positions by time fall on records, not on batches", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		var lines strings.Builder
		for i := range 10 {
			fmt.Fprintf(&lines, `{"value":"%d","timestamp":"2026-01-01T00:00:0%dZ"}`+"\n", i, i)
		}
		_, complaint, code := (script{}).execute(t, strings.NewReader(lines.String()),
			"produce", k.topic, "--brokers", broker.Address, "--input", "json", "--linger", "50ms")
		if code != exitOK {
			t.Fatal(complaint)
		}
		second := func(n float64) string {
			at := time.Date(2026, 1, 1, 0, 0, 0, int(n*1e9), time.UTC)
			return strconv.FormatInt(at.UnixMilli(), 10)
		}
		ask := func(at string) string {
			_, offset, _ := strings.Cut(strings.TrimSpace(k.run("", "-Q", "-t", k.topic+":0:"+at)), "offset ")
			return offset
		}
		expect(t, "at second 4", ask(second(4)), "4")
		expect(t, "between 4 and 5", ask(second(4.5)), "5")
		expect(t, "before all", ask(second(-60)), "0")
		expect(t, "the end", ask("-1"), "10")
		expect(t, "the beginning", ask("-2"), "0")
		expect(t, "from second 8", k.consume("%s ", "-p", "0", "-o", "s@"+second(8)), "8 9 ")
		expect(t, "until second 2", k.consume("%s ", "-p", "0", "-o", "s@"+second(0), "-o", "e@"+second(2)), "0 1 ")
	})

	t.Run("timestamps are the producer's, or the broker's on request", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		before := time.Now().UnixMilli()
		k.produce("x\n")
		stamp, err := strconv.ParseInt(k.consume("%T"), 10, 64)
		if err != nil || stamp < before || stamp > time.Now().UnixMilli() {
			t.Errorf("timestamp %d, %v, is not between %d and now", stamp, err, before)
		}
		expect(t, "kind", tstype(k), "create")
		t.Run("broker", func(t *testing.T) {
			k := newKcat(t, broker, 1, "message.timestamp.type=LogAppendTime")
			k.produce("x\n", "-z", "lz4")
			expect(t, "kind", tstype(k), "logappend")
		})
	})

	t.Run("acks 0, 1 and all", func(t *testing.T) {
		k := newKcat(t, broker, 1)
		for _, acks := range []string{"0", "1", "all"} {
			k.produce(numbered("acks "+acks+": ", 1, 100), "-X", "acks="+acks)
		}
		// Nobody answers acks=0, but on one connection order holds: kcat closes it
		// only when the bytes are with the broker, and the next produce queues behind.
		expect(t, "the log", k.consume("%s\n"), numbered("acks 0: ", 1, 100)+numbered("acks 1: ", 1, 100)+numbered("acks all: ", 1, 100))
	})

	t.Run("an idempotent producer", func(t *testing.T) {
		k := newKcat(t, broker, 3)
		k.produce(numbered("", 1, 3000), "-X", "enable.idempotence=true", "-X", "batch.num.messages=10")
		lines := strings.Fields(k.consume("%s\n"))
		slices.SortFunc(lines, func(a, b string) int { return len(a)*10 - len(b)*10 + strings.Compare(a, b) })
		expect(t, "all records, once", strings.Join(lines, "\n")+"\n", numbered("", 1, 3000))
	})

	t.Run("a large record passes when the topic allows it, and not otherwise", func(t *testing.T) {
		large := bytes.Repeat([]byte("x"), 3_000_000)
		k := newKcat(t, broker, 1, "max.message.bytes=4000000")
		if err := k.produceWhole(large, "-X", "message.max.bytes=8000000"); err != nil {
			t.Fatal(err)
		}
		// One batch above the fetch limit is returned whole (KIP-74).
		expect(t, "its length", k.consume("%S", "-X", "fetch.message.max.bytes=100000"), "3000000")
		strict := &kcat{t: t, address: k.address, topic: "strict"}
		strict.produce("small\n")
		if err := strict.produceWhole(large, "-X", "message.max.bytes=8000000"); err == nil {
			t.Error("a record above max.message.bytes was taken")
		}
		expect(t, "what is stored", strict.consume("%s\n"), "small\n")
	})
}

// tstype returns who stamped the first record: create or logappend.
func tstype(k *kcat) string {
	envelope := k.run("", "-C", "-q", "-e", "-J", "-t", k.topic)
	_, after, _ := strings.Cut(envelope, `"tstype":"`)
	kind, _, _ := strings.Cut(after, `"`)
	return kind
}

// TestKcatAfterRestart: what was acknowledged is there after a clean stop and
// after SIGKILL, offsets go on where they were, and so do idempotent producers.
func TestKcatAfterRestart(t *testing.T) {
	requireKcat(t)
	for _, end := range []struct {
		name string
		stop func(*ringlogtest.Broker)
	}{
		{"stopped", (*ringlogtest.Broker).Stop},
		{"killed", (*ringlogtest.Broker).Kill},
	} {
		t.Run(end.name, func(t *testing.T) {
			broker := ringlogtest.Start(t, ringlogtest.Options{})
			k := newKcat(t, broker, 2, "segment.bytes=1048576", "max.message.bytes=900000")
			var want string
			for life := range 3 {
				lines := numbered(fmt.Sprintf("life %d, ", life), 1, 500)
				k.produce(lines, "-p", "0", "-X", "enable.idempotence=true")
				if err := k.produceWhole(bytes.Repeat([]byte("x"), 700_000), "-p", "1"); err != nil { // fills segments
					t.Fatal(err)
				}
				want += lines
				end.stop(broker)
				broker.Restart()
				expect(t, "partition 0", k.consume("%s\n", "-p", "0"), want)
				expect(t, "the next offset", k.run("", "-Q", "-t", k.topic+":0:-1"), fmt.Sprintf("%s [0] offset %d\n", k.topic, 500*(life+1)))
				expect(t, "partition 1", k.consume("%o %S\n", "-p", "1"), numberedLengths(life+1))
			}
		})
	}
}

func numberedLengths(count int) string {
	var lines strings.Builder
	for offset := range count {
		fmt.Fprintf(&lines, "%d 700000\n", offset)
	}
	return lines.String()
}
