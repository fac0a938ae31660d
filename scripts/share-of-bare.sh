#!/usr/bin/env bash
# The broker's share of what the smallest possible program reaches (docs/architecture.md,
# "How speed is stated"): runs of both in turn, medians, spread, and everybody else's CPU.
#
#   scripts/share-of-bare.sh [written|durable] [prepared|recycled] [perf flags ...]
#
# ROUNDS=5 SECONDS_EACH=5 FILE_BYTES=8589934592 DATA=./data-bench. Needs jq, and a machine
# on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
durability=${1:-written} history=${2:-prepared}
shift $(($# < 2 ? $# : 2))
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5} files=${FILE_BYTES:-8589934592} data=${DATA:-./data-bench}
kafka=127.0.0.1:19392
load=(--record-bytes 1000 --batch-bytes 65536 --connections 4 --depth 32 --partitions 4
  --duration "${seconds}s" --durability "$durability" --json "$@")

go build -buildvcs=auto -o bin/ringlog ./cmd/ringlog
rm -rf "$data" && mkdir -p "$data/bare"
broker=
trap '[ -z "$broker" ] || kill "$broker" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$data"' EXIT

settings=(--partitions 4 --config flush.messages=$([ "$durability" = durable ] && echo 1 || echo 9223372036854775807))
if [ "$history" = recycled ]; then
  settings+=(--config segment.bytes=1073741824 --config retention.bytes=1073741824 --config file.delete.delay.ms=0)
fi
printf 'log.retention.check.interval.ms = 200\n' >"$data/broker.toml"
bin/ringlog serve --data-dir "$data/broker" --config "$data/broker.toml" --kafka-addr "$kafka" --admin-addr off 2>"$data/broker.log" &
broker=$!
until bin/ringlog topic list --brokers "$kafka" >/dev/null 2>&1; do kill -0 "$broker" && sleep 0.1; done

produce() { bin/ringlog perf produce --brokers "$kafka" --topic "$1" --acks all "${load[@]}"; }
settle() { sync; sleep "${PAUSE:-1}"; }

topic() { bin/ringlog topic create "$1" --brokers "$kafka" "${settings[@]}" >/dev/null; }
if [ "$history" = recycled ]; then # one topic that has been through its files before
  topic bench && for fill in 1 2 3; do produce bench >/dev/null; done
fi
for round in $(seq "$rounds"); do
  settle
  bin/ringlog perf bare --data-dir "$data/bare" --history "$history" --file-bytes "$files" "${load[@]}" >>"$data/bare.json"
  settle
  if [ "$history" = recycled ]; then
    produce bench >>"$data/broker.json"
  else
    topic "bench-$round" && produce "bench-$round" >>"$data/broker.json"
    bin/ringlog topic delete "bench-$round" --brokers "$kafka" >/dev/null
  fi
done

jq -rn --slurpfile bare "$data/bare.json" --slurpfile broker "$data/broker.json" --arg what "$durability, $history files" '
  def median: sort | .[length / 2 | floor];
  def row(name; runs): "\(name)\t\(runs | map(.mb_per_s) | median | round) MB/s [\(runs | map(.mb_per_s) | min | round)..\(runs | map(.mb_per_s) | max | round)]\t\(runs | map(.records_per_s) | median | round) records/s\tp50 \(runs | map(.ack_latency_us.p50) | median) us\tp99 \(runs | map(.ack_latency_us.p99) | median) us\tp99.9 \(runs | map(.ack_latency_us.p999) | median) us";
  "\($what)", row("bare"; $bare), row("broker"; $broker),
  "share\tthroughput \(($broker | map(.mb_per_s) | median) / ($bare | map(.mb_per_s) | median) * 100 | round / 100)\tp50 \(($broker | map(.ack_latency_us.p50) | median) / ($bare | map(.ack_latency_us.p50) | median) * 100 | round / 100)\tpairs \([range($bare | length) | ($broker[.].mb_per_s / $bare[.].mb_per_s * 100 | round / 100)] | map(tostring) | join(" "))",
  "cpu\tbare \($bare[0].cpu)", "cpu\tbroker \($broker[0].cpu)"'
