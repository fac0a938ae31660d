package broker

import (
	"ringlog/engine"
	"ringlog/meta"
)

// Defaults are the configurations that hold where a topic sets none.
func (b *Broker) Defaults() *meta.Defaults { return b.options.Defaults }

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
