package kafka

// CreateAcls (key 30): versions 1 to 3; see DescribeAcls for what they are, and why each
// ACL is answered with SECURITY_DISABLED.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func createACLs(_ context.Context, c *call, asked *kmsg.CreateACLsRequest, answer *kmsg.CreateACLsResponse) {
	for range asked.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = c.answerTo(errSecurityDisabled)
		answer.Results = append(answer.Results, result)
	}
}
