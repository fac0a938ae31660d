package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroup(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
		Example: `  ringlog group list
  ringlog group describe billing
  ringlog group reset billing --topic orders --to 2h`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newGroupList(app), newGroupDescribe(app), newGroupReset(app), newGroupDelete(app))
	return command
}

// groupListing is one group as the list has it.
type groupListing struct {
	Group string `json:"group"`
	// Type is classic, where the clients assign partitions, or consumer, where the broker does (KIP-848).
	Type         string `json:"type,omitempty"`
	State        string `json:"state"`
	ProtocolType string `json:"protocol_type,omitempty"`
	Coordinator  int32  `json:"coordinator"`
}

func newGroupList(app *application) *cobra.Command {
	var states, types []string
	command := &cobra.Command{
		Use:   "list",
		Short: "List consumer groups",
		Example: `  ringlog group list
  ringlog group list --state Empty --json`,
		Args: cobra.NoArgs,
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.StringSliceVar(&states, "state", nil, "only groups in these `states`: Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Dead")
	flags.StringSliceVar(&types, "type", nil, "only groups of these `types`: classic, consumer")
	command.RunE = app.runs(func(ctx context.Context, _ []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			groups, err := admin.ListGroupsByType(ctx, types, states...)
			if err != nil {
				return fmt.Errorf("listing groups: %w", err)
			}
			listings := []groupListing{}
			for _, g := range groups.Sorted() {
				listings = append(listings, groupListing{g.Group, g.GroupType, g.State, g.ProtocolType, g.Coordinator})
			}
			return app.print(listings, func() {
				if len(listings) == 0 {
					fmt.Fprintln(app.errorOutput, "there are no such groups")
					return
				}
				rows := [][]string{{"GROUP", "TYPE", "STATE", "PROTOCOL TYPE", "COORDINATOR"}}
				for _, g := range listings {
					rows = append(rows, []string{g.Group, g.Type, g.State, g.ProtocolType, strconv.Itoa(int(g.Coordinator))})
				}
				table(app.output, rows)
			})
		})
	})
	return command
}

// groupOutcome is what happened to one group.
type groupOutcome struct {
	Group   string `json:"group"`
	Outcome string `json:"outcome"` // deleted, absent, failed
	Error   string `json:"error,omitempty"`
}

func newGroupDelete(app *application) *cobra.Command {
	var ifExists bool
	command := &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete consumer groups with their committed offsets",
		Long: `Delete consumer groups with their committed offsets. A group that has members is refused. Whoever joins under that
name later starts where its auto.offset.reset says.`,
		Example: "  ringlog group delete billing",
		Args:    atLeastOne("GROUP"),
	}
	app.clientFlags(command)
	command.Flags().BoolVar(&ifExists, "if-exists", false, "succeed when a group is not there")
	command.RunE = app.runs(func(ctx context.Context, groups []string) error {
		return app.withAdmin(ctx, func(admin *kadm.Client) error {
			deleted, err := admin.DeleteGroups(ctx, groups...)
			if err != nil {
				return fmt.Errorf("deleting groups: %w", err)
			}
			return app.reportGroupDeletions(groups, deleted, ifExists)
		})
	})
	return command
}

func (app *application) reportGroupDeletions(groups []string, deleted kadm.DeleteGroupResponses, ifExists bool) error {
	var outcomes []groupOutcome
	var first error
	for _, group := range groups {
		response := deleted[group]
		outcome := groupOutcome{Group: group, Outcome: "deleted"}
		switch err := response.Err; {
		case err == nil:
		case ifExists && errors.Is(err, kerr.GroupIDNotFound):
			outcome.Outcome = "absent"
		default:
			err = groupFailure(group, brokerError(err, response.ErrMessage))
			outcome.Outcome, outcome.Error = "failed", err.Error()
			if first == nil {
				first = err
			}
		}
		outcomes = append(outcomes, outcome)
	}
	err := app.print(outcomes, func() {
		for _, outcome := range outcomes {
			if outcome.Error == "" {
				fmt.Fprintf(app.output, "group %s: %s\n", outcome.Group, outcome.Outcome)
			}
		}
	})
	if first != nil {
		return first
	}
	return err
}

// groupFailure says of a group what to do about an error.
func groupFailure(group string, err error) error {
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return &failure{exitNotFound, fmt.Errorf("there is no group %q", group), "see which there are: ringlog group list"}
	case errors.Is(err, kerr.NonEmptyGroup):
		return &failure{exitRefused, fmt.Errorf("group %q has members", group),
			fmt.Sprintf("stop them first; see who they are: ringlog group describe %s", group)}
	}
	return fmt.Errorf("group %q: %w", group, err)
}

// listedGroups returns the listings of the groups of these names, all for none, in order of their names.
func listedGroups(ctx context.Context, admin *kadm.Client, names []string) ([]kadm.ListedGroup, error) {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing groups: %w", err)
	}
	if len(names) == 0 {
		return listed.Sorted(), nil
	}
	var groups []kadm.ListedGroup
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		group, ok := listed[name]
		if !ok {
			return nil, groupFailure(name, kerr.GroupIDNotFound)
		}
		groups = append(groups, group)
	}
	return groups, nil
}
