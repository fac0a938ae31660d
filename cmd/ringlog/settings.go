package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ringlog/server"
)

// settingReport describes one setting of serve; --json prints it as it is.
type settingReport struct {
	Name          string `json:"name"`
	KafkaName     string `json:"kafka_name,omitempty"` // empty when Kafka has no such setting
	Default       string `json:"default"`              // empty when the setting is then not set at all
	Documentation string `json:"documentation"`
}

func newSettings(app *application) *cobra.Command {
	return &cobra.Command{
		Use:   "settings",
		Short: "List every setting of a broker, with its default",
		Long: `List every setting of a broker, with its default and what it does: what serve takes with --set and
from the file of --config. Where Kafka has another name for one, it follows, and works too.`,
		Example: `  ringlog settings
  ringlog settings --json | jq -r '.[].name'`,
		Args: exactly(),
		RunE: app.runs(func(context.Context, []string) error {
			var settings []settingReport
			for _, setting := range server.Settings() {
				settings = append(settings, settingReport{setting.Name, setting.Kafka, setting.Default, setting.Documentation})
			}
			return app.print(settings, func() {
				for _, setting := range settings {
					app.printSetting(setting)
				}
			})
		}),
	}
}

func (app *application) printSetting(setting settingReport) {
	fmt.Fprint(app.output, setting.Name)
	if setting.KafkaName != "" && setting.KafkaName != setting.Name {
		fmt.Fprintf(app.output, ", Kafka's %s", setting.KafkaName)
	}
	if setting.Default == "" {
		fmt.Fprint(app.output, " (not set)")
	} else {
		fmt.Fprintf(app.output, " (default %s)", setting.Default)
	}
	fmt.Fprintf(app.output, "\n    %s\n", setting.Documentation)
}
