package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// groupReport is one group: who is in it, and how far it has come.
type groupReport struct {
	groupListing
	// Protocol is the assignor that is in use.
	Protocol string `json:"protocol,omitempty"`
	// Epoch is the group's, where the broker assigns; the classic protocol does not tell its generation.
	Epoch      *int32           `json:"epoch,omitempty"`
	Members    []memberReport   `json:"members"`
	Partitions []progressReport `json:"partitions"`
	// Lag is how many records of all its partitions are not committed yet, Lost how many it can never read any more.
	Lag  int64 `json:"lag"`
	Lost int64 `json:"lost,omitempty"`
}

// memberReport is one member of a group.
type memberReport struct {
	Member     string `json:"member"`
	Instance   string `json:"instance,omitempty"`
	Client     string `json:"client"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"`
	// Idle: it has nothing to read, because there are more members than partitions.
	Idle bool `json:"idle,omitempty"`
}

// progressReport is how far a group has come in one partition. What is not known is null.
type progressReport struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"`
	Start     *int64 `json:"start"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	// Lost is how many records between the commit and the start of the log were deleted unread.
	Lost   int64  `json:"lost,omitempty"`
	Member string `json:"member,omitempty"`
	Client string `json:"client,omitempty"`
	Error  string `json:"error,omitempty"`
}

func newGroupDescribe(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "describe [GROUP...]",
		Short: "Show members, committed offsets and lag of consumer groups",
		Long: `Show members, committed offsets and lag of consumer groups, of all without a name. LAG counts the records that are not
committed yet. LOST counts those that were deleted by retention before the group had read them.`,
		Example: `  ringlog group describe billing
  ringlog group describe --json`,
		Args: cobra.ArbitraryArgs,
	}
	app.clientFlags(command)
	command.RunE = app.runs(func(ctx context.Context, names []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			reports, err := describeGroups(ctx, admin, names)
			if err != nil {
				return err
			}
			return app.print(reports, func() {
				for i := range reports {
					if i > 0 {
						fmt.Fprintln(app.output)
					}
					app.printGroup(&reports[i])
				}
				if len(reports) == 0 {
					fmt.Fprintln(app.errorOutput, "there are no groups")
				}
			})
		})
	})
	return command
}

// describeGroups asks for everything about the groups of these names, or of all.
func describeGroups(ctx context.Context, admin *kadm.Client, names []string) ([]groupReport, error) {
	listed, err := listedGroups(ctx, admin, names)
	if err != nil || len(listed) == 0 {
		return []groupReport{}, err
	}
	reports := make([]groupReport, len(listed))
	assigned := make([]map[string]map[int32]memberReport, len(listed))
	for i, g := range listed {
		reports[i].groupListing = groupListing{g.Group, g.GroupType, g.State, g.ProtocolType, g.Coordinator}
		if assigned[i], err = reports[i].takeMembers(ctx, admin); err != nil {
			return nil, err
		}
	}
	all := make([]string, len(listed))
	for i, g := range listed {
		all[i] = g.Group
	}
	fetched := admin.FetchManyOffsets(ctx, all...)
	topics := kadm.TopicsSet{}
	for i := range reports {
		offsets := fetched[reports[i].Group]
		if offsets.Err != nil {
			return nil, groupFailure(reports[i].Group, offsets.Err)
		}
		reports[i].takeCommits(offsets.Fetched, assigned[i])
		for _, p := range reports[i].Partitions {
			topics.Add(p.Topic)
		}
	}
	if len(topics) == 0 {
		return reports, nil
	}
	starts, err := admin.ListStartOffsets(ctx, topics.Topics()...)
	if err != nil {
		return nil, fmt.Errorf("asking where logs start: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topics.Topics()...)
	if err != nil {
		return nil, fmt.Errorf("asking where logs end: %w", err)
	}
	for i := range reports {
		reports[i].takeBounds(starts, ends)
	}
	return reports, nil
}

// takeMembers asks for the members of a group, by the API that its type has, and returns who has which partition.
func (r *groupReport) takeMembers(ctx context.Context, admin *kadm.Client) (map[string]map[int32]memberReport, error) {
	r.Members = []memberReport{}
	owners := map[string]map[int32]memberReport{}
	own := func(member *memberReport, topic string, partitions []int32) {
		if owners[topic] == nil {
			owners[topic] = map[int32]memberReport{}
		}
		for _, partition := range partitions {
			owners[topic][partition] = *member
			member.Partitions++
		}
	}
	if r.Type == "consumer" {
		described, err := admin.DescribeConsumerGroups(ctx, r.Group)
		if err == nil {
			err = described[r.Group].Err
		}
		if err != nil {
			return nil, groupFailure(r.Group, err)
		}
		g := described[r.Group]
		r.State, r.Protocol, r.Epoch = g.State, g.AssignorName, &g.Epoch
		for _, m := range g.Members {
			member := memberReport{Member: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
			if m.InstanceID != nil {
				member.Instance = *m.InstanceID
			}
			for topic, partitions := range m.Assignment {
				own(&member, topic, mapped(partitions))
			}
			r.Members = append(r.Members, member)
		}
	} else {
		described, err := admin.DescribeGroups(ctx, r.Group)
		if err == nil {
			err = described[r.Group].Err
		}
		if err != nil {
			return nil, groupFailure(r.Group, err)
		}
		g := described[r.Group]
		r.State, r.Protocol = g.State, g.Protocol
		for _, m := range g.Members {
			member := memberReport{Member: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
			if m.InstanceID != nil {
				member.Instance = *m.InstanceID
			}
			if assignment, ok := m.Assigned.AsConsumer(); ok {
				for _, topic := range assignment.Topics {
					own(&member, topic.Topic, topic.Partitions)
				}
			}
			r.Members = append(r.Members, member)
		}
	}
	for i := range r.Members {
		r.Members[i].Idle = r.State == "Stable" && r.Members[i].Partitions == 0
	}
	return owners, nil
}

// mapped returns the members of a set of partitions.
func mapped(set map[int32]struct{}) (partitions []int32) {
	for partition := range set {
		partitions = append(partitions, partition)
	}
	return partitions
}

// takeCommits makes a row for every partition that has a commit or an owner.
func (r *groupReport) takeCommits(commits kadm.OffsetResponses, owners map[string]map[int32]memberReport) {
	r.Partitions = []progressReport{}
	row := func(topic string, partition int32) *progressReport {
		owner := owners[topic][partition]
		r.Partitions = append(r.Partitions, progressReport{Topic: topic, Partition: partition, Member: owner.Member, Client: owner.Client})
		return &r.Partitions[len(r.Partitions)-1]
	}
	commits.Each(func(response kadm.OffsetResponse) {
		p := row(response.Topic, response.Partition)
		switch {
		case response.Err != nil:
			p.Error = response.Err.Error()
		case response.At >= 0:
			p.Committed = &response.At
		}
	})
	for topic, partitions := range owners {
		for partition := range partitions {
			if _, ok := commits.Lookup(topic, partition); !ok {
				row(topic, partition)
			}
		}
	}
	slices.SortFunc(r.Partitions, func(a, b progressReport) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// takeBounds compares the commits with what the logs hold.
func (r *groupReport) takeBounds(starts, ends kadm.ListedOffsets) {
	for i := range r.Partitions {
		p := &r.Partitions[i]
		start, hasStart := starts.Lookup(p.Topic, p.Partition)
		end, hasEnd := ends.Lookup(p.Topic, p.Partition)
		if !hasStart || !hasEnd || start.Err != nil || end.Err != nil {
			if p.Error == "" {
				p.Error = cmp.Or(start.Err, end.Err, fmt.Errorf("the partition is not there")).Error()
			}
			continue
		}
		p.Start, p.End = &start.Offset, &end.Offset
		if p.Committed == nil {
			continue
		}
		p.Lost = max(start.Offset-*p.Committed, 0)
		lag := max(end.Offset-max(*p.Committed, start.Offset), 0)
		p.Lag = &lag
		r.Lag += lag
		r.Lost += p.Lost
	}
}

func (app *application) printGroup(r *groupReport) {
	fmt.Fprintf(app.output, "group %s: %s, %s, %s", r.Group, cmp.Or(r.Type, "classic"), r.State, count(len(r.Members), "member"))
	if r.Protocol != "" {
		fmt.Fprintf(app.output, ", %s", r.Protocol)
	}
	if r.Epoch != nil {
		fmt.Fprintf(app.output, ", epoch %d", *r.Epoch)
	}
	fmt.Fprintf(app.output, ", lag %d", r.Lag)
	if r.Lost > 0 {
		fmt.Fprintf(app.output, ", %d lost to retention", r.Lost)
	}
	fmt.Fprintln(app.output)
	if len(r.Partitions) > 0 {
		rows := [][]string{{"TOPIC", "PARTITION", "COMMITTED", "START", "END", "LAG", "LOST", "MEMBER", "CLIENT"}}
		for _, p := range r.Partitions {
			row := []string{
				p.Topic, strconv.Itoa(int(p.Partition)), known(p.Committed), known(p.Start), known(p.End), known(p.Lag),
				strconv.FormatInt(p.Lost, 10), cmp.Or(p.Member, "-"), cmp.Or(p.Client, "-"),
			}
			if p.Error != "" {
				row = append(row, p.Error)
			}
			rows = append(rows, row)
		}
		table(app.output, rows)
	}
	for _, m := range r.Members {
		if m.Idle {
			fmt.Fprintf(app.output, "member %s (%s, %s) is idle: the group has more members than partitions to read\n", m.Member, m.Client, m.Host)
		}
	}
}

// known writes a number that may be unknown.
func known(number *int64) string {
	if number == nil {
		return "-"
	}
	return strconv.FormatInt(*number, 10)
}
