package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicDescription is all that a broker tells of a topic.
type topicDescription struct {
	Topic      string                 `json:"topic"`
	ID         string                 `json:"id"`
	Internal   bool                   `json:"internal"`
	Partitions []partitionDescription `json:"partitions"`
	Configs    []configDescription    `json:"configs"` // what differs from the defaults, or all
}

type partitionDescription struct {
	Partition     int32   `json:"partition"`
	Leader        int32   `json:"leader"` // -1: none
	LeaderEpoch   int32   `json:"leader_epoch"`
	Replicas      []int32 `json:"replicas"`
	InSync        []int32 `json:"in_sync"`
	StartOffset   int64   `json:"start_offset"`   // first offset that can be read
	HighWatermark int64   `json:"high_watermark"` // one past the last that can be read
	Error         string  `json:"error,omitempty"`
}

type configDescription struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func newTopicDescribe(app *application) *cobra.Command {
	var allConfigs bool
	command := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show a topic's partitions, offsets and configuration",
		Example: `  ringlog topic describe orders
  ringlog topic describe orders --all-configs --json`,
		Args: atLeastOne("TOPIC"),
	}
	app.clientFlags(command)
	command.Flags().BoolVar(&allConfigs, "all-configs", false, "show defaults too")
	command.RunE = app.runs(func(ctx context.Context, topics []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			descriptions, err := describeTopics(ctx, admin, topics, allConfigs)
			if err != nil {
				return err
			}
			return app.print(descriptions, func() {
				for i, description := range descriptions {
					if i > 0 {
						fmt.Fprintln(app.output)
					}
					app.printTopic(description)
				}
			})
		})
	})
	return command
}

func describeTopics(ctx context.Context, admin *kadm.Client, topics []string, allConfigs bool) ([]topicDescription, error) {
	details, err := admin.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("asking for topics: %w", err)
	}
	for _, topic := range topics {
		if err := details[topic].Err; err != nil {
			return nil, topicFailure(topic, err)
		}
	}
	starts, startErr := admin.ListStartOffsets(ctx, topics...)
	ends, endErr := admin.ListEndOffsets(ctx, topics...)
	configs, configErr := admin.DescribeTopicConfigs(ctx, topics...)
	if err := errors.Join(startErr, endErr, configErr); err != nil {
		return nil, fmt.Errorf("asking for offsets and configuration: %w", err)
	}
	descriptions := make([]topicDescription, 0, len(topics))
	for _, topic := range topics {
		detail := details[topic]
		description := topicDescription{Topic: topic, ID: topicID(detail.ID), Internal: detail.IsInternal}
		for _, p := range detail.Partitions.Sorted() {
			description.Partitions = append(description.Partitions, describePartition(p, starts, ends))
		}
		description.Configs, err = describeConfigs(configs, topic, allConfigs)
		if err != nil {
			return nil, err
		}
		descriptions = append(descriptions, description)
	}
	return descriptions, nil
}

func describePartition(p kadm.PartitionDetail, starts, ends kadm.ListedOffsets) partitionDescription {
	description := partitionDescription{
		Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
		Replicas: p.Replicas, InSync: p.ISR, StartOffset: -1, HighWatermark: -1,
	}
	start, _ := starts.Lookup(p.Topic, p.Partition)
	end, _ := ends.Lookup(p.Topic, p.Partition)
	if err := errors.Join(p.Err, start.Err, end.Err); err != nil {
		description.Error = err.Error()
		return description
	}
	description.StartOffset, description.HighWatermark = start.Offset, end.Offset
	return description
}

func describeConfigs(configs kadm.ResourceConfigs, topic string, all bool) ([]configDescription, error) {
	resource, err := configs.On(topic, nil)
	if err != nil {
		return nil, fmt.Errorf("configuration of topic %q: %w", topic, err)
	}
	if resource.Err != nil {
		return nil, fmt.Errorf("configuration of topic %q: %w", topic, brokerError(resource.Err, resource.ErrMessage))
	}
	descriptions := []configDescription{}
	for _, config := range resource.Configs {
		if all || config.Source == kmsg.ConfigSourceDynamicTopicConfig {
			descriptions = append(descriptions, configDescription{config.Key, config.MaybeValue(), strings.ToLower(config.Source.String())})
		}
	}
	slices.SortFunc(descriptions, func(a, b configDescription) int { return strings.Compare(a.Name, b.Name) })
	return descriptions, nil
}

func (app *application) printTopic(topic topicDescription) {
	fmt.Fprintf(app.output, "%s (%s)\n", topic.Topic, topic.ID)
	for _, config := range topic.Configs {
		fmt.Fprintf(app.output, "  %s=%s\n", config.Name, config.Value)
	}
	rows := [][]string{{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "HIGH WATERMARK"}}
	for _, p := range topic.Partitions {
		leader := strconv.Itoa(int(p.Leader))
		if p.Leader < 0 {
			leader = "none"
		}
		row := []string{strconv.Itoa(int(p.Partition)), leader, strconv.Itoa(int(p.LeaderEpoch)), joinNumbers(p.Replicas), joinNumbers(p.InSync)}
		if p.Error != "" {
			row = append(row, p.Error)
		} else {
			row = append(row, strconv.FormatInt(p.StartOffset, 10), strconv.FormatInt(p.HighWatermark, 10))
		}
		rows = append(rows, row)
	}
	table(app.output, rows)
}
