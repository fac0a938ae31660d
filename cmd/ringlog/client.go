package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// dialTimeoutMax bounds one attempt to connect, whatever --timeout allows for all.
const dialTimeoutMax = 5 * time.Second

// connect opens a client and makes sure that somebody answers, so that a wrong
// address is named within --timeout instead of being retried in silence.
func (app *application) connect(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error) {
	addresses := app.brokerList()
	if len(addresses) == 0 {
		return nil, usageErrorf("--brokers names no address")
	}
	if app.timeout <= 0 {
		return nil, usageErrorf("--timeout %s leaves no time for an answer", app.timeout)
	}
	options = append([]kgo.Opt{
		kgo.SeedBrokers(addresses...),
		kgo.ClientID("ringlog-cli"),
		kgo.SoftwareNameAndVersion("ringlog", softwareVersion()),
		kgo.DialTimeout(min(app.timeout, dialTimeoutMax)),
		kgo.RequestTimeoutOverhead(app.timeout),
		kgo.RetryTimeout(app.timeout),
	}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	reachable, cancel := context.WithTimeout(ctx, app.timeout)
	defer cancel()
	if err := client.Ping(reachable); err != nil {
		client.Close()
		var kafka *kerr.Error
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &kafka): // somebody did answer
			return nil, fmt.Errorf("saying hello to %s: %w", app.brokers, err)
		}
		return nil, app.unreachable(err)
	}
	if err := app.checkAdvertised(reachable, client); err != nil {
		client.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return client, nil
}

// unreachable is the failure to reach any broker of --brokers.
func (app *application) unreachable(err error) error {
	return &failure{exitUnreachable, fmt.Errorf("no broker answers at %s: %w", app.brokers, rootCause(err)), unreachableHint}
}

// rootCause strips the layers that say no more than that a connection failed.
func rootCause(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Err
	}
	return err
}

// checkAdvertised makes sure that some broker can be reached under the address
// that it tells clients to use. One that answers under one address and
// advertises another that cannot be reached from here is the first wall that
// Kafka's users hit, and clients only ever show it as a time-out. A broker of
// several that is down is no reason to stop.
func (app *application) checkAdvertised(ctx context.Context, client *kgo.Client) error {
	metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("asking for the cluster's brokers: %w", err)
	}
	var first error
	for _, broker := range metadata.Brokers {
		address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		if slices.Contains(app.brokerList(), address) {
			return nil
		}
		dialer := net.Dialer{Timeout: min(app.timeout, dialTimeoutMax)}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		if first == nil {
			first = fmt.Errorf("%s answers, and tells clients to use %s for broker %d, which cannot be reached from here: %w",
				app.brokers, address, broker.NodeID, rootCause(err))
		}
	}
	if first == nil {
		return nil
	}
	return &failure{exitUnreachable, first,
		"on the broker, advertise an address that its clients can reach: ringlog serve --advertised-addr host:port"}
}

// partitionsOf returns the partitions of a topic in order, or a failure that
// says how to create it.
func partitionsOf(ctx context.Context, admin *kadm.Client, topic string) ([]int32, error) {
	topics, err := admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("asking for topic %q: %w", topic, err)
	}
	detail := topics[topic]
	if detail.Err != nil {
		return nil, topicFailure(topic, detail.Err)
	}
	return detail.Partitions.Numbers(), nil
}

// topicFailure says of a missing topic how to create it; other errors pass.
func topicFailure(topic string, err error) error {
	if isMissing(err) {
		return &failure{exitNotFound, fmt.Errorf("there is no topic %q", topic),
			fmt.Sprintf("create it: ringlog topic create %s\nsee which there are: ringlog topic list", topic)}
	}
	return fmt.Errorf("topic %q: %w", topic, err)
}

// joinNumbers prints broker and partition numbers: 1, 2, 3.
func joinNumbers(numbers []int32) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ", ")
}
