#!/usr/bin/env bash
# The broker's share of what the smallest possible program reaches (docs/architecture.md,
# "How speed is stated"): runs of both in turn, medians, spread, and everybody else's CPU.
#
#   scripts/share-of-bare.sh [written|durable] [prepared|recycled] [perf flags ...]
#
# With --rate N, both get N records a second, sent by the clock: scripts/share-of-bare.sh durable recycled
# --rate 200000 is 200 MB/s, where p99 and p99.9 say something. A broker that does not keep up is told by a note.
#
# ROUNDS=5 SECONDS_EACH=5 FILE_BYTES=8589934592 SEGMENT_BYTES=1073741824 (of recycled topics). DATA=. is a directory on
# the disk to measure, KAFKA_PORT=19392, SERVE_FLAGS are more flags of ringlog serve, RINGLOG is a binary to use instead of
# building one. Needs jq, and a machine on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
durability=${1:-written} history=${2:-prepared}
shift $(($# < 2 ? $# : 2))
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5} files=${FILE_BYTES:-8589934592} data=${DATA:-.}
kafka=127.0.0.1:${KAFKA_PORT:-19392} partitions=4 before=
for flag in "$@"; do
  [ "$before" != --partitions ] || partitions=$flag
  before=$flag
done
load=(--record-bytes 1000 --batch-bytes 65536 --connections 4 --depth 32 --partitions "$partitions"
  --duration "${seconds}s" --durability "$durability" --json "$@")

ringlog=${RINGLOG:-bin/ringlog}
[ -n "${RINGLOG:-}" ] || go build -buildvcs=auto -o "$ringlog" ./cmd/ringlog
data=$(mktemp -d "$data/share-of-bare.XXXXXX")
mkdir "$data/bare"
broker=
trap '[ -z "$broker" ] || kill "$broker" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$data"' EXIT

settings=(--partitions "$partitions" --config flush.messages=$([ "$durability" = durable ] && echo 1 || echo 9223372036854775807))
if [ "$history" = recycled ]; then
  settings+=(--config "segment.bytes=${SEGMENT_BYTES:-1073741824}" --config "retention.bytes=${SEGMENT_BYTES:-1073741824}" --config file.delete.delay.ms=0)
fi
# shellcheck disable=SC2086 # SERVE_FLAGS are words
"$ringlog" serve --data-dir "$data/broker" --kafka-addr "$kafka" --admin-addr off \
  --set log.retention.check.interval.ms=200 ${SERVE_FLAGS:-} 2>"$data/broker.log" &
broker=$!
until "$ringlog" topic list --brokers "$kafka" >/dev/null 2>&1; do kill -0 "$broker" && sleep 0.1; done

produce() { "$ringlog" perf produce --brokers "$kafka" --topic "$1" --acks all --server-pid "$broker" "${load[@]}" "${@:2}"; }
settle() { sync; sleep "${PAUSE:-1}"; }

topic() { "$ringlog" topic create "$1" --brokers "$kafka" "${settings[@]}" >/dev/null; }
if [ "$history" = recycled ]; then # one topic that has been through its files before
  topic bench && for fill in 1 2 3; do produce bench --rate 0 >/dev/null; done
fi
for round in $(seq "$rounds"); do
  settle
  "$ringlog" perf bare --data-dir "$data/bare" --history "$history" --file-bytes "$files" "${load[@]}" >>"$data/bare.json"
  settle
  if [ "$history" = recycled ]; then
    produce bench >>"$data/broker.json"
  else
    topic "bench-$round" && produce "bench-$round" >>"$data/broker.json"
    "$ringlog" topic delete "bench-$round" --brokers "$kafka" >/dev/null
  fi
done

jq -rn --slurpfile bare "$data/bare.json" --slurpfile broker "$data/broker.json" --arg what "$durability, $history files" '
  def median: sort | .[length / 2 | floor];
  def latency(name; q): "\(name) \(($broker | map(.ack_latency_us[q]) | median) / ($bare | map(.ack_latency_us[q]) | median) * 100 | round / 100)";
  def row(name; runs): "\(name)\t\(runs | map(.mb_per_s) | median | round) MB/s [\(runs | map(.mb_per_s) | min | round)..\(runs | map(.mb_per_s) | max | round)]\t\(runs | map(.records_per_s) | median | round) records/s\tp50 \(runs | map(.ack_latency_us.p50) | median) us\tp99 \(runs | map(.ack_latency_us.p99) | median) us\tp99.9 \(runs | map(.ack_latency_us.p999) | median) us";
  "\($what)", row("bare"; $bare), row("broker"; $broker),
  "share\tthroughput \(($broker | map(.mb_per_s) | median) / ($bare | map(.mb_per_s) | median) * 100 | round / 100)\t\(latency("p50"; "p50"))\t\(latency("p99"; "p99"))\t\(latency("p99.9"; "p999"))\tpairs \([range($bare | length) | ($broker[.].mb_per_s / $bare[.].mb_per_s * 100 | round / 100)] | map(tostring) | join(" "))",
  ($bare + $broker | map(.notes // [] | .[]) | unique | .[] | "note\t\(.)"),
  "cpu\tbare \($bare[0].cpu)", "cpu\tbroker \($broker[0].cpu)"'
