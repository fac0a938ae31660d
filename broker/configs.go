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

// logConfig is what an engine log needs to know of a topic's configuration.
func logConfig(c *meta.TopicConfig) engine.LogConfig {
	return engine.LogConfig{
		SegmentBytes:       c.SegmentBytes,
		SegmentMillis:      c.SegmentMillis,
		RetentionMillis:    c.RetentionMillis,
		RetentionBytes:     c.RetentionBytes,
		IndexIntervalBytes: c.IndexIntervalBytes,
		FlushMessages:      c.FlushMessages,
		FlushMillis:        c.FlushMillis,
		FileDeleteMillis:   c.FileDeleteMillis,
		Delete:             c.Delete,
	}
}

// fetchBytesMax reads fetch.max.bytes, which meta.NewDefaults has checked.
func fetchBytesMax(d *meta.Defaults) int {
	key, ok := meta.BrokerConfigKey("fetch.max.bytes")
	if !ok {
		return math.MaxInt32
	}
	limit, err := strconv.Atoi(strings.TrimSpace(d.DescribeBroker(key).Value))
	if err != nil {
		panic("broker: fetch.max.bytes: " + err.Error())
	}
	return limit
}
