package meta

import "slices"

func (FormatCluster) kind() commandKind       { return kindFormatCluster }
func (StartBroker) kind() commandKind         { return kindStartBroker }
func (CreateTopics) kind() commandKind        { return kindCreateTopics }
func (DeleteTopics) kind() commandKind        { return kindDeleteTopics }
func (RemoveTombstones) kind() commandKind    { return kindRemoveTombstones }
func (AllocateProducerIDs) kind() commandKind { return kindAllocateProducerIDs }
func (AlterConfigs) kind() commandKind        { return kindAlterConfigs }
func (CreatePartitions) kind() commandKind    { return kindCreatePartitions }

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
		e.logIDs(topic.LogIDs)
		e.signed(int64(topic.ReplicationFactor))
		e.assignments(topic.Replicas)
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
		topic.Replicas = decodeAssignments(d)
		topic.Configs, topic.Internal = d.texts(), d.boolean()
		if d.err != nil {
			return CreateTopics{}
		}
		c.Topics = append(c.Topics, topic)
	}
	return c
}

// logIDs appends a list of log ids.
func (e *encoder) logIDs(ids []LogID) {
	e.count(len(ids))
	for _, id := range ids {
		e.id(id)
	}
}

// assignments appends the replicas of each partition.
func (e *encoder) assignments(replicas [][]int32) {
	e.count(len(replicas))
	for _, partition := range replicas {
		e.int32s(partition)
	}
}

func decodeAssignments(d *decoder) [][]int32 {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	replicas := make([][]int32, n)
	for i := range replicas {
		replicas[i] = d.int32s()
	}
	return replicas
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
	e.logIDs(c.LogIDs)
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

func (c AlterConfigs) encode(e *encoder) {
	e.count(len(c.Resources))
	for n := range c.Resources {
		a := &c.Resources[n]
		e.unsigned(uint64(a.Scope))
		e.id(a.Topic)
		e.signed(int64(a.Broker))
		if a.Scope == ConfigOfGroup {
			e.text(a.Group)
		}
		e.boolean(a.Replace)
		e.count(len(a.Changes))
		for i := range a.Changes {
			change := &a.Changes[i]
			e.text(change.Name)
			e.unsigned(uint64(change.Op))
			e.text(change.Value)
			e.text(change.Base)
		}
	}
}

// The shortest forms: no name, no value; no change.
const (
	configChangeBytesMin     = 1 + 1 + 1 + 1
	configAlterationBytesMin = 1 + 16 + 1 + 1 + 1
)

func decodeAlterConfigs(d *decoder) AlterConfigs {
	var c AlterConfigs
	for range d.count(configAlterationBytesMin) {
		a := ConfigAlteration{Scope: ConfigScope(d.enum("scope", uint64(scopeMax(d.version)))), Topic: d.id(), Broker: d.int32()}
		if a.Scope == ConfigOfGroup {
			a.Group = d.text()
		}
		a.Replace = d.boolean()
		for range d.count(configChangeBytesMin) {
			a.Changes = append(a.Changes, ConfigChange{Name: d.text(), Op: ConfigOp(d.enum("operation", uint64(ConfigSubtract))), Value: d.text(), Base: d.text()})
		}
		if d.err != nil {
			return AlterConfigs{}
		}
		c.Resources = append(c.Resources, a)
	}
	return c
}

// scopeMax is the last scope that a frame of that version may have.
func scopeMax(version byte) ConfigScope {
	if version < frameVersionGroups {
		return ConfigOfBroker
	}
	return ConfigOfGroup
}

// concernsGroups says whether something of a group is altered.
func (c AlterConfigs) concernsGroups() bool {
	return slices.ContainsFunc(c.Resources, func(a ConfigAlteration) bool { return a.Scope == ConfigOfGroup })
}

func (c CreatePartitions) encode(e *encoder) {
	e.count(len(c.Topics))
	for n := range c.Topics {
		more := &c.Topics[n]
		e.id(more.Topic)
		e.signed(int64(more.Count))
		e.logIDs(more.LogIDs)
		e.assignments(more.Replicas)
	}
}

// morePartitionsBytesMin is the shortest MorePartitions: no new partition.
const morePartitionsBytesMin = 16 + 1 + 1 + 1

func decodeCreatePartitions(d *decoder) CreatePartitions {
	var c CreatePartitions
	for range d.count(morePartitionsBytesMin) {
		more := MorePartitions{Topic: d.id(), Count: d.int32(), LogIDs: decodeLogIDs(d), Replicas: decodeAssignments(d)}
		if d.err != nil {
			return CreatePartitions{}
		}
		c.Topics = append(c.Topics, more)
	}
	return c
}
