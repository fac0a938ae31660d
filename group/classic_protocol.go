package group

import "encoding/binary"

// countProtocols adds a member's protocols to what members support, or takes them out.
func (g *classicGroup) countProtocols(member *classicMember, by int) {
	g.metadataBytes += by * protocolBytes(member.protocols)
	for i := range member.protocols {
		name := member.protocols[i].Name
		if g.supporters[name] += by; g.supporters[name] == 0 {
			delete(g.supporters, name)
		}
	}
}

// protocolBytes is what a member says for all its protocols, in bytes.
func protocolBytes(protocols []Protocol) (size int) {
	for i := range protocols {
		size += len(protocols[i].Name) + len(protocols[i].Metadata)
	}
	return size
}

// supports says whether a member with these protocols goes with the group: the same type, and one protocol at
// least that every member supports. As in Kafka, who joins again is held against
// all members, itself among them as it was.
func (g *classicGroup) supports(protocolType string, protocols []Protocol) bool {
	if g.state == StateEmpty {
		return isProtocol(protocolType, protocols)
	}
	if protocolType != g.protocolType {
		return false
	}
	for i := range protocols {
		if g.supporters[protocols[i].Name] == len(g.members) {
			return true
		}
	}
	return false
}

// isProtocol says whether a group may begin with this.
func isProtocol(protocolType string, protocols []Protocol) bool {
	return protocolType != "" && len(protocols) > 0
}

// selectProtocol has each member vote for the first of its protocols that all support, and returns the one
// with the most votes; of several that of the oldest member. There are members, and
// there always is such a protocol: nobody joins without.
func (g *classicGroup) selectProtocol() string {
	votes := make(map[string]int, len(g.supporters))
	for _, member := range g.members {
		for i := range member.protocols {
			if name := member.protocols[i].Name; g.supporters[name] == len(g.members) {
				votes[name]++
				break
			}
		}
	}
	chosen := ""
	for _, protocol := range g.members[0].protocols {
		if votes[protocol.Name] > votes[chosen] {
			chosen = protocol.Name
		}
	}
	return chosen
}

// computeTopics reads what the members are subscribed to from their metadata for the chosen protocol.
func (g *classicGroup) computeTopics() {
	g.topics, g.topicsKnown = nil, false
	if g.protocolType != protocolTypeConsumer {
		return
	}
	topics := map[string]bool{}
	for _, member := range g.members {
		if !addSubscribedTopics(topics, member.metadata(g.protocol)) {
			return
		}
	}
	g.topics, g.topicsKnown = topics, true
}

// addSubscribedTopics adds the topics of one member's metadata; false when it cannot be read. Every version of
// Kafka's consumer protocol begins with version 0: its own version, then the topics' names.
func addSubscribedTopics(topics map[string]bool, metadata []byte) bool {
	if len(metadata) < 2+4 || int16(binary.BigEndian.Uint16(metadata)) < 0 {
		return false
	}
	count := int32(binary.BigEndian.Uint32(metadata[2:]))
	metadata = metadata[2+4:]
	for range count {
		if len(metadata) < 2 {
			return false
		}
		length := int(int16(binary.BigEndian.Uint16(metadata)))
		metadata = metadata[2:]
		if length < 0 || length > len(metadata) {
			return false
		}
		topics[string(metadata[:length])] = true
		metadata = metadata[length:]
	}
	return true
}
