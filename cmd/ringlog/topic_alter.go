package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// topicAlteration is what one `topic alter` asks for.
type topicAlteration struct {
	partitions int32 // 0 leaves them
	configs    []kadm.AlterConfig
	dryRun     bool
	yes        bool
	force      bool
}

// growth is what more partitions do to one topic.
type growth struct {
	Topic string `json:"topic"`
	From  int    `json:"from"`
	To    int    `json:"to"`
	// KeysMoved is the share of keys that belong to another partition afterwards.
	KeysMoved float64 `json:"keys_moved"`
	compacted bool
}

// alterationOutcome is what happened to one topic, or would.
type alterationOutcome struct {
	topicOutcome
	Partitions *growth  `json:"partitions,omitempty"`
	Configs    []string `json:"configs,omitempty"` // name=value, name+=items, name-=items, -name
}

func newTopicAlter(app *application) *cobra.Command {
	var (
		alteration topicAlteration
		changes    configFlags
	)
	command := &cobra.Command{
		Use:   "alter TOPIC...",
		Short: "Change the configuration and the number of partitions of topics",
		Long: `Change the configuration and the number of partitions of topics that exist. What is changed holds at
once, for records that come from then on, and without a restart of anything.

A topic can get more partitions, never fewer. Producers put a key into the partition hash(key) modulo
the number of partitions, so that most keys then belong elsewhere: what is asked first says how
many. Their earlier records stay where they are.`,
		Example: `  ringlog topic alter orders --set retention.ms=86400000 --unset max.message.bytes
  ringlog topic alter orders --partitions 12
  ringlog topic alter orders --partitions 12 --dry-run --json`,
		Args: atLeastOne("TOPIC"),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.Int32VarP(&alteration.partitions, "partitions", "p", 0, "`number` of partitions that the topics are to have")
	changes.register(flags)
	flags.BoolVar(&alteration.dryRun, "dry-run", false, "say what would be done, have the broker check it, and do nothing")
	flags.BoolVarP(&alteration.yes, "yes", "y", false, "do not ask before partitions are added")
	flags.BoolVar(&alteration.force, "force", false, "add partitions to a compacted topic, which then keeps two newest values of a key that moves")
	command.RunE = app.runs(func(ctx context.Context, topics []string) (err error) {
		if alteration.configs, err = changes.alterations(); err != nil {
			return err
		}
		if len(alteration.configs) == 0 && alteration.partitions == 0 {
			return usageErrorf("there is nothing to do: give --partitions, --set, --unset, --append or --subtract")
		}
		if alteration.partitions < 0 {
			return usageErrorf("--partitions %d is no number of partitions", alteration.partitions)
		}
		return app.withAdmin(ctx, func(admin *kadm.Client) error { return app.alterTopics(ctx, admin, topics, &alteration) })
	})
	return command
}

func (app *application) alterTopics(ctx context.Context, admin *kadm.Client, topics []string, alteration *topicAlteration) error {
	growths, err := growthsOf(ctx, admin, topics, alteration.partitions)
	if err != nil {
		return err
	}
	if alteration.partitions > 0 && !alteration.dryRun {
		if err := app.confirmGrowth(growths, alteration); err != nil {
			return err
		}
	}
	var (
		outcomes []alterationOutcome
		first    error
	)
	for i, topic := range topics {
		outcome := alterationOutcome{topicOutcome: topicOutcome{Topic: topic, Outcome: "altered"}}
		if alteration.dryRun {
			outcome.Outcome = "would alter"
		}
		if alteration.partitions > 0 {
			outcome.Partitions = &growths[i]
		}
		for _, config := range alteration.configs {
			outcome.Configs = append(outcome.Configs, configChangeText(config))
		}
		if err := alterTopic(ctx, admin, topic, alteration); err != nil {
			outcome.topicOutcome = topicOutcome{Topic: topic, Outcome: "failed", Error: err.Error()}
			if first == nil {
				first = fmt.Errorf("topic %q: %w", topic, err)
			}
		}
		outcomes = append(outcomes, outcome)
	}
	err = app.print(outcomes, func() {
		for _, outcome := range outcomes {
			if outcome.Error == "" {
				app.printAlteration(outcome)
			}
		}
	})
	return errors.Join(first, err)
}

func (app *application) printAlteration(outcome alterationOutcome) {
	fmt.Fprintf(app.output, "%s %s", outcome.Outcome, outcome.Topic)
	if g := outcome.Partitions; g != nil {
		fmt.Fprintf(app.output, ": %d partitions, from %d", g.To, g.From)
		if g.To > g.From {
			fmt.Fprintf(app.output, " (%.0f%% of keys move)", 100*g.KeysMoved)
		}
	}
	if len(outcome.Configs) > 0 {
		fmt.Fprintf(app.output, ": %s", strings.Join(outcome.Configs, " "))
	}
	fmt.Fprintln(app.output)
}

// alterTopic changes one topic: configurations first, because they can be changed back.
func alterTopic(ctx context.Context, admin *kadm.Client, topic string, alteration *topicAlteration) error {
	if len(alteration.configs) > 0 {
		alter := admin.AlterTopicConfigs
		if alteration.dryRun {
			alter = admin.ValidateAlterTopicConfigs
		}
		altered, err := alter(ctx, alteration.configs, topic)
		if err != nil {
			return fmt.Errorf("altering configurations: %w", err)
		}
		if response := altered[0]; response.Err != nil {
			return brokerError(response.Err, response.ErrMessage)
		}
	}
	if alteration.partitions > 0 {
		update := admin.UpdatePartitions
		if alteration.dryRun {
			update = admin.ValidateUpdatePartitions
		}
		updated, err := update(ctx, int(alteration.partitions), topic)
		if err != nil {
			return fmt.Errorf("adding partitions: %w", err)
		}
		if response := updated[topic]; response.Err != nil {
			return brokerError(response.Err, response.ErrMessage)
		}
	}
	return nil
}

// growthsOf looks the topics up; it fails with the first one that is not there.
func growthsOf(ctx context.Context, admin *kadm.Client, topics []string, partitions int32) ([]growth, error) {
	details, err := admin.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("asking for topics: %w", err)
	}
	growths := make([]growth, len(topics))
	for i, topic := range topics {
		if err := details[topic].Err; err != nil {
			return nil, topicFailure(topic, err)
		}
		present := len(details[topic].Partitions)
		growths[i] = growth{Topic: topic, From: present, To: int(partitions), KeysMoved: keysMoved(present, int(partitions))}
	}
	if partitions == 0 {
		return growths, nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("asking for configurations: %w", err)
	}
	for i := range growths {
		described, err := describeConfigs(configs, growths[i].Topic, true)
		if err != nil {
			return nil, err
		}
		growths[i].compacted = slices.ContainsFunc(described, func(c configDescription) bool {
			return c.Name == "cleanup.policy" && strings.Contains(c.Value, "compact")
		})
	}
	return growths, nil
}

// keysMoved is the share of keys whose partition, their hash modulo the number of partitions,
// is another one after that number changed. Of the remainders by the least common multiple
// of both, those below the smaller number are the same by either; the others differ.
func keysMoved(from, to int) float64 {
	if from <= 0 || to <= 0 {
		return 0
	}
	a, b := from, to
	for b != 0 {
		a, b = b, a%b
	}
	multiple := from / a * to
	return 1 - float64(min(from, to))/float64(multiple)
}

// confirmGrowth says what more partitions do, and asks unless --yes says that it need not.
func (app *application) confirmGrowth(growths []growth, alteration *topicAlteration) error {
	warn := false
	for _, g := range growths {
		if g.To <= g.From {
			continue // the broker refuses it, in its own words
		}
		if g.compacted && !alteration.force {
			return &failure{exitRefused, fmt.Errorf("topic %q is compacted, and %.0f%% of its keys would get a second newest value in another partition", g.Topic, 100*g.KeysMoved),
				"make a topic with as many partitions and copy the records; or, when no key is ever written again: --force"}
		}
		warn = true
		fmt.Fprintf(app.errorOutput, "%s, from %d to %d partitions: %.0f%% of its keys will go to another partition than before.\n", g.Topic, g.From, g.To, 100*g.KeysMoved)
	}
	if !warn || alteration.yes {
		return nil
	}
	fmt.Fprint(app.errorOutput, "Their earlier records stay where they are, so that those who rely on the order by key may read new ones first.\n"+
		"Consumers that begin at the end (auto.offset.reset=latest) miss what is written before they see the new partitions.\n"+
		"It cannot be undone. Go on? [y/N] ")
	answer, err := bufio.NewReader(app.input).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		fmt.Fprintln(app.errorOutput)
		return &failure{exitFailed, errors.New("nothing was changed"), "to go on without being asked: --yes"}
	}
	return nil
}
