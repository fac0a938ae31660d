package server

import (
	"strings"
	"testing"
	"time"
)

// How fast and how often stored segments are read again: the defaults, 0 for never, and what makes no sense.
func TestScrubSettings(t *testing.T) {
	var c Config
	c.EnsureDefaults()
	if c.ScrubBytesPerSecond != 8<<20 || c.ScrubInterval != 7*24*time.Hour {
		t.Errorf("the defaults are %d bytes a second, every %v", c.ScrubBytesPerSecond, c.ScrubInterval)
	}
	for value, want := range map[string]int64{"0": ScrubOff, "512KiB": 512 << 10} {
		if err := c.Set(scrubRateSetting, value); err != nil || c.ScrubBytesPerSecond != want {
			t.Errorf("%s is %d, %v", value, c.ScrubBytesPerSecond, err)
		}
	}
	if err := c.Set(scrubIntervalSetting, "3600000"); err != nil || c.ScrubInterval != time.Hour {
		t.Errorf("an hour is %v, %v", c.ScrubInterval, err)
	}
	for _, value := range []string{"0", "-1", "1h", "9223372036854775807"} {
		if err := c.Set(scrubIntervalSetting, value); err == nil {
			t.Errorf("an interval of %q is taken for %v", value, c.ScrubInterval)
		}
	}
	c.ScrubBytesPerSecond, c.ScrubInterval = -7, -1
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), scrubRateSetting) || !strings.Contains(err.Error(), scrubIntervalSetting) {
		t.Errorf("a rate and an interval below zero: %v", err)
	}
}
