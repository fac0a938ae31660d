package perf

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce runs a load against a Kafka broker. The report is returned beside an
// error too, with what was measured until then; ErrReplies says that the
// broker refused requests.
func Produce(ctx context.Context, options ProduceOptions) (Report, error) {
	options.EnsureDefaults()
	report := Report{Kind: "produce", Parameters: options, Environment: CurrentEnvironment()}
	if err := options.Validate(); err != nil {
		return report, err
	}
	c, err := newCluster(options.Brokers)
	if err != nil {
		return report, err
	}
	defer c.close()
	version, err := c.version(ctx, kmsg.Produce, produceVersionMin, produceVersionMax)
	if err != nil {
		return report, err
	}
	if report.Notes, err = c.ensureTopic(ctx, options.Topic, &options.Load, options.ReplicationFactor); err != nil {
		return report, err
	}
	targets, err := c.settledTargets(ctx, options.Topic)
	if err != nil {
		return report, err
	}
	metrics := newMetricsReader(options.MetricsURL, options.Brokers)
	if err := metrics.begin(ctx); err != nil {
		return report, err
	}
	if err := generate(ctx, &report, &options.Load, targets, version, options.Topic, options.ServerPID); err != nil {
		return report, err
	}
	report.Engine, err = metrics.end(ctx, report.Bytes, report.Seconds)
	return report, err
}
