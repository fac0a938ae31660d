package kafka

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/broker/brokertest"
	"ringlog/meta"
	"ringlog/record"
)

// everyVersion calls f for each version of a key that is advertised.
func everyVersion(t *testing.T, key kmsg.Key, f func(t *testing.T, version int16)) {
	t.Helper()
	row := lookup(int16(key))
	for version := row.min; version <= row.max; version++ {
		t.Run(fmt.Sprintf("%s v%d", key.Name(), version), func(t *testing.T) { f(t, version) })
	}
}

// Whatever ApiVersions names is answered in the layout of its version: kmsg
// encodes each request and decodes each answer down to the last byte.
func TestEveryAdvertisedVersionIsAnsweredInItsOwnLayout(t *testing.T) {
	s := newScene(t, Options{})
	topic := brokertest.CreateTopic(t, s.broker, "orders", 2, nil)
	names := []string{"orders", "missing"}
	stranger := meta.TopicID{1, 2, 3}

	requests := map[kmsg.Key]func(version int16) kmsg.Request{
		kmsg.Produce: func(version int16) kmsg.Request {
			r := produceRequest(version, "orders", topic.ID, batch(record.CodecNone, "a", "b"))
			missing := produceRequest(version, "missing", stranger, batch(record.CodecNone, "c"))
			r.Topics = append(r.Topics, missing.Topics...)
			return r
		},
		kmsg.Fetch: func(version int16) kmsg.Request {
			r := fetchRequest(version, "orders", topic.ID, 0)
			missing := fetchRequest(version, "missing", stranger, 0)
			r.Topics = append(r.Topics, missing.Topics...)
			return r
		},
		kmsg.ListOffsets: func(int16) kmsg.Request {
			r := kmsg.NewPtrListOffsetsRequest()
			for _, name := range names {
				asked := kmsg.NewListOffsetsRequestTopic()
				asked.Topic = name
				for _, timestamp := range []int64{-1, -2, -3, 12345} {
					partition := kmsg.NewListOffsetsRequestTopicPartition()
					partition.Partition, partition.Timestamp = int32(len(asked.Partitions)), timestamp
					asked.Partitions = append(asked.Partitions, partition)
				}
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.Metadata: func(version int16) kmsg.Request {
			r := kmsg.NewPtrMetadataRequest()
			for i := range names {
				asked := kmsg.NewMetadataRequestTopic()
				asked.Topic = &names[i]
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.FindCoordinator: func(int16) kmsg.Request {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.CoordinatorKey, r.CoordinatorKeys = "readers", []string{"readers", "others"}
			return r
		},
		kmsg.OffsetCommit: func(int16) kmsg.Request {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.Generation = "readers", -1
			for n, name := range names {
				asked := kmsg.NewOffsetCommitRequestTopic()
				asked.Topic, asked.TopicID = name, [][16]byte{topic.ID, stranger}[n]
				asked.Partitions = append(asked.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.OffsetFetch: func(int16) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			of := kmsg.NewOffsetFetchRequestGroup()
			r.Group, of.Group = "readers", "readers"
			for n, name := range names {
				r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: []int32{0, 77}})
				of.Topics = append(of.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: [][16]byte{topic.ID, stranger}[n], Partitions: []int32{0, 77}})
			}
			r.Groups = append(r.Groups, of)
			return r
		},
		kmsg.OffsetDelete: func(int16) kmsg.Request {
			r := kmsg.NewPtrOffsetDeleteRequest()
			r.Group = "readers"
			for _, name := range names {
				asked := kmsg.NewOffsetDeleteRequestTopic()
				asked.Topic = name
				asked.Partitions = append(asked.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.ApiVersions: func(int16) kmsg.Request {
			r := kmsg.NewPtrApiVersionsRequest()
			r.ClientSoftwareName, r.ClientSoftwareVersion = "tester", "1.0"
			return r
		},
		kmsg.CreateTopics: func(version int16) kmsg.Request {
			r := kmsg.NewPtrCreateTopicsRequest()
			for _, name := range []string{"orders", fmt.Sprintf("made-by-v%d", version)} {
				asked := kmsg.NewCreateTopicsRequestTopic()
				asked.Topic, asked.NumPartitions, asked.ReplicationFactor = name, 1, 1
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DeleteTopics: func(version int16) kmsg.Request {
			doomed := fmt.Sprintf("doomed-%d", version)
			brokertest.CreateTopic(t, s.broker, doomed, 1, nil)
			r := kmsg.NewPtrDeleteTopicsRequest()
			r.TopicNames = []string{doomed, "missing"}
			for i := range r.TopicNames {
				asked := kmsg.NewDeleteTopicsRequestTopic()
				asked.Topic = &r.TopicNames[i]
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DeleteRecords: func(int16) kmsg.Request {
			r := kmsg.NewPtrDeleteRecordsRequest()
			for _, name := range names {
				asked := kmsg.NewDeleteRecordsRequestTopic()
				asked.Topic = name
				asked.Partitions = append(asked.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.InitProducerID: func(int16) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() },
		kmsg.OffsetForLeaderEpoch: func(int16) kmsg.Request {
			r := kmsg.NewPtrOffsetForLeaderEpochRequest()
			for _, name := range names {
				asked := kmsg.NewOffsetForLeaderEpochRequestTopic()
				asked.Topic = name
				asked.Partitions = append(asked.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DescribeConfigs: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeConfigsRequest()
			r.IncludeSynonyms, r.IncludeDocumentation = true, true
			for kind, name := range map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeTopic: "orders", kmsg.ConfigResourceTypeBroker: "1", kmsg.ConfigResourceTypeBrokerLogger: "1"} {
				asked := kmsg.NewDescribeConfigsRequestResource()
				asked.ResourceType, asked.ResourceName = kind, name
				r.Resources = append(r.Resources, asked)
			}
			return r
		},
		kmsg.AlterConfigs: func(int16) kmsg.Request {
			r := kmsg.NewPtrAlterConfigsRequest()
			for _, name := range names {
				asked := kmsg.NewAlterConfigsRequestResource()
				asked.ResourceType, asked.ResourceName = kmsg.ConfigResourceTypeTopic, name
				r.Resources = append(r.Resources, asked)
			}
			return r
		},
		kmsg.IncrementalAlterConfigs: func(int16) kmsg.Request {
			r := kmsg.NewPtrIncrementalAlterConfigsRequest()
			for _, name := range names {
				asked := kmsg.NewIncrementalAlterConfigsRequestResource()
				asked.ResourceType, asked.ResourceName = kmsg.ConfigResourceTypeTopic, name
				r.Resources = append(r.Resources, asked)
			}
			return r
		},
		kmsg.CreatePartitions: func(version int16) kmsg.Request {
			r := kmsg.NewPtrCreatePartitionsRequest()
			for _, name := range names {
				asked := kmsg.NewCreatePartitionsRequestTopic()
				asked.Topic, asked.Count = name, 3+int32(version)
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DescribeACLs: func(int16) kmsg.Request { return kmsg.NewPtrDescribeACLsRequest() },
		kmsg.CreateACLs: func(int16) kmsg.Request {
			r := kmsg.NewPtrCreateACLsRequest()
			r.Creations = append(r.Creations, kmsg.NewCreateACLsRequestCreation())
			return r
		},
		kmsg.DeleteACLs: func(int16) kmsg.Request {
			r := kmsg.NewPtrDeleteACLsRequest()
			r.Filters = append(r.Filters, kmsg.NewDeleteACLsRequestFilter())
			return r
		},
		kmsg.DescribeLogDirs: func(version int16) kmsg.Request {
			r := kmsg.NewPtrDescribeLogDirsRequest()
			for _, name := range names {
				asked := kmsg.NewDescribeLogDirsRequestTopic()
				asked.Topic, asked.Partitions = name, []int32{0, 1, 77}
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DescribeProducers: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeProducersRequest()
			for _, name := range names {
				asked := kmsg.NewDescribeProducersRequestTopic()
				asked.Topic, asked.Partitions = name, []int32{0, 77}
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.ListConfigResources: func(int16) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() },
		kmsg.DescribeTopicPartitions: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeTopicPartitionsRequest()
			for _, name := range names {
				asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
				asked.Topic = name
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DescribeQuorum: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeQuorumRequest()
			for _, name := range []string{metadataTopic, "orders"} {
				asked := kmsg.NewDescribeQuorumRequestTopic()
				asked.Topic = name
				asked.Partitions = append(asked.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.ListPartitionReassignments: func(int16) kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() },
		kmsg.ElectLeaders: func(int16) kmsg.Request {
			r := kmsg.NewPtrElectLeadersRequest()
			for _, name := range names {
				asked := kmsg.NewElectLeadersRequestTopic()
				asked.Topic, asked.Partitions = name, []int32{0, 77}
				r.Topics = append(r.Topics, asked)
			}
			return r
		},
		kmsg.DescribeCluster: func(int16) kmsg.Request {
			r := kmsg.NewPtrDescribeClusterRequest()
			r.EndpointType = endpointBrokers
			return r
		},
	}
	maps.Copy(requests, groupRequests())
	for _, row := range registry {
		if row == nil {
			continue
		}
		build, known := requests[row.key]
		if !known {
			t.Errorf("%s is advertised and not tested here", row.key.Name())
			continue
		}
		everyVersion(t, row.key, func(t *testing.T, version int16) {
			ask[kmsg.Response](s.client, at(version, build(version)))
		})
	}
	if in := s.pool.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of frames were not released", in)
	}
}

// kafka-map 2: a version above ours is answered in the layout of version 0 with
// UNSUPPORTED_VERSION and the key list; the header stays v0 (KIP-511).
func TestApiVersionsFromTheFutureIsAnsweredAsVersionZero(t *testing.T) {
	s := newScene(t, Options{})
	frame := s.frame(at(4, kmsg.NewPtrApiVersionsRequest()))
	frame[7] = 99
	if err := s.receive(frame); err != nil {
		t.Fatal(err)
	}
	zero := kmsg.NewPtrApiVersionsRequest()
	answer := decode(t, zero, s.next(zero)).(*kmsg.ApiVersionsResponse)
	if answer.ErrorCode != 35 {
		t.Errorf("error code %d, want UNSUPPORTED_VERSION (35)", answer.ErrorCode)
	}
	if got := s.protocol.Metrics().Errors[kmsg.ApiVersions].Load(); got != 0 {
		t.Errorf("a client that agrees on a version counts as %d errors, want 0", got)
	}
	served := make(map[int16][2]int16)
	for _, key := range answer.ApiKeys {
		served[key.ApiKey] = [2]int16{key.MinVersion, key.MaxVersion}
	}
	if got := served[18]; got != [2]int16{0, 5} {
		t.Errorf("ApiVersions is named with %v, want 0 to 5", got)
	}
	if got := served[0]; got != [2]int16{0, 13} {
		t.Errorf("Produce is named with %v, want 0 to 13 (KAFKA-18659)", got)
	}
}

// KIP-511: a client's software has a name and version of letters, digits, '-' and '.'.
func TestApiVersionsWantsASoundSoftwareName(t *testing.T) {
	s := newScene(t, Options{})
	for name, want := range map[string]int16{"apache-kafka-java": 0, "": 42, "-x": 42, "a b": 42} {
		request := at(3, kmsg.NewPtrApiVersionsRequest())
		request.ClientSoftwareName, request.ClientSoftwareVersion = name, "4.0.0"
		if got := ask[*kmsg.ApiVersionsResponse](s.client, request).ErrorCode; got != want {
			t.Errorf("software name %q: error code %d, want %d", name, got, want)
		}
	}
}

// Everything that is not served costs the connection: there is no layout to answer in.
func TestUnknownKeysAndVersionsCloseTheConnection(t *testing.T) {
	s := newScene(t, Options{})
	unknownKey := s.frame(at(4, kmsg.NewPtrApiVersionsRequest()))
	unknownKey[5] = 200
	negativeKey := s.frame(at(4, kmsg.NewPtrApiVersionsRequest()))
	negativeKey[4] = 0xff
	newFetch := s.frame(fetchRequest(18, "t", [16]byte{}, 0))
	newFetch[7] = 19
	for name, frame := range map[string][]byte{"unknown key": unknownKey, "negative key": negativeKey, "Fetch v19": newFetch} {
		if err := s.receive(frame); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if in := s.pool.InUseBytes(); in != 0 {
		t.Errorf("%d bytes of frames were not released", in)
	}
}

// docs/kafka.md is the list of what is served, for people.
func TestTheDocumentationListsWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.Trim(cells[1], " 0123456789") == "" {
			rows = append(rows, strings.Join([]string{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}, " "))
		}
	}
	var want []string
	for _, row := range registry {
		switch {
		case row == nil:
		case row.min == row.max:
			want = append(want, fmt.Sprintf("%d %s %d", row.key, row.key.Name(), row.min))
		default:
			want = append(want, fmt.Sprintf("%d %s %d-%d", row.key, row.key.Name(), row.min, row.max))
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("docs/kafka.md lists\n%s\nserved is\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
}
