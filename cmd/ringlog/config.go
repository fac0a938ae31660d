package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newConfig(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Show and change the configuration of topics and brokers",
		Long: `Show and change the configuration of topics and brokers. What they are about is named by two words:
topic NAME, broker ID, or broker all for what holds on all brokers that have no value of their own.`,
		Example: `  ringlog config list topic orders
  ringlog config get broker 1 log.retention.ms
  ringlog config set broker all log.retention.ms=86400000`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newConfigList(app), newConfigGet(app), newConfigSet(app))
	return command
}

// configTarget is a topic or broker whose configuration is meant.
type configTarget struct {
	kind kmsg.ConfigResourceType
	name string // "" is all brokers
}

// everyBroker is how the command line names all brokers.
const everyBroker = "all"

// parseTarget reads the two words that name a topic or broker.
func parseTarget(kind, name string) (configTarget, error) {
	switch kind {
	case "topic":
		return configTarget{kmsg.ConfigResourceTypeTopic, name}, nil
	case "broker":
		if name == everyBroker {
			return configTarget{kind: kmsg.ConfigResourceTypeBroker}, nil
		}
		if _, err := strconv.ParseInt(name, 10, 32); err != nil {
			return configTarget{}, usageErrorf("%q is neither a broker's id nor %q", name, everyBroker)
		}
		return configTarget{kmsg.ConfigResourceTypeBroker, name}, nil
	}
	return configTarget{}, usageErrorf("%q is neither topic nor broker", kind)
}

func (t configTarget) String() string {
	switch {
	case t.kind == kmsg.ConfigResourceTypeTopic:
		return fmt.Sprintf("topic %q", t.name)
	case t.name == "":
		return "all brokers"
	}
	return "broker " + t.name
}

// configReport is all that a broker tells of one configuration.
type configReport struct {
	Name          string         `json:"name"`
	Value         *string        `json:"value"` // null: there is none, or it is a secret
	Source        string         `json:"source"`
	Type          string         `json:"type"`
	ReadOnly      bool           `json:"read_only"`
	Sensitive     bool           `json:"sensitive"`
	Documentation string         `json:"documentation,omitempty"`
	Synonyms      []configSource `json:"synonyms"` // all values that there are, the one that holds first
}

// configSource is one of the values that stand behind a configuration.
type configSource struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

// describe asks for configurations of a target; no names are all.
func (app *application) describe(ctx context.Context, target configTarget, names []string) ([]configReport, error) {
	client, err := app.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.IncludeSynonyms, request.IncludeDocumentation = true, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = target.kind, target.name, names
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking for the configuration of %s: %w", target, err)
	}
	described := response.Resources[0]
	if err := kerr.ErrorForCode(described.ErrorCode); err != nil {
		if target.kind == kmsg.ConfigResourceTypeTopic && isMissing(err) {
			return nil, topicFailure(target.name, err)
		}
		return nil, fmt.Errorf("configuration of %s: %w", target, brokerError(err, textOf(described.ErrorMessage)))
	}
	reports := []configReport{}
	for _, config := range described.Configs {
		report := configReport{Name: config.Name, Value: config.Value, Source: strings.ToLower(config.Source.String()), Type: strings.ToLower(config.ConfigType.String()),
			ReadOnly: config.ReadOnly, Sensitive: config.IsSensitive, Documentation: textOf(config.Documentation), Synonyms: []configSource{}}
		for _, synonym := range config.ConfigSynonyms {
			report.Synonyms = append(report.Synonyms, configSource{synonym.Name, synonym.Value, strings.ToLower(synonym.Source.String())})
		}
		reports = append(reports, report)
	}
	slices.SortFunc(reports, func(a, b configReport) int { return strings.Compare(a.Name, b.Name) })
	return reports, nil
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// shown is a value for people.
func (r *configReport) shown() string {
	switch {
	case r.Sensitive:
		return "(secret)"
	case r.Value == nil:
		return "(not set)"
	}
	return *r.Value
}

func newConfigList(app *application) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list topic|broker NAME",
		Short: "List what is configured, and with --all the defaults too",
		Example: `  ringlog config list topic orders
  ringlog config list broker 1 --all --json`,
		Args: exactly("topic|broker", "NAME"),
	}
	app.clientFlags(command)
	command.Flags().BoolVar(&all, "all", false, "list defaults too")
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		target, err := parseTarget(arguments[0], arguments[1])
		if err != nil {
			return err
		}
		reports, err := app.describe(ctx, target, nil)
		if err != nil {
			return err
		}
		if !all {
			reports = slices.DeleteFunc(reports, func(r configReport) bool { return r.Source == strings.ToLower(kmsg.ConfigSourceDefaultConfig.String()) })
		}
		return app.print(reports, func() {
			if len(reports) == 0 {
				fmt.Fprintf(app.errorOutput, "Nothing is configured on %s: the defaults hold. See them: --all\n", target)
				return
			}
			rows := [][]string{{"NAME", "VALUE", "SOURCE"}}
			for i := range reports {
				rows = append(rows, []string{reports[i].Name, reports[i].shown(), reports[i].Source})
			}
			table(app.output, rows)
		})
	})
	return command
}

func newConfigGet(app *application) *cobra.Command {
	command := &cobra.Command{
		Use:   "get topic|broker NAME CONFIG...",
		Short: "Show configurations: what holds, and what stands behind it",
		Example: `  ringlog config get topic orders retention.ms
  ringlog config get broker 1 log.retention.ms --json | jq -r '.[0].value'`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if names := []string{"topic|broker", "NAME", "CONFIG"}; len(arguments) < len(names) {
				return fmt.Errorf("%s is missing", strings.Join(names[len(arguments):], " "))
			}
			return nil
		},
	}
	app.clientFlags(command)
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		target, err := parseTarget(arguments[0], arguments[1])
		if err != nil {
			return err
		}
		names := arguments[2:]
		reports, err := app.describe(ctx, target, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.ContainsFunc(reports, func(r configReport) bool { return r.Name == name }) {
				return &failure{exitNotFound, fmt.Errorf("%s has no configuration %s", target, name),
					fmt.Sprintf("see which there are: ringlog config list %s %s --all", arguments[0], arguments[1])}
			}
		}
		return app.print(reports, func() {
			for i := range reports {
				app.printConfig(&reports[i])
			}
		})
	})
	return command
}

func (app *application) printConfig(r *configReport) {
	fmt.Fprintf(app.output, "%s=%s\n", r.Name, r.shown())
	details := []string{r.Type, "from " + r.Source}
	if r.ReadOnly {
		details = append(details, "cannot be changed while the broker runs")
	}
	fmt.Fprintf(app.output, "    %s\n", strings.Join(details, ", "))
	if r.Documentation != "" {
		fmt.Fprintf(app.output, "    %s\n", r.Documentation)
	}
	for _, synonym := range r.Synonyms {
		value := "(not set)"
		if synonym.Value != nil {
			value = *synonym.Value
		}
		fmt.Fprintf(app.output, "    %s: %s=%s\n", synonym.Source, synonym.Name, value)
	}
}

// configFlags are the flags that say what to change.
type configFlags struct {
	set, unset, add, subtract []string
}

func (f *configFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.set, "set", nil, "set a configuration, as `name=value`; may be repeated")
	flags.StringArrayVar(&f.unset, "unset", nil, "go back to the default of a configuration, by its `name`; may be repeated")
	flags.StringArrayVar(&f.add, "append", nil, "add items to a list, as `name=item,item`; may be repeated")
	flags.StringArrayVar(&f.subtract, "subtract", nil, "take items out of a list, as `name=item,item`; may be repeated")
}

// alterations turns the flags into what a broker is asked for.
func (f *configFlags) alterations() ([]kadm.AlterConfig, error) {
	var changes []kadm.AlterConfig
	named := make(map[string]bool)
	add := func(op kadm.IncrementalOp, name string, value *string) error {
		if name == "" || named[name] {
			return usageErrorf("configuration %q is named twice, or not at all", name)
		}
		named[name] = true
		changes = append(changes, kadm.AlterConfig{Op: op, Name: name, Value: value})
		return nil
	}
	for _, group := range []struct {
		flag string
		op   kadm.IncrementalOp
		list []string
	}{{"--set", kadm.SetConfig, f.set}, {"--append", kadm.AppendConfig, f.add}, {"--subtract", kadm.SubtractConfig, f.subtract}} {
		for _, text := range group.list {
			name, value, found := strings.Cut(text, "=")
			if !found {
				return nil, usageErrorf("%s %q is not name=value", group.flag, text)
			}
			if err := add(group.op, name, &value); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range f.unset {
		if err := add(kadm.DeleteConfig, name, nil); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// configChangeText writes a change for people: name=value, name+=items, name-=items, -name.
func configChangeText(change kadm.AlterConfig) string {
	switch change.Op {
	case kadm.DeleteConfig:
		return "-" + change.Name
	case kadm.AppendConfig:
		return fmt.Sprintf("%s+=%s", change.Name, textOf(change.Value))
	case kadm.SubtractConfig:
		return fmt.Sprintf("%s-=%s", change.Name, textOf(change.Value))
	}
	return fmt.Sprintf("%s=%s", change.Name, textOf(change.Value))
}

// configOutcome is what a `config set` did.
type configOutcome struct {
	Target  string   `json:"target"`
	Outcome string   `json:"outcome"` // altered, would alter
	Configs []string `json:"configs"`
}

func newConfigSet(app *application) *cobra.Command {
	var (
		changes configFlags
		dryRun  bool
	)
	command := &cobra.Command{
		Use:   "set topic|broker NAME [CONFIG=VALUE...]",
		Short: "Change configurations, at once and lastingly",
		Long: `Change configurations. They hold at once, and are kept with the cluster's metadata: a broker's flags
and file stay as they are, and give way. All changes of one call are made, or none.`,
		Example: `  ringlog config set topic orders retention.ms=86400000 segment.ms=3600000
  ringlog config set topic orders --unset retention.ms
  ringlog config set broker all log.retention.ms=604800000 --dry-run`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if names := []string{"topic|broker", "NAME"}; len(arguments) < len(names) {
				return fmt.Errorf("%s is missing", strings.Join(names[len(arguments):], " "))
			}
			return nil
		},
	}
	app.clientFlags(command)
	changes.register(command.Flags())
	command.Flags().BoolVar(&dryRun, "dry-run", false, "have the broker check the changes, and make none")
	command.RunE = app.runs(func(ctx context.Context, arguments []string) error {
		target, err := parseTarget(arguments[0], arguments[1])
		if err != nil {
			return err
		}
		changes.set = append(changes.set, arguments[2:]...)
		alterations, err := changes.alterations()
		if err != nil {
			return err
		}
		if len(alterations) == 0 {
			return usageErrorf("there is nothing to do: name a CONFIG=VALUE, or give --unset, --append or --subtract")
		}
		return app.setConfigs(ctx, target, alterations, dryRun)
	})
	return command
}

func (app *application) setConfigs(ctx context.Context, target configTarget, alterations []kadm.AlterConfig, dryRun bool) error {
	return app.withAdmin(ctx, func(admin *kadm.Client) error {
		altered, err := alterTarget(ctx, admin, target, alterations, dryRun)
		if err != nil {
			return fmt.Errorf("altering %s: %w", target, err)
		}
		if len(altered) == 0 {
			return fmt.Errorf("altering %s: %w", target, errors.New("the broker has not answered"))
		}
		if response := altered[0]; response.Err != nil {
			if target.kind == kmsg.ConfigResourceTypeTopic && isMissing(response.Err) {
				return topicFailure(target.name, response.Err)
			}
			return fmt.Errorf("%s: %w", target, brokerError(response.Err, response.ErrMessage))
		}
		outcome := configOutcome{Target: target.String(), Outcome: "altered"}
		if dryRun {
			outcome.Outcome = "would alter"
		}
		for _, change := range alterations {
			outcome.Configs = append(outcome.Configs, configChangeText(change))
		}
		return app.print(outcome, func() {
			fmt.Fprintf(app.output, "%s %s: %s\n", outcome.Outcome, outcome.Target, strings.Join(outcome.Configs, " "))
		})
	})
}

// alterTarget has the broker make changes, or check them.
func alterTarget(ctx context.Context, admin *kadm.Client, target configTarget, alterations []kadm.AlterConfig, dryRun bool) (kadm.AlterConfigsResponses, error) {
	if target.kind == kmsg.ConfigResourceTypeTopic {
		if dryRun {
			return admin.ValidateAlterTopicConfigs(ctx, alterations, target.name)
		}
		return admin.AlterTopicConfigs(ctx, alterations, target.name)
	}
	var brokers []int32 // none is all
	if target.name != "" {
		id, err := strconv.ParseInt(target.name, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("broker %s: %w", target.name, err)
		}
		brokers = append(brokers, int32(id))
	}
	if dryRun {
		return admin.ValidateAlterBrokerConfigs(ctx, alterations, brokers...)
	}
	return admin.AlterBrokerConfigs(ctx, alterations, brokers...)
}
