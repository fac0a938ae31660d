package meta

// AppendImage appends the image as one frame to dst: a snapshot. The same image
// gives the same bytes on every broker. ControllerID is no part of it.
func AppendImage(dst []byte, image *Image) []byte {
	version := frameVersionOf(kindSnapshot)
	if len(image.groupConfigs) > 0 { // groups had no configurations before
		version = frameVersionGroups
	}
	e := encoder{beginFrame(dst, version, kindSnapshot)}
	e.text(image.ClusterID)
	e.unsigned(image.Index)
	e.unsigned(image.placements)
	e.signed(image.nextProducerID)
	e.count(len(image.brokers))
	for _, broker := range image.brokers {
		encodeBroker(&e, broker)
	}
	e.count(len(image.topics))
	for _, topic := range image.topics {
		encodeTopic(&e, topic)
	}
	e.count(len(image.tombstones))
	for _, tombstone := range image.tombstones {
		e.id(tombstone.LogID)
		e.text(tombstone.Label)
		e.int32s(tombstone.Brokers)
	}
	e.count(len(image.brokerConfigs))
	for _, configs := range image.brokerConfigs {
		e.signed(int64(configs.ID))
		e.texts(configs.Configs)
	}
	if version >= frameVersionGroups {
		e.count(len(image.groupConfigs))
		for _, configs := range image.groupConfigs {
			e.text(configs.Group)
			e.texts(configs.Configs)
		}
	}
	return endFrame(e.dst, len(dst))
}

// DecodeImage reads a frame that AppendImage wrote. It returns ErrNewerFormat
// or a *CorruptionError; the image holds no reference to data.
func DecodeImage(data []byte) (*Image, error) {
	kind, version, err := openFrame("snapshot", data)
	if err != nil {
		return nil, err
	}
	d := &decoder{what: "snapshot", data: data, at: frameHeader, version: version}
	if kind != kindSnapshot {
		d.at = 3
		d.fail("it is a command")
	}
	image := NewImage()
	image.ClusterID = d.text()
	image.Index = d.unsigned()
	image.placements = d.unsigned()
	image.nextProducerID = d.signed()
	if image.nextProducerID < 0 {
		d.fail("the next producer id is negative")
	}
	for range d.count(brokerBytesMin) {
		image.brokers = append(image.brokers, decodeBroker(d))
	}
	decodeTopics(d, image)
	for range d.count(tombstoneBytesMin) {
		image.tombstones = append(image.tombstones, &Tombstone{LogID: d.id(), Label: d.text(), Brokers: d.int32s()})
	}
	if version >= 2 { // brokers had no dynamic configurations before
		for range d.count(brokerConfigsBytesMin) {
			image.brokerConfigs = append(image.brokerConfigs, &BrokerConfigs{ID: d.int32(), Configs: d.texts()})
		}
	}
	if version >= frameVersionGroups {
		for range d.count(groupConfigsBytesMin) {
			image.groupConfigs = append(image.groupConfigs, &GroupConfigs{Group: d.text(), Configs: d.texts()})
		}
	}
	checkOrder(d, image)
	if err := d.finish(); err != nil {
		return nil, err
	}
	return image, nil
}

// The shortest form of each element, by which the decoder bounds counts.
const (
	brokerBytesMin        = 1 + 1 + 1 + 1 + 1 + 1 + 16
	topicBytesMin         = 1 + 16 + 1 + 1 + 1
	partitionBytesMin     = 16 + 1 + 1 + 1 + 1 + 1
	tombstoneBytesMin     = 16 + 1 + 1
	brokerConfigsBytesMin = 1 + 1 + 2
	groupConfigsBytesMin  = 1 + 1 + 1 + 2
)

func encodeBroker(e *encoder, broker *Broker) {
	e.signed(int64(broker.ID))
	e.text(broker.Host)
	e.signed(int64(broker.Port))
	e.optionalText(broker.Rack)
	e.signed(broker.Epoch)
	e.signed(int64(broker.LeaderEpoch))
	e.id(broker.DirectoryID)
}

func decodeBroker(d *decoder) *Broker {
	return &Broker{ID: d.int32(), Host: d.text(), Port: d.int32(), Rack: d.optionalText(), Epoch: d.signed(),
		LeaderEpoch: d.int32(), DirectoryID: d.id()}
}

func encodeTopic(e *encoder, topic *Topic) {
	e.text(topic.Name)
	e.id(topic.ID)
	e.texts(topic.Configs)
	e.boolean(topic.Internal)
	e.count(len(topic.Partitions))
	for n := range topic.Partitions {
		partition := &topic.Partitions[n]
		e.id(partition.LogID)
		e.signed(int64(partition.Leader))
		e.signed(int64(partition.LeaderEpoch))
		e.signed(int64(partition.PartitionEpoch))
		e.int32s(partition.Replicas)
		e.int32s(partition.ISR)
	}
}

func decodeTopic(d *decoder) *Topic {
	topic := &Topic{Name: d.text(), ID: d.id(), Configs: d.texts(), Internal: d.boolean()}
	topic.Partitions = make([]Partition, d.count(partitionBytesMin))
	if len(topic.Partitions) == 0 {
		d.fail("a topic has no partition")
	}
	for n := range topic.Partitions {
		partition := &topic.Partitions[n]
		*partition = Partition{ID: int32(n), LogID: d.id(), Leader: d.int32(), LeaderEpoch: d.int32(),
			PartitionEpoch: d.int32(), Replicas: d.int32s(), ISR: d.int32s()}
		if len(partition.Replicas) == 0 {
			d.fail("a partition has no replica")
		}
	}
	return topic
}

// decodeTopics reads the topics and builds all that is derived from them.
func decodeTopics(d *decoder, image *Image) {
	byName, byID, collisions := image.topicsByName.edit(), image.topicsByID.edit(), image.collisions.edit()
	image.replicas = make(map[int32]int)
	for range d.count(topicBytesMin) {
		topic := decodeTopic(d)
		if d.err != nil {
			return
		}
		if _, there := byID.next.getBytes(topic.ID[:]); there {
			d.fail("two topics have one id")
			return
		}
		image.topics = append(image.topics, topic)
		byName.put(topic.Name, topic)
		byID.put(string(topic.ID[:]), topic)
		collisions.put(collisionName(topic.Name), topic.Name)
		image.partitions += len(topic.Partitions)
		for n := range topic.Partitions {
			for _, broker := range topic.Partitions[n].Replicas {
				image.replicas[broker]++
			}
		}
	}
	image.topicsByName, image.topicsByID, image.collisions = byName.done(), byID.done(), collisions.done()
}

// checkOrder makes sure that what is searched by halving is in order.
func checkOrder(d *decoder, image *Image) {
	for n := 1; n < len(image.brokers); n++ {
		if image.brokers[n-1].ID >= image.brokers[n].ID {
			d.fail("the brokers are out of order")
		}
	}
	for n := 1; n < len(image.topics); n++ {
		if image.topics[n-1].Name >= image.topics[n].Name {
			d.fail("the topics are out of order")
		}
	}
	for n, tombstone := range image.tombstones {
		if n > 0 && compareTombstones(image.tombstones[n-1], tombstone) >= 0 {
			d.fail("the tombstones are out of order")
		}
		if len(tombstone.Brokers) == 0 {
			d.fail("a tombstone waits for no broker")
		}
	}
	for n, configs := range image.brokerConfigs {
		if n > 0 && image.brokerConfigs[n-1].ID >= configs.ID {
			d.fail("the brokers' configurations are out of order")
		}
		if len(configs.Configs) == 0 || configs.ID < EveryBroker {
			d.fail("a broker's configurations are none, or of no broker")
		}
	}
	for n, configs := range image.groupConfigs {
		if n > 0 && image.groupConfigs[n-1].Group >= configs.Group {
			d.fail("the groups' configurations are out of order")
		}
		if len(configs.Configs) == 0 || configs.Group == "" {
			d.fail("a group's configurations are none, or of no group")
		}
	}
}
