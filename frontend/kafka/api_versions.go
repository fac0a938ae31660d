package kafka

// ApiVersions (key 18): versions 0 to 4.
//
//	0-2  what is served, by API key
//	3    flexible; the client's software (KIP-511); features (KIP-584)
//	4    features may begin at version 0
//
// The response header is v0 in every version. A version above 4 is answered in
// the layout of version 0 with UNSUPPORTED_VERSION and the list of keys, from
// which the client takes the version to ask again with. No feature is named: a
// client that reads transaction.version or group.version there changes its
// behaviour, and neither is served.

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
	for _, row := range registry {
		if row == nil {
			continue
		}
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = int16(row.key), row.min, row.max
		answer.ApiKeys = append(answer.ApiKeys, key)
	}
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
