package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/doctor"
)

// examineBroker asks a cluster what it tells its clients, and each of its brokers under the
// address that it tells.
func (app *application) examineBroker(ctx context.Context, b *doctor.Broker) {
	b.Asked, b.Controller = app.brokers, -1
	client, err := app.plainClient(app.brokerList()...)
	if err != nil {
		b.Refusal = err.Error()
		return
	}
	defer client.Close()
	answer, err := app.askSeeds(ctx, client)
	if err != nil {
		b.Refusal = rootCause(err).Error()
		return
	}
	b.Controller = answer.ControllerID
	for i := range answer.Topics {
		for _, partition := range answer.Topics[i].Partitions {
			b.Partitions++
			if partition.Leader < 0 {
				b.Leaderless++
			}
			if len(partition.ISR) < len(partition.Replicas) {
				b.Lagging++
			}
		}
	}
	for i := range answer.Brokers {
		broker := &answer.Brokers[i]
		b.Members = append(b.Members, app.examineMember(ctx, broker.NodeID, net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))))
	}
}

// askSeeds asks the addresses that were named for all that clients are told, one after the
// other. Not whom the client would: it would take an address that it was told.
func (app *application) askSeeds(ctx context.Context, client *kgo.Client) (*kmsg.MetadataResponse, error) {
	var first error
	for _, seed := range client.SeedBrokers() {
		asking, cancel := context.WithTimeout(ctx, app.timeout)
		answer, err := seed.Request(asking, kmsg.NewPtrMetadataRequest()) // no topics named are all
		cancel()
		if err == nil {
			return answer.(*kmsg.MetadataResponse), nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// plainClient is a client that does not try again: what fails once is what clients see.
func (app *application) plainClient(addresses ...string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ClientID("ringlog-doctor"), kgo.SoftwareNameAndVersion("ringlog", softwareVersion()),
		kgo.DialTimeout(min(app.timeout, dialTimeoutMax)), kgo.RequestTimeoutOverhead(app.timeout), kgo.RetryTimeout(app.timeout), kgo.RequestRetries(0))
}

// examineMember connects to a broker as its clients would and asks it who it is.
func (app *application) examineMember(ctx context.Context, id int32, address string) doctor.Member {
	m := doctor.Member{ID: id, Address: address, AnsweredAs: -1}
	client, err := app.plainClient(address)
	if err != nil {
		m.Refusal = err.Error()
		return m
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, app.timeout)
	defer cancel()
	// The seed, and not broker id: the client would connect to whatever the metadata say.
	there := client.SeedBrokers()[0]
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{} // none
	answer, err := there.Request(ctx, metadata)
	if err != nil {
		m.Refusal = rootCause(err).Error()
		return m
	}
	for _, broker := range answer.(*kmsg.MetadataResponse).Brokers {
		if broker.NodeID == id {
			m.Told = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		}
	}
	m.AnsweredAs = nodeID(ctx, there, id)
	return m
}

// nodeID asks a broker for its own number, -1 when it does not say: metadata name all brokers of
// a cluster and not the one that answers.
func nodeID(ctx context.Context, broker *kgo.Broker, expected int32) int32 {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	resource.ResourceName = strconv.Itoa(int(expected))
	resource.ConfigNames = []string{"node.id", "broker.id"}
	request.Resources = append(request.Resources, resource)
	answer, err := broker.Request(ctx, request)
	if err != nil {
		return -1
	}
	for _, resource := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		for _, config := range resource.Configs {
			if config.Value == nil {
				continue
			}
			if id, err := strconv.ParseInt(*config.Value, 10, 32); err == nil && id >= 0 {
				return int32(id)
			}
		}
	}
	return -1
}

// healthBytesMax bounds what is read of an answer.
const healthBytesMax = 64 << 10

// examineHealth asks the admin address how the broker is.
func (app *application) examineHealth(ctx context.Context, b *doctor.Broker, address string) {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "PLAINTEXT://"))
	if err != nil {
		return
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	}
	address = net.JoinHostPort(host, port)
	ctx, cancel := context.WithTimeout(ctx, app.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz?format=json", http.NoBody)
	if err != nil {
		return
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return // the admin address may be another's, or off
	}
	defer answer.Body.Close()
	var health struct {
		Healthy  *bool  `json:"healthy"`
		Sentence string `json:"sentence"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, healthBytesMax)).Decode(&health); err != nil || health.Healthy == nil {
		return // somebody else's
	}
	b.HealthAddress = fmt.Sprintf("http://%s/healthz", address)
	b.Health, b.Healthy = health.Sentence, doctor.AnswerOf(*health.Healthy)
}
