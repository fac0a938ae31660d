package kafka

// DescribeCluster (key 60): versions 0 to 2.
//
//	0    cluster id, controller and brokers (KIP-700)
//	1    endpoint type (KIP-919): brokers only
//	2    fenced brokers, if asked for (KIP-1073): none is ever listed

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Endpoint types of KIP-919.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func describeCluster(_ context.Context, c *call, asked *kmsg.DescribeClusterRequest, answer *kmsg.DescribeClusterResponse) {
	image := c.session.protocol.broker.Image()
	answer.ClusterID, answer.ControllerID = image.ClusterID, image.ControllerID
	answer.EndpointType = endpointBrokers
	answer.ClusterAuthorizedOperations = operationsNotAsked
	if asked.Version >= 1 && asked.EndpointType != endpointBrokers {
		code, text := kerr.UnsupportedEndpointType.Code, "this endpoint type does not exist"
		if asked.EndpointType == endpointControllers {
			code, text = kerr.MismatchedEndpointType.Code, "this is a broker's endpoint"
		}
		answer.ErrorCode, answer.ErrorMessage, answer.EndpointType = code, &text, asked.EndpointType
		answer.ControllerID = -1
		return
	}
	if asked.IncludeClusterAuthorizedOperations {
		answer.ClusterAuthorizedOperations = clusterOperations
	}
	for _, b := range image.Brokers() {
		described := kmsg.NewDescribeClusterResponseBroker()
		described.NodeID, described.Host, described.Port, described.Rack = b.ID, b.Host, b.Port, b.Rack
		answer.Brokers = append(answer.Brokers, described)
	}
}
