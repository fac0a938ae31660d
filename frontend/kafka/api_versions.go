package kafka

// ApiVersions (key 18): versions 0 to 5.
//
//	0-2  what is served, by API key
//	3    flexible; the client's software (KIP-511); features (KIP-584)
//	4    features may begin at version 0
//	5    whom the client takes this broker for (KIP-1242): REBOOTSTRAP_REQUIRED
//
// The response header is v0 in every version. A version above 5 is answered in
// the layout of version 0 with UNSUPPORTED_VERSION and the list of keys, from
// which the client takes the version to ask again with. One feature is named, group.version 1: consumer
// groups (KIP-848), which clients take for served only then. transaction.version is not: a client that reads
// it there changes its behaviour.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// softwareBytesMax bounds the name and version of a client's software.
const softwareBytesMax = 256

func apiVersions(_ context.Context, c *call, asked *kmsg.ApiVersionsRequest, answer *kmsg.ApiVersionsResponse) {
	if c.refused != nil {
		// Not counted as an error: a client that is newer than this broker begins
		// every connection so, and a count that grows in good health warns of nothing.
		answer.ErrorCode = code(c.refused)
	}
	if asked.Version >= 3 {
		if !softwareText(asked.ClientSoftwareName) || !softwareText(asked.ClientSoftwareVersion) {
			answer.ErrorCode = c.failed(fmt.Errorf("%w: name or version of the client's software", errInvalidRequest))
			return
		}
		c.session.software.Store(&software{name: asked.ClientSoftwareName, version: asked.ClientSoftwareVersion})
	}
	if asked.Version >= 5 {
		if err := checkIdentity(c, asked); err != nil {
			answer.ErrorCode = c.failed(err)
			return
		}
	}
	for _, row := range registry {
		if row == nil {
			continue
		}
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = int16(row.key), row.min, row.max
		answer.ApiKeys = append(answer.ApiKeys, key)
	}
	if asked.Version >= 3 {
		nameFeatures(c, asked.Version, answer)
	}
}

// The levels of group.version: 1 has consumer groups.
const (
	groupVersionMin = 0
	groupVersionMax = 1
)

// nameFeatures says what the cluster works by. It is not chosen by operators, so that it is always the latest. A client of
// version 3 takes a feature that begins at 0 for a broken one, and is not told of it (KIP-584, KAFKA-17011).
func nameFeatures(c *call, version int16, answer *kmsg.ApiVersionsResponse) {
	const name = "group.version"
	if version >= 4 {
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MinVersion, supported.MaxVersion = name, groupVersionMin, groupVersionMax
		answer.SupportedFeatures = append(answer.SupportedFeatures, supported)
	}
	finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
	finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = name, groupVersionMax, groupVersionMax
	answer.FinalizedFeatures = append(answer.FinalizedFeatures, finalized)
	answer.FinalizedFeaturesEpoch = int64(c.session.protocol.broker.Image().Index)
}

// checkIdentity returns an error when the client means another broker: its connection was led
// astray by an address that has a new owner.
func checkIdentity(c *call, asked *kmsg.ApiVersionsRequest) error {
	b := c.session.protocol.broker
	switch {
	case asked.ClusterID == nil && asked.NodeID == -1:
		return nil // it does not know yet
	case asked.ClusterID == nil || asked.NodeID == -1:
		return fmt.Errorf("%w: cluster id and node id are given both or not at all", errInvalidRequest)
	case *asked.ClusterID != b.Image().ClusterID || asked.NodeID != b.NodeID():
		return fmt.Errorf("%w: broker %d of cluster %s", errOtherBroker, asked.NodeID, clip(*asked.ClusterID))
	}
	return nil
}

// softwareText reports whether text is a name or version as KIP-511 wants it:
// letters, digits, '-' and '.', with a letter or digit at both ends.
func softwareText(text string) bool {
	if text == "" || len(text) > softwareBytesMax || !alphanumeric(text[0]) || !alphanumeric(text[len(text)-1]) {
		return false
	}
	for i := 0; i < len(text); i++ {
		if !alphanumeric(text[i]) && text[i] != '-' && text[i] != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
