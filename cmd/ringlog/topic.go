package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newTopic(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, alter and delete topics",
		Example: `  ringlog topic create orders --partitions 3
  ringlog topic describe orders`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newTopicCreate(app), newTopicList(app), newTopicDescribe(app), newTopicAlter(app), newTopicDelete(app))
	return command
}

// withAdmin connects, runs a function with an admin client, and disconnects.
func (app *application) withAdmin(ctx context.Context, function func(admin *kadm.Client) error) error {
	client, err := app.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(app.timeout.Milliseconds()))
	return function(admin)
}

// topicOutcome is what happened to one topic.
type topicOutcome struct {
	Topic   string `json:"topic"`
	ID      string `json:"id,omitempty"`
	Outcome string `json:"outcome"` // created, exists, altered, would alter, deleted, absent, failed
	Error   string `json:"error,omitempty"`
}

func newTopicCreate(app *application) *cobra.Command {
	var (
		partitions  int32
		replication int16
		configs     []string
		ifNotExists bool
	)
	command := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Long:  "Create topics. What is not given is the broker's default.",
		Example: `  ringlog topic create orders --partitions 3
  ringlog topic create audit --config retention.ms=-1 --config max.message.bytes=4000000
  ringlog topic create clicks --config flush.messages=1000 --config flush.ms=200`,
		Args: atLeastOne("TOPIC"),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.Int32VarP(&partitions, "partitions", "p", -1, "`number` of partitions; -1 is the broker's default")
	flags.Int16Var(&replication, "replication-factor", -1, "`number` of replicas of each partition; -1 is the broker's default")
	flags.StringArrayVarP(&configs, "config", "c", nil, "topic configuration as `name=value`; may be repeated")
	flags.BoolVar(&ifNotExists, "if-not-exists", false, "succeed when a topic is there already, whatever it looks like")
	command.RunE = app.runs(func(ctx context.Context, topics []string) error {
		values := map[string]*string{}
		for _, config := range configs {
			name, value, found := strings.Cut(config, "=")
			if !found || name == "" {
				return usageErrorf("--config %q is not name=value", config)
			}
			values[name] = &value
		}
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			created, err := admin.CreateTopics(ctx, partitions, replication, values, topics...)
			if err != nil {
				return fmt.Errorf("creating topics: %w", err)
			}
			return app.reportTopics(topics, func(topic string) (topicOutcome, error) {
				response := created[topic]
				switch {
				case response.Err == nil:
					return topicOutcome{Topic: topic, ID: topicID(response.ID), Outcome: "created"}, nil
				case ifNotExists && errors.Is(response.Err, kerr.TopicAlreadyExists):
					return topicOutcome{Topic: topic, Outcome: "exists"}, nil
				}
				return topicOutcome{}, brokerError(response.Err, response.ErrMessage)
			})
		})
	})
	return command
}

func newTopicDelete(app *application) *cobra.Command {
	var ifExists bool
	command := &cobra.Command{
		Use:     "delete TOPIC...",
		Short:   "Delete topics with all their records",
		Example: "  ringlog topic delete orders",
		Args:    atLeastOne("TOPIC"),
	}
	app.clientFlags(command)
	command.Flags().BoolVar(&ifExists, "if-exists", false, "succeed when a topic is not there")
	command.RunE = app.runs(func(ctx context.Context, topics []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			deleted, err := admin.DeleteTopics(ctx, topics...)
			if err != nil {
				return fmt.Errorf("deleting topics: %w", err)
			}
			return app.reportTopics(topics, func(topic string) (topicOutcome, error) {
				response := deleted[topic]
				switch {
				case response.Err == nil:
					return topicOutcome{Topic: topic, Outcome: "deleted"}, nil
				case ifExists && isMissing(response.Err):
					return topicOutcome{Topic: topic, Outcome: "absent"}, nil
				}
				return topicOutcome{}, brokerError(response.Err, response.ErrMessage)
			})
		})
	})
	return command
}

// reportTopics prints what happened to each topic and fails with the first
// error, after the others were reported.
func (app *application) reportTopics(topics []string, outcomeOf func(topic string) (topicOutcome, error)) error {
	var (
		outcomes []topicOutcome
		first    error
	)
	for _, topic := range topics {
		outcome, err := outcomeOf(topic)
		if err != nil {
			outcome = topicOutcome{Topic: topic, Outcome: "failed", Error: err.Error()}
			if first == nil {
				first = fmt.Errorf("topic %q: %w", topic, err)
			}
		}
		outcomes = append(outcomes, outcome)
	}
	err := app.print(outcomes, func() {
		for _, outcome := range outcomes {
			if outcome.Error == "" {
				fmt.Fprintf(app.output, "%s %s\n", outcome.Outcome, outcome.Topic)
			}
		}
	})
	return errors.Join(first, err)
}

// topicSummary is a topic in a list.
type topicSummary struct {
	Topic             string `json:"topic"`
	ID                string `json:"id"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replication_factor"`
	Internal          bool   `json:"internal"`
}

func newTopicList(app *application) *cobra.Command {
	var internal bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List topics",
		Example: "  ringlog topic list --json | jq -r '.[].topic'",
		Args:    exactly(),
	}
	app.clientFlags(command)
	command.Flags().BoolVar(&internal, "internal", false, "list the broker's own topics too")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			topics, err := admin.ListTopicsWithInternal(ctx)
			if err != nil {
				return fmt.Errorf("listing topics: %w", err)
			}
			summaries := []topicSummary{}
			rows := [][]string{{"TOPIC", "PARTITIONS", "REPLICAS"}}
			for _, topic := range topics.Sorted() {
				if topic.IsInternal && !internal {
					continue
				}
				summary := topicSummary{topic.Topic, topicID(topic.ID), len(topic.Partitions), topic.Partitions.NumReplicas(), topic.IsInternal}
				summaries = append(summaries, summary)
				rows = append(rows, []string{summary.Topic, strconv.Itoa(summary.Partitions), strconv.Itoa(summary.ReplicationFactor)})
			}
			return app.print(summaries, func() {
				if len(summaries) == 0 {
					fmt.Fprintln(app.errorOutput, "There are no topics yet. Create one: ringlog topic create NAME")
					return
				}
				table(app.output, rows)
			})
		})
	})
	return command
}

// topicID writes an id as Kafka's own tools do, so that one can be looked for in
// the output of both: base64 of the alphabet for URLs, without padding.
func topicID(id kadm.TopicID) string {
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// brokerError joins an error code with the broker's own sentence about it.
func brokerError(err error, message string) error {
	if message == "" || strings.Contains(err.Error(), message) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, message)
}

// isMissing says whether an error means that there is no such topic or
// partition.
func isMissing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
