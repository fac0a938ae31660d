package kafka

// DeleteAcls (key 31): versions 1 to 3; see DescribeAcls for what they are, and why each
// filter is answered with SECURITY_DISABLED.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func deleteACLs(_ context.Context, c *call, asked *kmsg.DeleteACLsRequest, answer *kmsg.DeleteACLsResponse) {
	for range asked.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = c.answerTo(errSecurityDisabled)
		answer.Results = append(answer.Results, result)
	}
}
