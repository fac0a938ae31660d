package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ringlog/dump"
	"ringlog/meta"
	"ringlog/server"
)

// completionTimeout is how long a person who pressed the tab key waits for a broker.
const completionTimeout = time.Second

// complete tells shells what arguments and flags may be. It is one table, beside the commands: a
// shell asks (ringlog __complete …), and nothing else here depends on it.
func (app *application) complete(root *cobra.Command) {
	arguments := map[string]cobra.CompletionFunc{
		"consume":        atFirst(app.completeTopics),
		"produce":        atFirst(app.completeTopics),
		"topic describe": app.completeTopics,
		"topic delete":   app.completeTopics,
		"topic alter":    app.completeTopics,
		"topic create":   completeNothing,
		"group describe": app.completeGroups,
		"group delete":   app.completeGroups,
		"group reset":    atFirst(app.completeGroups),
		"lag":            app.completeGroups,
		"config list":    app.completeTarget,
		"config get":     app.completeTarget,
		"config set":     app.completeTarget,
		"dump":           completeLogs,
	}
	flags := map[string]cobra.CompletionFunc{
		"topic create --config":   completeNames(topicConfigNames, "="),
		"topic alter --set":       completeNames(topicConfigNames, "="),
		"topic alter --append":    completeNames(topicConfigNames, "="),
		"topic alter --subtract":  completeNames(topicConfigNames, "="),
		"topic alter --unset":     completeNames(topicConfigNames, ""),
		"config set --unset":      app.completeConfigFlag(""),
		"config set --append":     app.completeConfigFlag("="),
		"config set --subtract":   app.completeConfigFlag("="),
		"serve --set":             completeNames(settingNames, "="),
		"doctor --set":            completeNames(settingNames, "="),
		"serve --config":          completeFiles("toml"),
		"doctor --config":         completeFiles("toml"),
		"dump --data-dir":         completeDirectories,
		"serve --data-dir":        completeDirectories,
		"doctor --data-dir":       completeDirectories,
		"serve --io":              oneOf(server.IOAuto, server.IOUring, server.IOPortable),
		"doctor --io":             oneOf(server.IOAuto, server.IOUring, server.IOPortable),
		"produce --codec":         oneOf("none", "gzip", "snappy", "lz4", "zstd"),
		"produce --acks":          oneOf("all", "leader", "none"),
		"produce --input":         oneOf("lines", "json", "whole"),
		"consume --from":          oneOf("beginning", "end"),
		"consume --until":         oneOf("end"),
		"group list --state":      oneOf("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead"),
		"group list --type":       oneOf("classic", "consumer"),
		"group reset --topic":     app.completeTopics,
		"group reset --to":        oneOf("beginning", "end"),
		"group reset --from-file": completeFiles("csv"),
		"perf produce --topic":    app.completeTopics,
		"perf consume --topic":    app.completeTopics,
		"serve --network-engine":  oneOf(server.NetworkLoop, server.NetworkStream),
		"doctor --network-engine": oneOf(server.NetworkLoop, server.NetworkStream),
	}
	everyCommand(root, func(command *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(command.CommandPath(), root.Name()), " ")
		if function, ok := arguments[path]; ok {
			command.ValidArgsFunction = function
		} else if command.ValidArgsFunction == nil && !command.HasSubCommands() {
			command.ValidArgsFunction = completeNothing
		}
		for name, function := range flags {
			of, flag, _ := strings.Cut(name, " --")
			if of != path {
				continue
			}
			if err := command.RegisterFlagCompletionFunc(flag, function); err != nil {
				panic("ringlog: completion of " + name + ": " + err.Error())
			}
		}
	})
}

// everyCommand visits a command and all below it.
func everyCommand(command *cobra.Command, visit func(*cobra.Command)) {
	visit(command)
	for _, below := range command.Commands() {
		everyCommand(below, visit)
	}
}

// completeNothing keeps shells from offering files where a file makes no sense.
func completeNothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeDirectories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeFiles(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// atFirst completes the first argument and nothing after it.
func atFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(arguments) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, arguments, begun)
	}
}

// completeNames completes names that need no broker; suffix "=" says that a value follows.
func completeNames(names func() []string, suffix string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completionsOf(names(), begun, suffix)
	}
}

// oneOf completes words that do not change.
func oneOf(words ...string) cobra.CompletionFunc {
	return completeNames(func() []string { return words }, "")
}

// completionsOf are the names that begin so.
func completionsOf(names []string, begun, suffix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if suffix != "" {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	var matching []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name+suffix, begun) {
			matching = append(matching, name+suffix)
		}
	}
	return matching, directive
}

func topicConfigNames() (names []string) {
	for _, key := range meta.TopicConfigKeys() {
		names = append(names, key.Name)
	}
	return names
}

func settingNames() (names []string) {
	for _, setting := range server.Settings() {
		names = append(names, setting.Name)
	}
	return names
}

// completeTopics asks a broker for its topics. Without a quick answer there are none.
func (app *application) completeTopics(command *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	app.ask(command.Context(), func(ctx context.Context, admin *kadm.Client) {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return
		}
		names = slices.DeleteFunc(topics.Names(), func(name string) bool { return slices.Contains(arguments, name) })
	})
	slices.Sort(names)
	return completionsOf(names, begun, "")
}

func (app *application) completeGroups(command *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	app.ask(command.Context(), func(ctx context.Context, admin *kadm.Client) {
		if groups, err := admin.ListGroups(ctx); err == nil {
			names = slices.DeleteFunc(groups.Groups(), func(name string) bool { return slices.Contains(arguments, name) })
		}
	})
	slices.Sort(names)
	return completionsOf(names, begun, "")
}

// completeTarget completes topic|broker NAME CONFIG... of the commands of config.
func (app *application) completeTarget(command *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(arguments) == 0:
		return completionsOf([]string{"topic", "broker"}, begun, "")
	case len(arguments) == 1 && arguments[0] == "topic":
		return app.completeTopics(command, nil, begun)
	case len(arguments) == 1 && arguments[0] == "broker":
		names := []string{everyBroker}
		app.ask(command.Context(), func(ctx context.Context, admin *kadm.Client) {
			if brokers, err := admin.ListBrokers(ctx); err == nil {
				for _, id := range brokers.NodeIDs() {
					names = append(names, joinNumbers([]int32{id}))
				}
			}
		})
		return completionsOf(names, begun, "")
	case command.Name() == "list":
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	suffix := ""
	if command.Name() == "set" {
		suffix = "="
	}
	return completionsOf(app.configNames(command.Context(), arguments), begun, suffix)
}

// completeConfigFlag completes the flags of config set, which go by its arguments.
func (app *application) completeConfigFlag(suffix string) cobra.CompletionFunc {
	return func(command *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(arguments) < 2 {
			return completionsOf(topicConfigNames(), begun, suffix)
		}
		return completionsOf(app.configNames(command.Context(), arguments), begun, suffix)
	}
}

// configNames are the configurations of the target. A broker is asked for those of a topic, as it may be
// another than Ringlog; when it does not answer they are Ringlog's.
func (app *application) configNames(ctx context.Context, arguments []string) (names []string) {
	target, err := parseTarget(arguments[0], arguments[1])
	if err != nil {
		return nil
	}
	if target.kind == kmsg.ConfigResourceTypeBroker { // those of all brokers are the same
		for _, key := range meta.BrokerConfigKeys() {
			names = append(names, key.Name)
		}
		return names
	}
	app.ask(ctx, func(ctx context.Context, admin *kadm.Client) {
		described, err := admin.DescribeTopicConfigs(ctx, target.name)
		if err != nil {
			return
		}
		for _, resource := range described {
			for _, config := range resource.Configs {
				names = append(names, config.Key)
			}
		}
	})
	if len(names) == 0 {
		return topicConfigNames()
	}
	slices.Sort(names)
	return names
}

// ask runs a function with a broker, if one answers quickly.
func (app *application) ask(ctx context.Context, function func(context.Context, *kadm.Client)) {
	if ctx == nil {
		ctx = context.Background()
	}
	app.timeout = completionTimeout
	client, err := app.plainClient(app.brokerList()...)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	function(ctx, kadm.NewClient(client))
}

// completeLogs completes the names of partitions in a data directory, and files.
func completeLogs(command *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dataDir, err := command.Flags().GetString("data-dir")
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	s, err := dump.Open(os.DirFS(server.LogsDirectory(dataDir)))
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, id := range s.LogIDs {
		if log, err := s.Log(id); err == nil {
			names = append(names, log.Manifest.Label)
		}
	}
	slices.Sort(names)
	matching, _ := completionsOf(names, begun, "")
	return matching, cobra.ShellCompDirectiveDefault // and files
}
