#!/usr/bin/env bash
# A long run: MINUTES at RATE MB/s, durable, into a topic whose retention deletes all the time, with
# a look at everything that may creep every INTERVAL seconds. Prints the first minutes
# beside the last; fails when anything went wrong.
#
#   scripts/soak.sh [perf produce flags ...]
#
# MINUTES=60 RATE=200 (10^6 bytes a second, at a fixed rate) INTERVAL=10 COMPARE=5 (minutes at each end),
# RETAIN_BYTES=4294967296 in PARTITIONS=4 with SEGMENT_BYTES=134217728, RECORD_BYTES=1000,
# BATCH_BYTES=65536, CONNECTIONS=4, DEPTH=32. SERVE_FLAGS are more flags of ringlog serve. DATA=. is a directory on the disk to use, OUT=./soak gets the endings .jsonl (every look, then the
# report), .md (the comparison) and .log (of the broker). KAFKA_PORT=19492 ADMIN_PORT=19493. RINGLOG is a
# binary to use instead of building one. Needs jq.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${MINUTES:-60} rate=${RATE:-200} interval=${INTERVAL:-10} compare=${COMPARE:-5}
retain=${RETAIN_BYTES:-4294967296} partitions=${PARTITIONS:-4} segment=${SEGMENT_BYTES:-134217728}
record=${RECORD_BYTES:-1000} batch=${BATCH_BYTES:-65536} connections=${CONNECTIONS:-4} depth=${DEPTH:-32}
data=${DATA:-.} out=${OUT:-./soak} port=${KAFKA_PORT:-19492} admin=${ADMIN_PORT:-19493}
kafka=127.0.0.1:$port

# A topic holds what it retains, the segment that is being written and those that wait to be written again.
need=$((retain + 4 * partitions * segment + (1 << 30)))
free=$(df -P -k "$data" | awk 'NR == 2 { printf "%.0f", $4 * 1024 }')
if [ "$free" -lt "$need" ]; then
  echo "soak: $data has $free bytes free, this needs $need: lower RETAIN_BYTES or choose another DATA" >&2
  exit 1
fi
ringlog=${RINGLOG:-bin/ringlog}
[ -n "${RINGLOG:-}" ] || go build -buildvcs=auto -o "$ringlog" ./cmd/ringlog

data=$(mktemp -d "$data/soak.XXXXXX")
broker= load=
stop() {
  [ -z "$load" ] || kill "$load" 2>/dev/null || true
  [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT TERM

# shellcheck disable=SC2086 # SERVE_FLAGS are words
"$ringlog" serve --data-dir "$data/broker" --kafka-addr "$kafka" --admin-addr "127.0.0.1:$admin" \
  --set log.retention.check.interval.ms=1000 ${SERVE_FLAGS:-} 2>"$out.log" &
broker=$!
until "$ringlog" topic list --brokers "$kafka" >/dev/null 2>&1; do
  kill -0 "$broker" 2>/dev/null || { echo "soak: the broker did not start:" >&2; tail -5 "$out.log" >&2; exit 1; }
  sleep 0.1
done
"$ringlog" topic create soak --brokers "$kafka" --partitions "$partitions" --config flush.messages=1 \
  --config "segment.bytes=$segment" --config "retention.bytes=$((retain / partitions))" --config file.delete.delay.ms=0 >/dev/null

get() { # PATH: what the admin listener answers, without a client that may not be there
  exec 3<>"/dev/tcp/127.0.0.1/$admin"
  printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\n\r\n' "$1" "$admin" >&3
  cat <&3
  exec 3>&-
}

# look: everything that may creep, as one JSON object. A figure that is not there is an error.
look() {
  local metrics
  metrics=$(get /metrics | awk '
    BEGIN {
      want["go_memstats_heap_alloc_bytes"] = "go_heap_bytes"; want["go_memstats_sys_bytes"] = "go_sys_bytes"
      want["go_memstats_alloc_bytes_total"] = "go_allocated_bytes_total"; want["go_goroutines"] = "goroutines"
      want["go_gc_duration_seconds{quantile=\"1\"}"] = "gc_pause_max_recent_s"
      want["go_gc_duration_seconds_sum"] = "gc_pause_s_total"; want["go_gc_duration_seconds_count"] = "gc_total"
      want["process_open_fds"] = "open_files"; want["ringlog_healthy"] = "healthy"
      want["ringlog_engine_journal_bytes"] = "journal_bytes"; want["ringlog_engine_journal_used_bytes"] = "journal_used_bytes"
      want["ringlog_engine_journal_full_seconds_total"] = "journal_full_s_total"
      want["ringlog_engine_dirty_bytes"] = "dirty_bytes"; want["ringlog_engine_tail_bytes"] = "tail_bytes"
      want["ringlog_engine_waiting_appends"] = "waiting_appends"; want["ringlog_engine_segments_deleted_total"] = "segments_deleted_total"
      want["ringlog_engine_poisoned_logs"] = "poisoned_logs"; want["ringlog_engine_poisoned_shards"] = "poisoned_shards"
      want["ringlog_engine_corruptions_total"] = "corruptions_total"; want["ringlog_engine_write_amplification"] = "write_amplification"
      for (name in want) missing++
      printf "{"
    }
    $1 in want { printf "%s\"%s\": %s", comma, want[$1], $2 == "NaN" ? 0 : $2; comma = ", "; missing-- }
    END { print "}"; if (missing > 0) { print "soak: " missing " figures are not in /metrics" > "/dev/stderr"; exit 1 } }')
  jq -c --argjson data "$(du -s -B1 "$data/broker" 2>/dev/null | cut -f1)" \
    --argjson free "$(df -P -k "$data" | awk 'NR == 2 { printf "%.0f", $4 * 1024 }')" \
    '. + {data_bytes: $data, free_bytes: $free}' <<<"$metrics"
}

: >"$out.jsonl"
mkfifo "$data/windows"
"$ringlog" perf produce --json --interval "${interval}s" --brokers "$kafka" --topic soak --acks all --server-pid "$broker" --metrics off \
  --record-bytes "$record" --batch-bytes "$batch" --connections "$connections" --depth "$depth" \
  --rate "$(awk "BEGIN { print $rate * 1e6 / $record }")" --duration "$(awk "BEGIN { print $minutes * 60 }")s" "$@" >"$data/windows" &
load=$!
failed=
while IFS= read -r line; do
  if [ "$(jq -r .kind <<<"$line")" = window ]; then
    now=$(look) || { now=null failed="the broker did not answer"; }
    jq -c --argjson broker "$now" '. + {broker: $broker}' <<<"$line" >>"$out.jsonl"
  else
    jq -c . <<<"$line" >>"$out.jsonl"
  fi
done <"$data/windows"
wait "$load" || failed="${failed:+$failed; }the load generator failed"
load=
kill "$broker" 2>/dev/null || failed="${failed:+$failed; }the broker ended by itself"
wait "$broker" || failed="${failed:+$failed; }the broker stopped with exit code $?"
broker=

jq -rn --slurpfile all "$out.jsonl" --argjson compare "$compare" --argjson rate "$rate" --argjson interval "$interval" '
  [$all[] | select(.kind == "window" and .broker != null)] as $every
  | [$every[] | select(.seconds >= $interval / 2)] as $windows    # what is left at the end may be an instant
  | ($all | map(select(.kind == "produce")) | last) as $report
  | ([$compare * 60 / $interval | ceil, ($windows | length / 2 | ceil)] | min) as $count
  | def median: sort | .[length / 2 | floor];
    def tenth: . * 10 | round / 10;
    def mb: . / 1e6 | round;
    def ms: . / 10 | round / 100;
    def perminute($a; $b; f): if $a.at == $b.at then 0 else (($b | f) - ($a | f)) * 60 / ($b.at - $a.at) end;
    ([foreach $windows[] as $w (0; . + $w.seconds; $w + {at: .})]) as $windows
  | def row(name; f): "| \(name) | \($windows[:$count] | f) | \($windows[-$count:] | f) |";
    if ($count // 0) == 0 then "no window was measured" else
    ($report | if . == null then "no report" else
      "\(.environment.cpu_model), \(.environment.cores) cores, \(.environment.kernel), \(.environment.go), commit \(.environment.commit // "unknown")" end),
    "\($rate) MB/s wanted; \($windows | length) looks, \($windows[-1].at / 60 | tenth) minutes.",
    "",
    "| | first \($count) windows | last \($count) |", "|---|---|---|",
    row("MB/s, median [least]"; "\(map(.mb_per_s) | median | tenth) [\(map(.mb_per_s) | min | tenth)]"),
    row("p50 ms, median"; map(.ack_latency_us.p50 // 0) | median | ms),
    row("p99 ms, median [most]"; "\(map(.ack_latency_us.p99 // 0) | median | ms) [\(map(.ack_latency_us.p99 // 0) | max | ms)]"),
    row("p99.9 ms, median [most]"; "\(map(.ack_latency_us.p999 // 0) | median | ms) [\(map(.ack_latency_us.p999 // 0) | max | ms)]"),
    row("longest ms"; map(.ack_latency_us.max // 0) | max | ms),
    row("server CPU, % of a core"; map(.cpu.server.user + .cpu.server.system) | median | round),
    row("others, % of a core"; map(.cpu.foreign) | median | round),
    row("server RSS MB, most"; map(.server_resident_bytes) | max | mb),
    row("Go heap MB, median [most]"; "\(map(.broker.go_heap_bytes) | median | mb) [\(map(.broker.go_heap_bytes) | max | mb)]"),
    row("Go allocations MB a minute"; perminute(.[0]; .[-1]; .broker.go_allocated_bytes_total) | mb),
    row("collections a minute"; perminute(.[0]; .[-1]; .broker.gc_total) | tenth),
    row("longest recent GC pause ms"; map(.broker.gc_pause_max_recent_s) | max | . * 1e6 | ms),
    row("goroutines, open files"; "\(map(.broker.goroutines) | max), \(map(.broker.open_files) | max)"),
    row("journal used %, median [most]"; map(if .broker.journal_bytes > 0 then .broker.journal_used_bytes * 100 / .broker.journal_bytes else 0 end) | "\(median | round) [\(max | round)]"),
    row("journal full, s a minute"; perminute(.[0]; .[-1]; .broker.journal_full_s_total) | tenth),
    row("dirty memory MB, most"; map(.broker.dirty_bytes) | max | mb),
    row("tail memory MB, most"; map(.broker.tail_bytes) | max | mb),
    row("bytes written for each appended"; .[-1].broker.write_amplification * 100 | round / 100),
    row("segments deleted a minute"; perminute(.[0]; .[-1]; .broker.segments_deleted_total) | tenth),
    row("data directory MB, most"; map(.broker.data_bytes) | max | mb),
    row("free disk MB, least"; map(.broker.free_bytes) | min | mb)
    end' >"$out.md"
cat "$out.md"

# What must not be: answers with errors, a broker that calls itself ill, or a log that lost something.
faults=$(jq -rs '[.[] | select(.kind == "window")] |
  [ (map(select(.errors != null)) | if length > 0 then "\(length) windows with refused requests" else empty end),
    (map(select(.broker.healthy? == 0)) | if length > 0 then "the broker was not healthy in \(length) windows" else empty end),
    (map(.broker // {} | (.poisoned_logs // 0) + (.poisoned_shards // 0) + (.corruptions_total // 0)) | add // 0 | if . > 0 then "poisoned logs or corruption" else empty end),
    (map(select(.bytes == 0 and .seconds > 1)) | if length > 0 then "\(length) windows without an acknowledgement" else empty end)
  ] | join("; ")' "$out.jsonl")
failed+=${faults:+${failed:+; }$faults}
if grep -qE 'level=ERROR|"level":"ERROR"' "$out.log"; then
  failed="${failed:+$failed; }the broker logged errors"
fi
if [ -n "$failed" ]; then
  echo "soak: $failed; see $out.log and $out.jsonl" >&2
  exit 1
fi
