#!/usr/bin/env bash
# How long a broker needs after kill -9 until a client gets an answer: PARTITIONS partitions, killed
# under load as soon as its journal is as full as FILL says, the page cache dropped (as root). Each round
# kills what the round before has written to as well.
#
#   PARTITIONS=10000 scripts/recovery.sh [serve flags ...]
#
# ROUNDS=5 JOURNAL_BYTES=536870912 FILL=0.5 (of the journal, when it is killed; if it is not reached
# within FILL_SECONDS=30, so be it) BATCH_BYTES=16384. DATA=. is a directory on the disk to use, in which it makes its own (KEEP=1 leaves that there), OUT=./recovery.jsonl gets a
# line for each round. Needs jq and curl, and a machine on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
partitions=${PARTITIONS:-10000} rounds=${ROUNDS:-5} journal=${JOURNAL_BYTES:-536870912} fill=${FILL:-0.5}
batch=${BATCH_BYTES:-16384} data=${DATA:-.} out=${OUT:-./recovery.jsonl}
kafka=127.0.0.1:19592 admin=127.0.0.1:19844
ringlog=${RINGLOG:-bin/ringlog}
[ -n "${RINGLOG:-}" ] || go build -buildvcs=auto -o "$ringlog" ./cmd/ringlog

data=$(mktemp -d "$data/recovery.XXXXXX")
broker= load=
trap '[ -z "$load" ] || kill "$load" 2>/dev/null || true; [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
  wait 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$data"' EXIT

# answered: seconds from the start of a broker until a client has read the end of a partition.
started() {
  local began=$EPOCHREALTIME
  "$ringlog" serve --data-dir "$data/broker" --kafka-addr "$kafka" --admin-addr "$admin" --journal-bytes "$journal" "$@" 2>>"$data/log" &
  broker=$!
  until "$ringlog" topic list --brokers "$kafka" >/dev/null 2>&1; do kill -0 "$broker" && sleep 0.02; done
  answered=$(awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }')
}
metric() { { curl -sf "http://$admin/metrics" || true; } | awk -v name="$1" '$1 ~ "^" name "({|$)" { sum += $2 } END { print sum + 0 }'; }
# everything: seconds until the end of every partition is known, which opens every log.
everything() {
  local began=$EPOCHREALTIME
  "$ringlog" topic describe recovery --brokers "$kafka" --json >/dev/null
  awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }'
}

started "$@"
"$ringlog" topic create recovery --partitions "$partitions" --brokers "$kafka" >/dev/null
for round in $(seq "$rounds"); do
  "$ringlog" perf produce --brokers "$kafka" --topic recovery --record-bytes 1000 --batch-bytes "$batch" \
    --connections 4 --depth 256 --acks all --duration 10m >"$data/load.log" 2>&1 &
  load=$!
  used=0
  for _ in $(seq $((${FILL_SECONDS:-30} * 20))); do
    sleep 0.05
    used=$(metric ringlog_engine_journal_used_bytes)
    ! awk -v used="$used" -v size="$journal" -v fill="$fill" 'BEGIN { exit !(used >= size * fill) }' || break
  done
  kill -9 "$broker"; wait "$broker" 2>/dev/null || true
  kill "$load" 2>/dev/null || true; wait "$load" 2>/dev/null || true; load=
  sync; echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
  bytes=$(du -s --block-size=1 "$data/broker" | cut -f1)
  sleep "${PAUSE:-2}"
  started "$@"
  all=$(everything)
  jq -nc --argjson round "$round" --argjson partitions "$partitions" --argjson journal "$journal" --argjson used "$used" \
    --argjson bytes "$bytes" --argjson answered "$answered" --argjson all "$all" \
    '{round: $round, partitions: $partitions, journal_bytes: $journal, journal_used_bytes_at_kill: $used, data_bytes: $bytes, seconds_until_answer: $answered, seconds_until_all_ends_known_after_that: $all}' | tee -a "$out"
done
