package kafka

// ListPartitionReassignments (key 46): version 0 (KIP-455).
//
// Replicas do not move between brokers yet, so that none is ever on its way: as in Kafka, a
// partition that is not being reassigned, or does not exist, is left out.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func listPartitionReassignments(context.Context, *call, *kmsg.ListPartitionReassignmentsRequest, *kmsg.ListPartitionReassignmentsResponse) {
}
