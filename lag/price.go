package lag

import "time"

const secondsPerDay = 86_400

// Commits are how a group commits, and what it pays for that: the longer the interval, the more records are read again
// after a consumer dies; the shorter, the more commits the coordinators write.
type Commits struct {
	RecordsPerSecond float64       // of the whole group
	Interval         time.Duration // between two commits of a consumer, as auto.commit.interval.ms; above zero
	Consumers        int           // that commit
	// RestartsPerDay is how often each consumer dies without a last commit.
	RestartsPerDay float64
}

// Duplicates is how many records per day are read twice at worst: each restart repeats a whole interval. How many
// consumers share the records does not matter: more of them die, each with less.
func (c *Commits) Duplicates() (perDay float64) {
	return c.RecordsPerSecond * c.Interval.Seconds() * c.RestartsPerDay
}

// DuplicatesPerSecond is the same, spread over the day.
func (c *Commits) DuplicatesPerSecond() float64 { return c.Duplicates() / secondsPerDay }

// DuplicateShare is the share of all records that is read twice.
func (c *Commits) DuplicateShare() float64 { return c.DuplicatesPerSecond() / c.RecordsPerSecond }

// CommitsPerSecond is what all coordinators together write for the group.
func (c *Commits) CommitsPerSecond() float64 {
	return float64(c.Consumers) / c.Interval.Seconds()
}

// CommitsPerPartition is what one partition of __consumer_offsets takes per second, if many groups spread
// over all of them (offsets.topic.num.partitions, 50 by default).
func (c *Commits) CommitsPerPartition(partitions int) float64 {
	return c.CommitsPerSecond() / float64(partitions)
}

// RecordsPerPollMax is the largest max.poll.records with which a consumer that takes so long for a record polls again
// within max.poll.interval.ms. With more it is taken for dead, its records go to another which is as slow, and
// the group rebalances for ever. 0: one record alone takes too long.
func RecordsPerPollMax(pollInterval, perRecord time.Duration) int64 {
	if perRecord <= 0 {
		return int64(Never)
	}
	return int64(pollInterval / perRecord)
}
