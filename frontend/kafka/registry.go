package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the registry: what is served of an API key.
type api struct {
	key kmsg.Key
	// min and max are the versions that are handled.
	min, max int16
	// flexibleMin is the first flexible version (KIP-482).
	flexibleMin int16

	// receive handles APIs that decode their own frames: Produce and Fetch. It
	// runs in Session.Receive and must not block.
	receive func(s *session, request *request) error
	// hasBytes says that requests have fields of bytes, which the handler keeps.
	hasBytes bool
	// handle answers all others, in a goroutine of its own.
	handle func(ctx context.Context, c *call) kmsg.Response

	// answerBytes says what an answer may hold on the heap while it is made, for APIs whose answers
	// are out of proportion to their requests; see answer_bytes.go.
	answerBytes func(c *call) int64
	// waitsForOthers says that a handler may wait for requests of other clients.
	waitsForOthers bool
}

// apiKeyLimit bounds the keys that the registry can hold.
const apiKeyLimit = 96

// registry is everything that is served, by key. ApiVersions, the dispatch and
// the metrics read it; nothing else knows what exists. It is filled by init
// (handlers read it, so an initializer would be a cycle) and constant after.
var registry [apiKeyLimit]*api

func init() {
	for _, row := range []api{
		hot(kmsg.Produce, 0, 13, receiveProduce),
		hot(kmsg.Fetch, 4, 18, receiveFetch),
		control(kmsg.ListOffsets, 1, 11, listOffsets),
		control(kmsg.Metadata, 0, 13, metadata),
		control(kmsg.OffsetCommit, 2, 10, offsetCommit),
		control(kmsg.OffsetFetch, 1, 10, offsetFetch),
		control(kmsg.FindCoordinator, 0, 6, findCoordinator),
		control(kmsg.JoinGroup, 0, 9, joinGroup).withBytes(),
		control(kmsg.Heartbeat, 0, 4, heartbeat),
		control(kmsg.LeaveGroup, 0, 5, leaveGroup),
		control(kmsg.SyncGroup, 0, 5, syncGroup).withBytes(),
		control(kmsg.DescribeGroups, 0, 6, describeGroups),
		control(kmsg.ListGroups, 0, 5, listGroups),
		control(kmsg.ApiVersions, 0, 5, apiVersions),
		control(kmsg.CreateTopics, 2, 7, createTopics),
		control(kmsg.DeleteTopics, 1, 6, deleteTopics),
		control(kmsg.DeleteRecords, 0, 2, deleteRecords),
		control(kmsg.InitProducerID, 0, 5, initProducerID),
		control(kmsg.OffsetForLeaderEpoch, 2, 4, offsetForLeaderEpoch),
		control(kmsg.DescribeACLs, 1, 3, describeACLs),
		control(kmsg.CreateACLs, 1, 3, createACLs),
		control(kmsg.DeleteACLs, 1, 3, deleteACLs),
		control(kmsg.DescribeConfigs, 1, 4, describeConfigs),
		control(kmsg.AlterConfigs, 0, 2, alterConfigs),
		control(kmsg.IncrementalAlterConfigs, 0, 1, incrementalAlterConfigs),
		control(kmsg.DescribeLogDirs, 1, 5, describeLogDirs),
		control(kmsg.CreatePartitions, 0, 3, createPartitions),
		control(kmsg.DeleteGroups, 0, 3, deleteGroups),
		control(kmsg.ElectLeaders, 0, 2, electLeaders),
		control(kmsg.ListPartitionReassignments, 0, 0, listPartitionReassignments),
		control(kmsg.OffsetDelete, 0, 0, offsetDelete),
		control(kmsg.DescribeQuorum, 0, 2, describeQuorum),
		control(kmsg.DescribeCluster, 0, 2, describeCluster),
		control(kmsg.DescribeProducers, 0, 0, describeProducers),
		control(kmsg.ListConfigResources, 0, 1, listConfigResources),
		control(kmsg.ConsumerGroupHeartbeat, 0, 1, consumerGroupHeartbeat),
		control(kmsg.ConsumerGroupDescribe, 0, 1, consumerGroupDescribe),
		control(kmsg.DescribeTopicPartitions, 0, 0, describeTopicPartitions),
	} {
		if registry[row.key] != nil {
			panic(fmt.Sprintf("kafka: API %s is registered twice", row.key.Name()))
		}
		row.flexibleMin = flexibleMin(row.key)
		row.answerBytes = answerBytes[row.key]
		row.waitsForOthers = row.key == kmsg.JoinGroup || row.key == kmsg.SyncGroup
		registry[row.key] = &row
	}
}

// hot is a row for an API with a decoder of its own.
func hot(key kmsg.Key, min, max int16, receive func(*session, *request) error) api {
	return api{key: key, min: min, max: max, receive: receive}
}

// control is a row for an API that kmsg decodes and encodes. handle gets the
// request and fills the response, which has the request's version already.
func control[Q kmsg.Request, R kmsg.Response](key kmsg.Key, min, max int16, handle func(context.Context, *call, Q, R)) api {
	return api{key: key, min: min, max: max, handle: func(ctx context.Context, c *call) kmsg.Response {
		response := c.body.ResponseKind()
		handle(ctx, c, c.body.(Q), response.(R))
		return response
	}}
}

// withBytes says that requests of the API have fields of bytes.
func (a api) withBytes() api {
	a.hasBytes = true
	return a
}

// lookup returns the row of a key, or nil.
func lookup(key int16) *api {
	if key < 0 || key >= apiKeyLimit {
		return nil
	}
	return registry[key]
}

// flexible reports whether requests of that key and version have header v2. A
// version that is not served is flexible when the API has any flexible version:
// that is how a client that is newer than this broker asks for ApiVersions.
func flexible(key, version int16) bool {
	row := lookup(key)
	return row != nil && version >= row.flexibleMin
}

// flexibleMin finds the first flexible version of an API.
func flexibleMin(key kmsg.Key) int16 {
	request := kmsg.RequestForKey(int16(key))
	for version := int16(0); version <= request.MaxVersion(); version++ {
		request.SetVersion(version)
		if request.IsFlexible() {
			return version
		}
	}
	return request.MaxVersion() + 1
}
