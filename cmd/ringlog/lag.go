package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"ringlog/lag"
)

// lagReport is how far a group is behind in one partition. What is not known is null.
type lagReport struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Start     *int64 `json:"start"`
	End       *int64 `json:"end"`
	// Lag counts records, Seconds is the age of the one that comes next.
	Lag     *int64   `json:"lag"`
	Seconds *float64 `json:"lag_seconds"`

	Produced *float64 `json:"produced_per_second"`
	Consumed *float64 `json:"consumed_per_second"`
	Change   *float64 `json:"change_per_second"`
	// Drain is null too where the group never catches up at this speed.
	Drain       *float64 `json:"drain_seconds"`
	NeverDrains bool     `json:"never_drains,omitempty"`

	// The shares of retention that are used up, 1 being all.
	TimeShare  *float64   `json:"retention_time_consumed"`
	BytesShare *float64   `json:"retention_bytes_consumed"`
	LossAt     *time.Time `json:"loss_at"`
	// What was deleted unread: offsets from LostFrom on, below LostUntil.
	LostFrom  *int64 `json:"lost_from,omitempty"`
	LostUntil *int64 `json:"lost_until,omitempty"`

	Level string `json:"level"` // none, warning, critical, lost
	Stuck bool   `json:"stuck,omitempty"`
	Ahead bool   `json:"ahead,omitempty"`
	Error string `json:"error,omitempty"`

	observedAt time.Time
	urgency    lag.Level
}

func newLag(app *application) *cobra.Command {
	var interval time.Duration
	var watch bool
	command := &cobra.Command{
		Use:   "lag [GROUP...]",
		Short: "Show how far consumer groups are behind, and when that will cost them records",
		Long: `Show how far consumer groups are behind, of all without a name, and when that will cost them records. It looks
twice, --interval apart, because one look has no speed; the worst comes first.

LAG counts the records that are not committed, SECONDS is the age of the first of them by its
own timestamp. CHANGE/S is by how many records the lag grows each second. DRAIN is how long the group takes to catch
up at the speed it has, "never" if it does not get nearer. RETENTION is how much of retention.ms or
retention.bytes it has used up, whichever is more; by bytes that is an estimate. LOSS-AT is from when on records may
be deleted unread, if it goes on like this.

STATE is ok, warning at 50 % of retention, critical at 80 %, or lost; stuck says that the log grew and the
group committed nothing. A group that commits every five seconds looks stuck to an --interval of two.

With --json it prints one list, with --watch one on each line.`,
		Example: `  ringlog lag
  ringlog lag billing --interval 10s
  ringlog lag --watch --json | jq -c '.[] | select(.level != "none")'`,
		Args: cobra.ArbitraryArgs,
	}
	app.clientFlags(command)
	flags := command.Flags()
	flags.DurationVarP(&interval, "interval", "i", 2*time.Second, "time between two looks")
	flags.BoolVarP(&watch, "watch", "w", false, "go on until interrupted, which is no failure")
	command.RunE = app.runs(func(ctx context.Context, groups []string) error {
		if interval <= 0 {
			return usageErrorf("--interval %s leaves no time between two looks", interval)
		}
		return app.lag(ctx, groups, interval, watch)
	})
	return command
}

func (app *application) lag(ctx context.Context, groups []string, interval time.Duration, watch bool) error {
	client, err := app.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(app.timeout.Milliseconds()))
	sampler := lagSampler{client: client, admin: admin, groups: groups}
	before, err := sampler.sample(ctx)
	if err != nil {
		return err
	}
	app.jsonLines = watch
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			if watch {
				return nil
			}
			return ctx.Err()
		case <-again.C:
		}
		now, err := sampler.sample(ctx)
		switch {
		case watch && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		reports := lagReports(now, before)
		if err := app.print(reports, func() { app.printLag(reports, watch) }); err != nil || !watch {
			return err
		}
		before = now
	}
}

// lagReports says what a sample means, the worst first.
func lagReports(now, before lagSample) []lagReport {
	reports := []lagReport{}
	for place, seen := range now {
		report := lagReport{Group: place.group, Topic: place.topic, Partition: place.partition, Committed: seen.observation.Committed,
			Level: lag.LevelNone.String(), observedAt: seen.observation.At}
		if seen.err != nil {
			report.Error = seen.err.Error()
		} else {
			var earlier *lag.Observation
			if previous, ok := before[place]; ok && previous.err == nil {
				earlier = &previous.observation
			}
			report.take(&seen.observation, lag.Analyse(&seen.observation, earlier))
		}
		reports = append(reports, report)
	}
	slices.SortFunc(reports, func(a, b lagReport) int {
		return cmp.Or(-cmp.Compare(a.urgency, b.urgency), -cmp.Compare(a.share(), b.share()), -cmp.Compare(a.records(), b.records()),
			cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return reports
}

func (r *lagReport) take(o *lag.Observation, analysis lag.Report) {
	r.Start, r.End = &o.Start, &o.End
	r.Lag = &analysis.Records
	r.Seconds = inSeconds(analysis.Behind)
	if rates := analysis.Rates; rates != nil {
		r.Produced, r.Consumed, r.Change = &rates.Produced, &rates.Consumed, &rates.Change
	}
	if analysis.Drain != nil && *analysis.Drain == lag.Never {
		r.NeverDrains = true
	} else {
		r.Drain = inSeconds(analysis.Drain)
	}
	r.TimeShare, r.BytesShare = analysis.TimeShare, analysis.BytesShare
	if !analysis.LossAt.IsZero() {
		at := analysis.LossAt.UTC().Truncate(time.Millisecond)
		r.LossAt = &at
	}
	if analysis.Lost() > 0 {
		r.LostFrom, r.LostUntil = &analysis.LostFrom, &analysis.LostUntil
	}
	r.Stuck, r.Ahead, r.urgency, r.Level = analysis.Stuck, analysis.Ahead, analysis.Level, analysis.Level.String()
}

func (r *lagReport) records() int64 {
	if r.Lag == nil {
		return 0
	}
	return *r.Lag
}

// share is the larger share of retention that is used up; -1 is not known.
func (r *lagReport) share() float64 {
	share := -1.0
	for _, known := range []*float64{r.TimeShare, r.BytesShare} {
		if known != nil {
			share = max(share, *known)
		}
	}
	return share
}

// state says in words what is the matter.
func (r *lagReport) state() string {
	if r.Error != "" {
		return r.Error
	}
	var words []string
	switch {
	case r.LostFrom != nil:
		words = append(words, fmt.Sprintf("lost %d: offsets %d to %d", *r.LostUntil-*r.LostFrom, *r.LostFrom, *r.LostUntil-1))
	case r.urgency > lag.LevelNone:
		words = append(words, r.Level)
	}
	if r.Stuck {
		words = append(words, "stuck")
	}
	if r.Ahead {
		words = append(words, "ahead of the log")
	}
	if len(words) == 0 {
		return "ok"
	}
	return strings.Join(words, ", ")
}

func (app *application) printLag(reports []lagReport, watch bool) {
	if watch && len(reports) > 0 {
		fmt.Fprintf(app.output, "%s\n", reports[0].observedAt.Format(time.TimeOnly))
	}
	if len(reports) == 0 {
		fmt.Fprintln(app.errorOutput, "no group has committed anything")
		return
	}
	rows := [][]string{{"GROUP", "TOPIC", "PARTITION", "LAG", "SECONDS", "CHANGE/S", "DRAIN", "RETENTION", "LOSS-AT", "STATE"}}
	for i := range reports {
		rows = append(rows, reports[i].row())
	}
	table(app.output, rows)
	if watch {
		fmt.Fprintln(app.output)
	}
}

func (r *lagReport) row() []string {
	row := []string{r.Group, r.Topic, strconv.Itoa(int(r.Partition)), known(r.Lag), "-", "-", "-", "-", "-", r.state()}
	if r.Seconds != nil {
		row[4] = strconv.FormatFloat(*r.Seconds, 'f', 1, 64)
	}
	if r.Change != nil {
		row[5] = fmt.Sprintf("%+.1f", *r.Change)
	}
	switch {
	case r.NeverDrains:
		row[6] = "never"
	case r.Drain != nil:
		row[6] = roundDuration(*r.Drain)
	}
	if share := r.share(); share >= 0 {
		row[7] = fmt.Sprintf("%.1f%%", 100*share)
	}
	if r.LossAt != nil {
		row[8] = r.LossAt.Local().Format("2006-01-02T15:04:05Z07:00")
	}
	return row
}

// inSeconds writes a duration as JSON has it.
func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	seconds := d.Seconds()
	return &seconds
}

// roundDuration writes seconds as people say them.
func roundDuration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}
