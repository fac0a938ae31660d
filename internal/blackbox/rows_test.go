package blackbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ringlog/internal/ringlogtest"
)

func TestMain(m *testing.M) { ringlogtest.Main(m) }

// row is one row of docs/black-box.md.
type row struct {
	number int
	name   string // of the test: what must be so
	clause string // what says that it must
	story  func(*stage)
	// forgetful rows play on a broker that looks at retention and forgets producers in
	// moments instead of minutes and days.
	forgetful bool
}

// rows are all rows whose symptom can be had today. docs/black-box.md says of the others
// what they wait for.
var rows = []row{
	{number: 1, name: "no record is late enough", clause: "KIP-79: offset -1 and timestamp -1 without an error", story: noRecordIsLateEnough},
	{number: 2, name: "a time is found inside a batch", clause: "KIP-79: the first record whose timestamp is at least the one asked for", story: aTimeIsFoundInsideABatch},
	{number: 3, name: "a time between two records", clause: "KIP-79", story: aTimeBetweenTwoRecords},
	{number: 4, name: "a time with LogAppendTime", clause: "KIP-32: every record has the timestamp of its batch", story: aTimeWithLogAppendTime},
	{number: 5, name: "ListOffsets v0 is not offered", clause: "KIP-896: the lowest version is 1", story: listOffsetsZeroIsNotOffered},
	{number: 7, name: "the largest timestamp", clause: "KIP-734: -3 is the first record that carries it; -1 of an empty log", story: theLargestTimestamp},
	{number: 16, name: "a repeated batch is answered with its offset", clause: "KIP-98: the last five batches of a producer are known", story: aRepeatedBatchIsAnsweredWithItsOffset},
	{number: 17, name: "sarama's idempotent producer", clause: "KIP-98: a sequence counts records, not batches", story: saramasIdempotentProducer},
	{number: 18, name: "a producer outlives its records", clause: "KIP-360: of a producer that is not known any sequence is taken", story: aProducerOutlivesItsRecords, forgetful: true},
	{number: 19, name: "a new epoch begins at sequence 0", clause: "KIP-360; INVALID_PRODUCER_EPOCH for the old one", story: aNewEpochBeginsAtSequenceZero},
	{number: 22, name: "a client's control batch", clause: "KIP-98: control batches are the broker's; INVALID_RECORD", story: aClientsControlBatch},
	{number: 23, name: "records that do not fit their batch", clause: "KAFKA-13149: INVALID_RECORD, not an unknown error", story: recordsThatDoNotFitTheirBatch},
	{number: 24, name: "a checksum that is wrong", clause: "CORRUPT_MESSAGE, and the connection goes on", story: aChecksumThatIsWrong},
	{number: 25, name: "a client that leaves in the middle of a large batch", clause: "the partition takes the next produce", story: aClientThatLeavesInTheMiddle},
	{number: 26, name: "batches that compaction emptied", clause: "KIP-98: an empty batch keeps its offsets and its sequence", story: batchesThatCompactionEmptied},
	{number: 28, name: "a batch above the limits of a fetch", clause: "KIP-74: the first batch is whole, the next ones are within the limits", story: aBatchAboveTheLimits},
	{number: 29, name: "records are never null", clause: "FetchResponse: Records is empty when there are none (KAFKA-18646)", story: recordsAreNeverNull},
	{number: 30, name: "kafka-go reads an empty topic", clause: "a fetch that times out is a whole answer without records", story: kafkaGoReadsAnEmptyTopic},
	{number: 31, name: "zstd and old versions", clause: "KIP-110: Produce before 7 and Fetch before 10 are UNSUPPORTED_COMPRESSION_TYPE", story: zstdAndOldVersions},
	{number: 32, name: "a fetch waits as long as it may and no longer", clause: "FetchRequest: MaxWaitMs, MinBytes", story: aFetchWaitsAsLongAsItMay},
	{number: 33, name: "LogAppendTime is in the answer", clause: "KIP-32: LogAppendTimeMs, -1 with CreateTime", story: logAppendTimeIsInTheAnswer},
	{number: 34, name: "LogAppendTime is the present", clause: "KIP-32", story: logAppendTimeIsThePresent},
	{number: 35, name: "clocks of producers and retention", clause: "a timestamp neither pins a segment nor expires it early", story: clocksOfProducersAndRetention, forgetful: true},
	{number: 36, name: "the bounds of DeleteRecords", clause: "KIP-107: -1 is the high watermark, below the start is no change, above the high watermark OFFSET_OUT_OF_RANGE", story: theBoundsOfDeleteRecords},
	{number: 37, name: "a fetch from the middle of a batch", clause: "KIP-107: the batch comes whole, the client skips", story: aFetchFromTheMiddleOfABatch},
	{number: 38, name: "retention overtakes consumers", clause: "OFFSET_OUT_OF_RANGE, and auto.offset.reset decides", story: retentionOvertakesConsumers, forgetful: true},
	{number: 39, name: "more replicas than brokers", clause: "INVALID_REPLICATION_FACTOR (38)", story: moreReplicasThanBrokers},
	{number: 40, name: "too many partitions", clause: "POLICY_VIOLATION (44) with a message, for every topic of the request", story: tooManyPartitions},
	{number: 42, name: "configurations and where they come from", clause: "KIP-226: all names, synonyms, DEFAULT_CONFIG after a delete", story: configurationsAndWhereTheyComeFrom},
	{number: 43, name: "all topics, no topics, new topics", clause: "MetadataRequest: null is all, empty is none, in v0 empty is all; AllowAutoTopicCreation from v4 on", story: allTopicsNoTopicsNewTopics},
	{number: 44, name: "ApiVersions from the future", clause: "KIP-511: UNSUPPORTED_VERSION in the layout of v0, with the list of keys", story: apiVersionsFromTheFuture},
	{number: 45, name: "clients of every age", clause: "KIP-896: 2.1 and later; here 0.11 and later", story: clientsOfEveryAge},
	{number: 46, name: "topics by name and by id", clause: "KIP-516: Metadata names an id from v10 on, Fetch v13 and Produce v13 want it", story: topicsByNameAndByID},
	{number: 47, name: "a topic is created anew under its consumer", clause: "KIP-516: UNKNOWN_TOPIC_ID for the old one", story: aTopicIsCreatedAnew},
	{number: 48, name: "a session forgets by id", clause: "KIP-227, KIP-516 (KAFKA-13079)", story: aSessionForgetsByID},
}

// TestBlackBox plays all rows on two brokers.
func TestBlackBox(t *testing.T) {
	usual := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{"--set", "log.cleaner.backoff.ms=50"}})
	forgetful := ringlogtest.Start(t, ringlogtest.Options{Flags: []string{
		"--set", "log.retention.check.interval.ms=50",
		"--set", "producer.id.expiration.ms=1000",
	}})
	for _, r := range rows {
		t.Run(fmt.Sprintf("row %d %s", r.number, r.name), func(t *testing.T) {
			t.Parallel()
			s := &stage{T: t, broker: usual, topic: fmt.Sprintf("row-%d", r.number)}
			if r.forgetful {
				s.broker = forgetful
			}
			r.story(s)
		})
	}
}

// docs/black-box.md has the rows above, in this order, and no other that claims a test.
func TestTheDocumentationHasEveryRow(t *testing.T) {
	text, err := os.ReadFile("../../docs/black-box.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 5 || strings.Trim(cells[0], " 0123456789") != "" {
			continue
		}
		if test := strings.TrimSpace(cells[3]); strings.HasPrefix(test, "waits for ") {
			continue
		}
		documented = append(documented, fmt.Sprintf("%s: %s: %s", strings.TrimSpace(cells[0]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])))
	}
	var played []string
	for _, r := range rows {
		played = append(played, fmt.Sprintf("%d: %s: %s", r.number, r.name, r.clause))
	}
	if !slices.Equal(documented, played) {
		t.Errorf("docs/black-box.md has\n%s\nplayed is\n%s", strings.Join(documented, "\n"), strings.Join(played, "\n"))
	}
}
