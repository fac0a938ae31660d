package meta

func (FormatCluster) kind() commandKind       { return kindFormatCluster }
func (StartBroker) kind() commandKind         { return kindStartBroker }
func (CreateTopics) kind() commandKind        { return kindCreateTopics }
func (DeleteTopics) kind() commandKind        { return kindDeleteTopics }
func (RemoveTombstones) kind() commandKind    { return kindRemoveTombstones }
func (AllocateProducerIDs) kind() commandKind { return kindAllocateProducerIDs }

func (c FormatCluster) encode(e *encoder) { e.text(c.ClusterID) }

func decodeFormatCluster(d *decoder) FormatCluster { return FormatCluster{ClusterID: d.text()} }

func (c StartBroker) encode(e *encoder) {
	e.signed(int64(c.ID))
	e.id(c.DirectoryID)
	e.text(c.Host)
	e.signed(int64(c.Port))
	e.optionalText(c.Rack)
	e.signed(int64(c.LogsEpochMax))
}

func decodeStartBroker(d *decoder) StartBroker {
	return StartBroker{ID: d.int32(), DirectoryID: d.id(), Host: d.text(), Port: d.int32(), Rack: d.optionalText(), LogsEpochMax: d.int32()}
}

func (c CreateTopics) encode(e *encoder) {
	e.count(len(c.Topics))
	for n := range c.Topics {
		topic := &c.Topics[n]
		e.text(topic.Name)
		e.id(topic.ID)
		e.count(len(topic.LogIDs))
		for _, id := range topic.LogIDs {
			e.id(id)
		}
		e.signed(int64(topic.ReplicationFactor))
		e.count(len(topic.Replicas))
		for _, replicas := range topic.Replicas {
			e.int32s(replicas)
		}
		e.texts(topic.Configs)
		e.boolean(topic.Internal)
	}
}

// newTopicBytesMin is the shortest NewTopic: no name, no partitions, no configurations.
const newTopicBytesMin = 1 + 16 + 1 + 1 + 1 + 1 + 1

func decodeCreateTopics(d *decoder) CreateTopics {
	var c CreateTopics
	for range d.count(newTopicBytesMin) {
		topic := NewTopic{Name: d.text(), ID: d.id(), LogIDs: decodeLogIDs(d), ReplicationFactor: d.int16()}
		if n := d.count(1); n > 0 {
			topic.Replicas = make([][]int32, n)
			for i := range topic.Replicas {
				topic.Replicas[i] = d.int32s()
			}
		}
		topic.Configs, topic.Internal = d.texts(), d.boolean()
		if d.err != nil {
			return CreateTopics{}
		}
		c.Topics = append(c.Topics, topic)
	}
	return c
}

func decodeLogIDs(d *decoder) []LogID {
	n := d.count(16)
	if n == 0 {
		return nil
	}
	ids := make([]LogID, n)
	for i := range ids {
		ids[i] = d.id()
	}
	return ids
}

func (c DeleteTopics) encode(e *encoder) {
	e.count(len(c.IDs))
	for _, id := range c.IDs {
		e.id(id)
	}
}

func decodeDeleteTopics(d *decoder) DeleteTopics {
	var c DeleteTopics
	for range d.count(16) {
		c.IDs = append(c.IDs, d.id())
	}
	return c
}

func (c RemoveTombstones) encode(e *encoder) {
	e.signed(int64(c.Broker))
	e.count(len(c.LogIDs))
	for _, id := range c.LogIDs {
		e.id(id)
	}
}

func decodeRemoveTombstones(d *decoder) RemoveTombstones {
	return RemoveTombstones{Broker: d.int32(), LogIDs: decodeLogIDs(d)}
}

func (c AllocateProducerIDs) encode(e *encoder) {
	e.signed(int64(c.Broker))
	e.signed(c.BrokerEpoch)
}

func decodeAllocateProducerIDs(d *decoder) AllocateProducerIDs {
	return AllocateProducerIDs{Broker: d.int32(), BrokerEpoch: d.signed()}
}
