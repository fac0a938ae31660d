#!/usr/bin/env bash
# A producer at a fixed rate beside readers, each kind measured alone and beside it in turn: consumers at the
# end, a scan of everything beside one of them, connections that read nothing, connections that wait.
#
#   scripts/readers.sh [perf beside flags ...]
#
# ROWS="tails=1 tails=4 tails=16 scans=1,tails=1 stuck=10,tails=1 idle=10000". RATE=100 (10^6 bytes a second) ROUNDS=5
# SECONDS_EACH=5 PARTITIONS=4 RECORD_BYTES=1000 BATCH_BYTES=65536 CONNECTIONS=4 DEPTH=32 HISTORY_BYTES=6000000000, which
# should be more than the broker keeps in memory. BROKERS and SERVER_PID measure a broker that runs already; else
# one is started with SERVE_FLAGS on DATA=. at KAFKA_PORT=19592. OUT=./readers gets the endings .jsonl (every
# report) and .md (the table). RINGLOG is a binary to use instead of building one. Needs jq, and a machine on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${ROWS:-tails=1 tails=4 tails=16 scans=1,tails=1 stuck=10,tails=1 idle=10000}
rate=${RATE:-100} record=${RECORD_BYTES:-1000} data=${DATA:-.} out=${OUT:-./readers} port=${KAFKA_PORT:-19592}
ringlog=${RINGLOG:-bin/ringlog}
[ -n "${RINGLOG:-}" ] || go build -buildvcs=auto -o "$ringlog" ./cmd/ringlog

broker=${SERVER_PID:-} started=
if [ -z "${BROKERS:-}" ]; then
  data=$(mktemp -d "$data/readers.XXXXXX")
  trap '[ -z "$started" ] || kill "$started" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$data"' EXIT
  trap 'exit 130' INT TERM
  # shellcheck disable=SC2086 # SERVE_FLAGS are words
  "$ringlog" serve --data-dir "$data/broker" --kafka-addr "127.0.0.1:$port" --admin-addr off \
    --set max.connections=20000 --set max.connections.per.ip=20000 ${SERVE_FLAGS:-} 2>"$data/broker.log" &
  started=$! broker=$! BROKERS=127.0.0.1:$port
  until "$ringlog" topic list --brokers "$BROKERS" >/dev/null 2>&1; do
    kill -0 "$started" 2>/dev/null || { echo "readers: the broker did not start:" >&2; tail -5 "$data/broker.log" >&2; exit 1; }
    sleep 0.1
  done
fi

failed=
: >"$out.jsonl"
for row in $rows; do
  echo "readers: $row" >&2
  flags=(${broker:+--server-pid "$broker"})
  for pair in ${row//,/ }; do flags+=("--${pair%=*}" "${pair#*=}"); done
  case $row in *scans=*) flags+=(--history-bytes "${HISTORY_BYTES:-6000000000}") ;; esac
  sync
  "$ringlog" perf beside --json --brokers "$BROKERS" --topic readers --partitions "${PARTITIONS:-4}" --rounds "${ROUNDS:-5}" \
    --duration "${SECONDS_EACH:-5}s" --record-bytes "$record" --batch-bytes "${BATCH_BYTES:-65536}" --connections "${CONNECTIONS:-4}" \
    --depth "${DEPTH:-32}" --rate "$(awk "BEGIN { print $rate * 1e6 / $record }")" "${flags[@]}" "$@" |
    jq -c --arg row "$row" '{row: $row} + .' >>"$out.jsonl" || failed="$failed $row"
done

jq -rn --slurpfile runs "$out.jsonl" --argjson rate "$rate" '
  def median: sort | .[length / 2 | floor];
  def ms: if . == null then "" else . / 10 | round / 100 end;
  def tenth: . * 10 | round / 10;
  def latency(q): map(q // empty) | if length == 0 then "" else "\(median | ms) [\(min | ms)..\(max | ms)]" end;
  def both(f): "\(map(.alone) | f) → \(map(.beside) | f)";
  def mb: . / 1e6 | round;
  ($runs[0] | if . == null then "no runs" else
    "\(.environment.cpu_model), \(.environment.cores) cores, \(.environment.kernel), \(.environment.go), commit \(.environment.commit // "unknown"); \($rate) MB/s, \(.parameters.producer.durability), \(.parameters.producer.duration_ns / 1e9) s a phase" end),
  "",
  "Medians [least..most] of the rounds, alone → beside; ms. End to end is from when a batch was due to when a consumer had it.",
  "",
  "| beside the producer | rounds | produced MB/s | ack p50 | ack p99 | end to end p50 | end to end p99 | tails, scans MB/s | server CPU, % of a core | server RSS MB, most | bytes of RSS for each idle connection, rounds | stuck that were closed | others, % of a core |",
  "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
  ($runs[] | .row as $row | .rounds | "| \($row) | \(length) | \(both(map(.mb_per_s) | median | tenth)) | \(both(latency(.ack_latency_us.p50))) | \(both(latency(.ack_latency_us.p99))) | \(both(latency(.end_to_end_us.p50))) | \(both(latency(.end_to_end_us.p99))) | \(map(.beside.tail_mb_per_s // 0) | median | round), \(map(.beside.scan_mb_per_s // 0) | median | round) | \(both(map((.cpu.server.user // 0) + (.cpu.server.system // 0)) | median | round)) | \(both(map(.server_resident_bytes_max // 0) | max | mb)) | \(map(.idle // empty | .bytes_per_connection // 0 | round | tostring) | join(", ")) | \(map(.stuck_closed // 0) | max) | \(map(.beside.cpu.foreign) | median | round) |")
' >"$out.md"
cat "$out.md"
if [ -n "$failed" ]; then
  echo "readers: failed:$failed; what they said is above" >&2
  exit 1
fi
