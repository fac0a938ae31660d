package server

import (
	"fmt"
	"strconv"
	"time"

	"ringlog/meta"
)

// Setting is one thing that flags and the file can set.
type Setting struct {
	// Name is the flag's name and the file's key.
	Name string
	// Kafka is Kafka's name for the same, which works too; "" when it has none.
	Kafka string
	// Default is what holds when it is not set, as text for people.
	Default string
	// Documentation is one or two sentences.
	Documentation string

	// set puts a value into a Config; nil for what is one of Config.Broker.
	set func(c *Config, value string) error
}

// coldSetting is the name of Config.ColdBytes as a setting.
const coldSetting = "ringlog.cold.bytes"

// journalSetting is the name of Config.JournalBytes as a setting.
const journalSetting = "ringlog.journal.bytes"

// Names of settings that messages mention.
const (
	networkEngineSetting = "ringlog.network.engine"
	networkLoopsSetting  = "ringlog.network.loops"
)

// diskFreeSetting is the name of Config.DiskFreeBytesMin as a setting.
const diskFreeSetting = "ringlog.disk.free.min.bytes"

// Names of the settings of what is read again in the background.
const (
	scrubRateSetting     = "ringlog.scrub.bytes.per.second"
	scrubIntervalSetting = "ringlog.scrub.interval.ms"
)

// ownSettings are the settings that are fields of Config.
var ownSettings = []Setting{
	{Name: "data-dir", Kafka: "log.dirs", Default: "./data",
		Documentation: "The directory that holds everything that is stored.",
		set:           func(c *Config, value string) error { c.DataDir = value; return nil }},
	{Name: "kafka-addr", Kafka: "listeners", Default: "127.0.0.1:9092",
		Documentation: "Where Kafka clients are served: host:port. An empty host is every address.",
		set:           func(c *Config, value string) error { c.KafkaAddr = value; return nil }},
	{Name: "advertised-addr", Kafka: "advertised.listeners", Default: "where the broker listens",
		Documentation: "The address that clients are told to connect to: host:port.",
		set:           func(c *Config, value string) error { c.AdvertisedAddr = value; return nil }},
	{Name: "admin-addr", Default: "127.0.0.1:9644",
		Documentation: "Where metrics and health are served by HTTP: host:port, or off.",
		set:           func(c *Config, value string) error { c.AdminAddr = value; return nil }},
	{Name: "admin-allow-remote", Default: "false",
		Documentation: "Whether admin-addr may be reachable from other machines, although there is no authentication.",
		set:           func(c *Config, value string) error { return setBoolean(&c.AdminAllowRemote, value) }},
	{Name: "profiling", Default: "false",
		Documentation: "Whether to serve Go profiles under /debug/pprof/ of admin-addr.",
		set:           func(c *Config, value string) error { return setBoolean(&c.Profiling, value) }},
	{Name: "io", Default: IOAuto,
		Documentation: "How disks are reached: uring, portable, or auto for io_uring where the system has it; giouring, a library's ring, in binaries built with that tag.",
		set:           func(c *Config, value string) error { c.IO = value; return nil }},
	{Name: "shards", Default: "1",
		Documentation: "How many threads of the storage engine share the logs. One serves a device and up to four cores; it may change from start to start.",
		set: func(c *Config, value string) (err error) {
			if c.Shards, err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("%q is not a number", value)
			}
			return nil
		}},
	{Name: networkEngineSetting, Default: "loop on Linux, else stream",
		Documentation: "Who serves clients: loop is event loops, which hand connections that move much over to goroutines of their own; stream is goroutines for every connection.",
		set:           func(c *Config, value string) error { c.NetworkEngine = value; return nil }},
	{Name: networkLoopsSetting, Default: "one for every two cores, 8 at most",
		Documentation: "How many event loops serve clients.",
		set: func(c *Config, value string) (err error) {
			if c.NetworkLoops, err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("%q is not a number", value)
			}
			return nil
		}},
	{Name: "memory", Default: "a quarter of the machine's, 256MiB to 4GiB",
		Documentation: "The budget for data in memory, for example 512MiB.",
		set: func(c *Config, value string) (err error) {
			c.MemoryBytes, err = parseBytes(value)
			return err
		}},
	{Name: coldSetting, Default: "a quarter of memory",
		Documentation: "The part of memory for records that are read from disk: what is being sent to consumers that are behind, and what is read ahead for them. When it is spent, their fetches wait in turn.",
		set: func(c *Config, value string) (err error) {
			c.ColdBytes, err = parseBytes(value)
			return err
		}},
	{Name: journalSetting, Default: "a quarter of the memory for tails, 32MiB to 512MiB for each shard",
		Documentation: "The size of each shard's commit journal: so much disk space, written through once, and at most so much of memory that is in no segment yet. 0 is no journal.",
		set: func(c *Config, value string) (err error) {
			if c.JournalBytes, err = parseBytes(value); err == nil && c.JournalBytes == 0 {
				c.JournalBytes = JournalOff
			}
			return err
		}},
	{Name: diskFreeSetting, Default: "1GiB or 2 % of the disk, whichever is more, but at most 10 % of it",
		Documentation: "How much of the data directory's file system is kept free. While less is, produces that need new space are refused (KAFKA_STORAGE_ERROR) and everything else works; they are taken again when there is more. 0 keeps nothing free.",
		set: func(c *Config, value string) (err error) {
			if c.DiskFreeBytesMin, err = parseBytes(value); err == nil && c.DiskFreeBytesMin == 0 {
				c.DiskFreeBytesMin = DiskFreeOff
			}
			return err
		}},
	{Name: scrubRateSetting, Default: "8MiB",
		Documentation: "How fast stored segments are read again in the background, behind everybody else, so that what has rotted on the disk is found, named and fenced. 0 never reads.",
		set: func(c *Config, value string) (err error) {
			if c.ScrubBytesPerSecond, err = parseBytes(value); err == nil && c.ScrubBytesPerSecond == 0 {
				c.ScrubBytesPerSecond = ScrubOff
			}
			return err
		}},
	{Name: scrubIntervalSetting, Default: "604800000 (a week)",
		Documentation: "The time from the begin of one such pass over everything to the begin of the next, in milliseconds.",
		set: func(c *Config, value string) error {
			millis, err := strconv.ParseInt(value, 10, 64)
			if err != nil || millis < 1 || millis > int64(1<<63-1)/int64(time.Millisecond) {
				return fmt.Errorf("%q is not a number of milliseconds above 0", value)
			}
			c.ScrubInterval = time.Duration(millis) * time.Millisecond
			return nil
		}},
	{Name: "shutdown-timeout", Default: "10s",
		Documentation: "How long to wait, when stopped, for requests in flight to be answered.",
		set: func(c *Config, value string) (err error) {
			if c.ShutdownTimeout, err = time.ParseDuration(value); err != nil {
				return fmt.Errorf("%q is not a time, such as 10s", value)
			}
			return nil
		}},
}

func setBoolean(field *bool, value string) (err error) {
	if *field, err = strconv.ParseBool(value); err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}

// fieldOfKafka maps Kafka's names of own settings to ours.
var fieldOfKafka = func() map[string]string {
	names := make(map[string]string)
	for _, setting := range ownSettings {
		if setting.Kafka != "" {
			names[setting.Kafka] = setting.Name
		}
	}
	return names
}()

// Settings returns all settings: our own, then Kafka's broker configurations in
// the order of their names.
func Settings() []Setting {
	settings := append([]Setting(nil), ownSettings...)
	for _, key := range meta.BrokerConfigKeys() {
		if _, ours := fieldOfKafka[key.Name]; ours {
			continue
		}
		settings = append(settings, Setting{Name: key.Name, Kafka: key.Name, Default: key.Default, Documentation: key.Documentation})
	}
	return settings
}

// canonical returns the one name under which a setting is known, by any of its names.
func canonical(name string) (string, error) {
	if own, ours := fieldOfKafka[name]; ours {
		return own, nil
	}
	names := make([]string, 0, 2*len(ownSettings)+len(meta.BrokerConfigKeys()))
	for _, setting := range Settings() {
		if setting.Name == name {
			return name, nil
		}
		names = append(names, setting.Name)
		if setting.Kafka != "" && setting.Kafka != setting.Name {
			names = append(names, setting.Kafka)
		}
	}
	if near, ok := meta.Nearest(name, names); ok {
		return "", fmt.Errorf("there is no setting %q; did you mean %s?", name, near)
	}
	return "", fmt.Errorf("there is no setting %q", name)
}

// Set sets one setting by its name or Kafka's. Only what cannot be understood
// is an error here; Validate judges the whole.
func (c *Config) Set(name, value string) error {
	known, err := canonical(name)
	if err != nil {
		return err
	}
	for _, setting := range ownSettings {
		if setting.Name == known {
			if err := setting.set(c, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	key, _ := meta.BrokerConfigKey(known)
	if err := key.Check(value); err != nil {
		return err
	}
	if key.Type == meta.ConfigBoolean { // one spelling, for those who read it
		is, _ := strconv.ParseBool(value)
		value = strconv.FormatBool(is)
	}
	if c.Broker == nil {
		c.Broker = make(map[string]string)
	}
	c.Broker[known] = value
	return nil
}
