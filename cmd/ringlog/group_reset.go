package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupReset is what one `group reset` asks for.
type groupReset struct {
	topics  []string // NAME or NAME:0,2; none is all that the group has committed
	to      string
	shift   int64
	file    string
	execute bool
}

// resetReport is what a reset does to a group, or would.
type resetReport struct {
	Group string `json:"group"`
	// Executed says that it was written; else it was only worked out.
	Executed   bool          `json:"executed"`
	Partitions []resetOffset `json:"partitions"`
}

// resetOffset is one partition of a reset.
type resetOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"` // what is committed now; null is nothing
	To        int64  `json:"to"`
	// Asked is what was asked for, where the log does not hold it.
	Asked *int64 `json:"asked,omitempty"`
}

func newGroupReset(app *application) *cobra.Command {
	var reset groupReset
	command := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Move the committed offsets of a consumer group",
		Long: `Move the committed offsets of a consumer group, so that its members go on elsewhere when they start again. It only
says what it would do until --execute is given. A group that has members is refused: they
would go on where they are and commit over it.

An offset that the log does not hold becomes the nearest one that it does.`,
		Example: `  ringlog group reset billing --to beginning
  ringlog group reset billing --topic orders --to 2026-05-01T12:00:00Z --execute
  ringlog group reset billing --topic orders:0,3 --to 2h --execute
  ringlog group reset billing --shift -1000 --execute
  ringlog group reset billing --from-file offsets.csv --execute`,
		Args: exactly("GROUP"),
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.StringArrayVar(&reset.topics, "topic", nil, "only this `topic`, or topic:0,2 for some of its partitions; may be repeated (default all that the group has committed)")
	flags.StringVar(&reset.to, "to", "", "`position` to move to: beginning, end, an offset, -N for N before the end, a time such as 2026-05-01T12:00:00Z, a duration ago such as 1h30m")
	flags.Int64Var(&reset.shift, "shift", 0, "`records` to move by from what is committed, forward or, negative, back")
	flags.StringVar(&reset.file, "from-file", "", "`file` of lines topic,partition,offset")
	flags.BoolVar(&reset.execute, "execute", false, "write the offsets; without it nothing is changed")
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		ways := 0
		for _, name := range []string{"to", "shift", "from-file"} {
			if command.Flags().Changed(name) {
				ways++
			}
		}
		if ways != 1 {
			return usageErrorf("give one of --to, --shift and --from-file")
		}
		if reset.file != "" && len(reset.topics) > 0 {
			return usageErrorf("--from-file names the partitions itself: leave --topic out")
		}
		return app.withAdmin(ctx, func(admin *kadm.Client) error { return app.resetGroup(ctx, admin, arguments[0], &reset) })
	})
	return command
}

func (app *application) resetGroup(ctx context.Context, admin *kadm.Client, group string, reset *groupReset) error {
	if err := mayReset(ctx, admin, group); err != nil {
		return err
	}
	commits, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return groupFailure(group, err)
	}
	report := resetReport{Group: group, Partitions: []resetOffset{}}
	if reset.file != "" {
		err = report.fromFile(reset.file)
	} else {
		err = report.wanted(ctx, admin, commits, reset)
	}
	if err != nil {
		return err
	}
	if len(report.Partitions) == 0 {
		return &failure{exitNotFound, fmt.Errorf("group %q has committed nothing", group), "name what it is to have: --topic TOPIC"}
	}
	if err := report.bound(ctx, admin, commits); err != nil {
		return err
	}
	if reset.execute {
		if err := report.write(ctx, admin); err != nil {
			return err
		}
	}
	return app.print(report, func() { app.printReset(&report) })
}

// mayReset makes sure that the group has no members. One that is not there yet may get offsets.
func mayReset(ctx context.Context, admin *kadm.Client, group string) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("listing groups: %w", err)
	}
	switch g, ok := listed[group]; {
	case !ok, g.State == "Empty", g.State == "Dead":
		return nil
	default:
		return &failure{exitRefused, fmt.Errorf("group %q is %s: its members would go on where they are and commit over it", group, g.State),
			fmt.Sprintf("stop them first; see who they are: ringlog group describe %s", group)}
	}
}

// wanted works out the partitions that --topic names, and where --to or --shift puts them.
func (r *resetReport) wanted(ctx context.Context, admin *kadm.Client, commits kadm.OffsetResponses, reset *groupReset) error {
	topics := reset.topics
	if len(topics) == 0 {
		for topic, partitions := range commits {
			for partition := range partitions {
				topics = append(topics, topic+":"+strconv.Itoa(int(partition)))
			}
		}
	}
	var to position
	if reset.to != "" {
		var err error
		if to, err = parsePosition("--to", reset.to); err != nil {
			return err
		}
	}
	for _, text := range topics {
		topic, only, err := parseTopicPartitions(text)
		if err != nil {
			return err
		}
		if len(only) == 0 {
			if only, err = partitionsOf(ctx, admin, topic); err != nil {
				return err
			}
		}
		for _, partition := range only {
			offset := resetOffset{Topic: topic, Partition: partition}
			if reset.to == "" {
				commit, ok := commits.Lookup(topic, partition)
				if !ok || commit.At < 0 {
					return &failure{exitNotFound, fmt.Errorf("group %q has committed nothing in partition %d of %q that could be shifted", r.Group, partition, topic),
						"give a place: --to"}
				}
				offset.To = commit.At + reset.shift
			}
			r.Partitions = append(r.Partitions, offset)
		}
	}
	if reset.to == "" {
		return nil
	}
	return r.moveTo(ctx, admin, to)
}

// moveTo asks what a position means in each partition.
func (r *resetReport) moveTo(ctx context.Context, admin *kadm.Client, to position) error {
	topics := r.topics()
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("asking where logs start: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("asking where logs end: %w", err)
	}
	times := kadm.ListedOffsets{}
	if to.kind == positionTime {
		if times, err = admin.ListOffsetsAfterMilli(ctx, to.at.UnixMilli(), topics...); err != nil {
			return fmt.Errorf("asking for offsets at a time: %w", err)
		}
	}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		start, end := starts[p.Topic][p.Partition], ends[p.Topic][p.Partition]
		time := times[p.Topic][p.Partition]
		if err := cmp.Or(start.Err, end.Err, time.Err); err != nil {
			return topicFailure(p.Topic, err)
		}
		p.To = to.offset(start.Offset, end.Offset, time.Offset)
	}
	return nil
}

func (r *resetReport) topics() (topics []string) {
	for _, p := range r.Partitions {
		topics = append(topics, p.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// bound notes what is committed now, and moves what the logs do not hold to where they begin or end.
func (r *resetReport) bound(ctx context.Context, admin *kadm.Client, commits kadm.OffsetResponses) error {
	slices.SortFunc(r.Partitions, func(a, b resetOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	starts, err := admin.ListStartOffsets(ctx, r.topics()...)
	if err != nil {
		return fmt.Errorf("asking where logs start: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, r.topics()...)
	if err != nil {
		return fmt.Errorf("asking where logs end: %w", err)
	}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if i > 0 && p.Topic == r.Partitions[i-1].Topic && p.Partition == r.Partitions[i-1].Partition {
			return usageErrorf("partition %d of %q is named twice", p.Partition, p.Topic)
		}
		start, ok := starts.Lookup(p.Topic, p.Partition)
		end, hasEnd := ends.Lookup(p.Topic, p.Partition)
		switch {
		case !ok, !hasEnd:
			return &failure{exitNotFound, fmt.Errorf("topic %q has no partition %d", p.Topic, p.Partition), "see which there are: ringlog topic describe " + p.Topic}
		case start.Err != nil, end.Err != nil:
			return topicFailure(p.Topic, cmp.Or(start.Err, end.Err))
		}
		if commit, ok := commits.Lookup(p.Topic, p.Partition); ok && commit.At >= 0 {
			p.From = &commit.At
		}
		if bounded := min(max(p.To, start.Offset), end.Offset); bounded != p.To {
			asked := p.To
			p.To, p.Asked = bounded, &asked
		}
	}
	return nil
}

// write commits the offsets.
func (r *resetReport) write(ctx context.Context, admin *kadm.Client) error {
	offsets := kadm.Offsets{}
	for _, p := range r.Partitions {
		offsets.AddOffset(p.Topic, p.Partition, p.To, -1)
	}
	responses, err := admin.CommitOffsets(ctx, r.Group, offsets)
	if err == nil {
		err = responses.Error()
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.RebalanceInProgress) {
		return &failure{exitRefused, fmt.Errorf("group %q has got members meanwhile", r.Group), "stop them and try again"}
	}
	if err != nil {
		return groupFailure(r.Group, err)
	}
	r.Executed = true
	return nil
}

// fromFile reads lines topic,partition,offset. Empty lines and those that begin with # are passed over.
func (r *resetReport) fromFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return usageErrorf("--from-file: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// A topic's name has no comma.
		fields := strings.Split(line, ",")
		if len(fields) != 3 {
			return usageErrorf("%s, line %d: %q is not topic,partition,offset", name, number, line)
		}
		partition, partitionErr := strconv.ParseInt(strings.TrimSpace(fields[1]), 10, 32)
		offset, offsetErr := strconv.ParseInt(strings.TrimSpace(fields[2]), 10, 64)
		if partitionErr != nil || offsetErr != nil || partition < 0 || offset < 0 {
			return usageErrorf("%s, line %d: partition %q and offset %q must be numbers from 0 on", name, number, fields[1], fields[2])
		}
		r.Partitions = append(r.Partitions, resetOffset{Topic: strings.TrimSpace(fields[0]), Partition: int32(partition), To: offset})
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// parseTopicPartitions reads NAME or NAME:0,2.
func parseTopicPartitions(text string) (topic string, partitions []int32, err error) {
	topic, list, some := strings.Cut(text, ":") // no topic's name has a colon
	if topic == "" {
		return "", nil, usageErrorf("--topic %q names no topic", text)
	}
	if !some {
		return topic, nil, nil
	}
	for number := range strings.SplitSeq(list, ",") {
		partition, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
		if err != nil || partition < 0 {
			return "", nil, usageErrorf("--topic %q: %q is no partition", text, number)
		}
		partitions = append(partitions, int32(partition))
	}
	return topic, partitions, nil
}

func (app *application) printReset(r *resetReport) {
	rows := [][]string{{"TOPIC", "PARTITION", "FROM", "TO", "CHANGE", "NOTE"}}
	for _, p := range r.Partitions {
		change, note := "-", ""
		if p.From != nil {
			change = fmt.Sprintf("%+d", p.To-*p.From)
		}
		if p.Asked != nil {
			note = fmt.Sprintf("%d is not in the log", *p.Asked)
		}
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), known(p.From), strconv.FormatInt(p.To, 10), change, note})
	}
	table(app.output, rows)
	if !r.Executed {
		fmt.Fprintln(app.errorOutput, "nothing was changed: to write this, add --execute")
	}
}
