// Package lag says what it means that a consumer group is behind: in records, in seconds, and in what retention
// leaves of its time. It is pure arithmetic over what was seen; `ringlog lag` gathers that and prints the answers.
//
//	commits, bounds of logs, retention, ──▶ Observation ──┐
//	timestamp of the next record                           ├──▶ Analyse ──▶ Report
//	the same, some seconds before       ──▶ Observation ──┘
//
// A count of records says nothing by itself: a million may be a minute or a week. So seconds come from the timestamp of
// the record that the group reads next, which is exact; estimating them from the rate, as exporters that see only
// offsets must, is wrong whenever the rate was another one when the records were written.
//
// Offsets are counted as records. Where compaction or transactions have left gaps there are fewer.
//
// [Commits] and [RecordsPerPollMax] price two settings that make groups fall behind or read twice.
package lag
