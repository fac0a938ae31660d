package kafka

// DescribeAcls (key 29): versions 1 to 3.
//
//	1    prefixed patterns (KIP-290)
//	2    flexible
//	3    resources of type user (KIP-373)
//
// There is no authorizer: as Kafka's broker without one, this answers SECURITY_DISABLED, which
// tools tell from a broker that does not know the request.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errSecurityDisabled is what everything about ACLs is answered with.
var errSecurityDisabled = errors.New("kafka: no authorizer is configured on the broker")

func describeACLs(_ context.Context, c *call, _ *kmsg.DescribeACLsRequest, answer *kmsg.DescribeACLsResponse) {
	answer.ErrorCode, answer.ErrorMessage = c.answerTo(errSecurityDisabled)
}
