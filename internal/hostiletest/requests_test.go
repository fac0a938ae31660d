package hostiletest

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// victim is the topic that requests name, and doomed one that does not exist, for those who delete
// what they name. Neither is a byte or two away from the topic of the healthy clients.
const (
	victim = "victim"
	doomed = "doomed"
)

// author makes requests that are valid, as far as one can be without knowing what it means:
// every list has elements, every string is a name.
type author struct {
	topicID [16]byte
	name    string
	batch   []byte
}

// request returns a request of a key and version, filled.
func (a author) request(key, version int16) kmsg.Request {
	a.name = victim
	if kmsg.Key(key) == kmsg.DeleteTopics || kmsg.Key(key) == kmsg.DeleteGroups {
		a.name = doomed
	}
	request := kmsg.RequestForKey(key)
	a.fill("", reflect.ValueOf(request).Elem())
	request.SetVersion(version)
	return request
}

// meanings are the fields whose values matter: with others a request would be refused before anybody
// looked further, would wait, or would change more than it is to.
var meanings = map[string]any{
	"Acks": int16(1), "TimeoutMillis": int32(1000), "Partition": int32(0), "Records": nil,
	"ReplicaID": int32(-1), "MaxWaitMillis": int32(0), "SessionID": int32(0), "SessionEpoch": int32(-1), "IsolationLevel": int8(0),
	"FetchOffset": int64(0), "CurrentLeaderEpoch": int32(-1), "LastFetchedEpoch": int32(-1), "Timestamp": int64(-1), "Offset": int64(0),
	"AllowAutoTopicCreation": false, "ValidateOnly": true, "NodeID": int32(-1), "ClusterID": (*string)(nil),
	"TransactionID": (*string)(nil), "TransactionalID": (*string)(nil), "ReplicaAssignment": nil, "Assignment": nil,
	"NumPartitions": int32(1), "ReplicationFactor": int16(1), "Count": int32(2), "Topic": nil,
	"SessionTimeoutMillis": int32(10_000), "RebalanceTimeoutMillis": int32(1000),
}

// fill fills a field of a request, and all below it.
func (a author) fill(field string, value reflect.Value) {
	if meaning, known := meanings[field]; known && meaning != nil {
		if of := reflect.ValueOf(meaning); of.Type() == value.Type() {
			value.Set(of)
			return
		}
	}
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int8:
		value.SetInt(2) // a topic, among the types of resources
	case reflect.Int16, reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.String:
		value.SetString(a.name)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		a.fill(field, value.Elem())
	case reflect.Array:
		reflect.Copy(value, reflect.ValueOf(a.topicID))
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes(a.batch)
			return
		}
		if field == "ReplicaAssignment" || field == "Assignment" && value.Type().Elem().Kind() == reflect.Struct {
			return // by hand, beside a number of partitions: a contradiction
		}
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		for i := range 2 {
			a.fill(field, value.Index(i))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if of := value.Type().Field(i); of.IsExported() && of.Name != "Version" && of.Name != "UnknownTags" {
				a.fill(of.Name, value.Field(i))
			}
		}
	}
}

// newBatch is a batch of format 2 whose records are what they are, compressed by the codec with that
// number. count is what its header says.
func newBatch(codec int16, count int32, records []byte) []byte {
	batch := kmsg.RecordBatch{Magic: 2, Attributes: codec, LastOffsetDelta: count - 1, PartitionLeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: count, Records: records}
	const lengthAt, crcAt, afterCRC = 8, 17, 21
	bytes := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(bytes[lengthAt:], uint32(len(bytes)-lengthAt-4))
	binary.BigEndian.PutUint32(bytes[crcAt:], crc32.Checksum(bytes[afterCRC:], crc32.MakeTable(crc32.Castagnoli)))
	return bytes
}

// newRecord is a record with a value, the one with that number in its batch.
func newRecord(number int32, value []byte) []byte {
	record := kmsg.Record{OffsetDelta: number, Value: value}
	body := record.AppendTo(nil)[1:] // a length of 0 takes a byte
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// plainBatch is a batch of one record.
func plainBatch(value string) []byte { return newBatch(0, 1, newRecord(0, []byte(value))) }

// produce is a request with one batch for a partition of the victim.
func produce(batch []byte) *kmsg.ProduceRequest {
	request := at(9, kmsg.NewPtrProduceRequest())
	request.Acks, request.TimeoutMillis = 1, 1000
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, partition.Records = victim, batch
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	return request
}

// fetch is a request for what the victim has from an offset on.
func fetch(offset int64, waitMillis, bytesMin, bytesMax int32) *kmsg.FetchRequest {
	request := at(12, kmsg.NewPtrFetchRequest())
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionEpoch = waitMillis, bytesMin, bytesMax, -1
	topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, partition.FetchOffset, partition.PartitionMaxBytes = victim, offset, bytesMax
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	return request
}
