package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const defaultBrokers = "127.0.0.1:9092"

// application is one invocation: its surroundings and the flags that all
// commands share.
type application struct {
	environment
	json      bool
	jsonLines bool // a command prints several JSON values, each on a line
	brokers   string
	timeout   time.Duration
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, env environment, arguments []string) exitCode {
	app := &application{environment: env}
	root := newRoot(app)
	root.SetArgs(arguments)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		// Everything that our commands return is a failure, so this is cobra's.
		f = usageFailure(err, command)
	}
	app.reportFailure(f)
	return f.code
}

func newRoot(app *application) *cobra.Command {
	root := &cobra.Command{
		Use:   "ringlog",
		Short: "A partitioned, append-only log that Kafka clients use unchanged",
		Long: `Ringlog is a partitioned, append-only log that Kafka clients use unchanged.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no broker reached, 4 no such topic or
partition, 5 refused by the broker, 6 damage found by dump --verify, 7 warnings of doctor,
8 errors of doctor, 130 interrupted.`,
		Example: `  ringlog serve --data-dir ./data
  ringlog topic create orders --partitions 3
  echo 'order-1:paid' | ringlog produce orders --key-delimiter :
  ringlog consume orders --until end`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return command.Help()
		},
	}
	root.SetIn(app.input)
	root.SetOut(app.output)
	root.SetErr(app.errorOutput)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.PersistentFlags().BoolVar(&app.json, "json", false, "print JSON instead of text")
	root.PersistentFlags().SortFlags = false
	root.AddCommand(
		newServe(app),
		newSettings(app),
		newTopic(app),
		newConfig(app),
		newProduce(app),
		newConsume(app),
		newGroup(app),
		newLag(app),
		newDoctor(app),
		newDump(app),
		newPerf(app),
		newVersion(app),
	)
	app.complete(root)
	return root
}

// runs adapts a command's function: whatever it returns becomes a failure with
// an exit code.
func (app *application) runs(function func(ctx context.Context, arguments []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, arguments []string) error {
		if err := function(command.Context(), arguments); err != nil {
			return app.explain(err)
		}
		return nil
	}
}

// clientFlags adds what every command that talks to a broker takes.
func (app *application) clientFlags(command *cobra.Command) {
	brokers := app.variable("RINGLOG_BROKERS")
	if brokers == "" {
		brokers = defaultBrokers
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&app.brokers, "brokers", brokers, "`addresses` to start from, separated by commas (or set RINGLOG_BROKERS)")
	flags.DurationVar(&app.timeout, "timeout", 10*time.Second, "how long to try to reach a broker, and to wait for one answer")
}

// brokerList returns the addresses of --brokers.
func (app *application) brokerList() (addresses []string) {
	for address := range strings.SplitSeq(app.brokers, ",") {
		if address = strings.TrimSpace(address); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// exactly demands its arguments by name: exactly("TOPIC").
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, arguments []string) error {
		if len(arguments) < len(names) {
			return fmt.Errorf("%s is missing", strings.Join(names[len(arguments):], " "))
		}
		if len(arguments) > len(names) {
			return fmt.Errorf("%q is one argument too many", arguments[len(names)])
		}
		return nil
	}
}

// atLeastOne demands one argument or more of a name.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}
