package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionReport says which build this is; --json prints it as it is.
type versionReport struct {
	Version  string `json:"version"`          // module version, "(devel)" for a build from a work tree
	Commit   string `json:"commit,omitempty"` // empty when built without version control
	Time     string `json:"time,omitempty"`   // of the commit
	Modified bool   `json:"modified"`         // the work tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion reads what the toolchain wrote into the binary.
func buildVersion() versionReport {
	report := versionReport{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return report
	}
	report.Version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			report.Commit = setting.Value
		case "vcs.time":
			report.Time = setting.Value
		case "vcs.modified":
			report.Modified = setting.Value == "true"
		}
	}
	return report
}

// softwareVersion is the version in the form that brokers accept (KIP-511):
// letters and digits, with dots and dashes between them.
func softwareVersion() string {
	version := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		case r == '+':
			return '-'
		}
		return -1
	}, buildVersion().Version)
	return strings.Trim(version, ".-")
}

func newVersion(app *application) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and toolchain of this binary",
		Example: "  ringlog version --json",
		Args:    exactly(),
		RunE: app.runs(func(context.Context, []string) error {
			report := buildVersion()
			return app.print(report, func() {
				commit := report.Commit
				switch {
				case commit == "":
					commit = "unknown (built without version control)"
				case report.Modified:
					commit += ", with changes"
				}
				fmt.Fprintf(app.output, "ringlog %s\ncommit  %s\ngo      %s %s\n", report.Version, commit, report.Go, report.Platform)
			})
		}),
	}
}
