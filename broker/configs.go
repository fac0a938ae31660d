package broker

import (
	"math"
	"strconv"
	"strings"

	"ringlog/engine"
	"ringlog/meta"
)

// Defaults are the configurations that hold where a topic sets none, those set dynamically
// on this broker included.
func (b *Broker) Defaults() *meta.Defaults { return b.view.Load().defaults }

// logConfig is what an engine log needs to know of a topic's configuration. Where zero is a topic's
// "at once" or "nothing", it is the engine's "not said": one stands for it, which is the same to anybody.
func logConfig(c *meta.TopicConfig) engine.LogConfig {
	return engine.LogConfig{
		SegmentBytes:       c.SegmentBytes,
		SegmentMillis:      c.SegmentMillis,
		RetentionMillis:    oneForZero(c.RetentionMillis),
		RetentionBytes:     oneForZero(c.RetentionBytes),
		IndexIntervalBytes: c.IndexIntervalBytes,
		FlushMessages:      c.FlushMessages,
		FlushMillis:        c.FlushMillis,
		FileDeleteMillis:   oneForZero(c.FileDeleteMillis),
		Delete:             c.Delete,

		Compact:                c.Compact,
		DirtyRatioMin:          max(c.DirtyRatioMin, math.SmallestNonzeroFloat64),
		CompactionLagMinMillis: c.CompactionLagMinMillis,
		CompactionLagMaxMillis: c.CompactionLagMaxMillis,
		TombstoneMillis:        oneForZero(c.TombstoneMillis),
	}
}

func oneForZero(value int64) int64 {
	if value == 0 {
		return 1
	}
	return value
}

// fetchBytesMax reads fetch.max.bytes, which meta.NewDefaults has checked.
func fetchBytesMax(d *meta.Defaults) int {
	return int(min(configInteger(d, "fetch.max.bytes"), math.MaxInt32))
}

// configText reads a configuration of the broker.
func configText(d *meta.Defaults, name string) string {
	key, ok := meta.BrokerConfigKey(name)
	if !ok {
		panic("broker: there is no configuration " + name)
	}
	return strings.TrimSpace(d.DescribeBroker(key).Value)
}

// configInteger reads a configuration of the broker that is a whole number, which meta.NewDefaults has checked.
func configInteger(d *meta.Defaults, name string) int64 {
	number, err := strconv.ParseInt(configText(d, name), 10, 64)
	if err != nil {
		panic("broker: " + name + ": " + err.Error())
	}
	return number
}
