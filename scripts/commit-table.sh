#!/usr/bin/env bash
# Commits of many partitions: the storage engine without its network, with and without its
# journal, beside the raw program that does the same writes (BENCHMARKS.md). Runs of all in turn,
# medians, spread, and everybody else's CPU.
#
#   ROWS="384x1024 4x1048576" scripts/commit-table.sh [perf commit flags ...]
#
# ROWS are PARTITIONSxBYTES, DURABILITIES "durable written", SYSTEMS "auto sync raw serial" (the engine with
# its journal and without, the raw program with overlap and without). ROUNDS=5 SECONDS_EACH=3 WARM_UP=1s
# IN_FLIGHT_BYTES=1073741824 SPACE_BYTES=40000000000. DATA=. is a directory on the disk
# to measure, OUT=./commit-table gets the endings .jsonl (every run) and .md (the table, of all runs
# that .jsonl has). RINGLOG is a binary to use instead of building one. Needs jq, and a machine on
# which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3} data=${DATA:-.} out=${OUT:-./commit-table}
space=${SPACE_BYTES:-40000000000} flight=${IN_FLIGHT_BYTES:-1073741824}
durabilities=${DURABILITIES:-durable written} systems=" ${SYSTEMS:-auto sync raw serial} "
if [ -z "${ROWS:-}" ]; then # what matters most first
  ROWS="384x1024 4x1048576 16x1024 10000x1024"
  for bytes in 1024 100 16384 65536 1048576; do
    for partitions in 384 16 1 128 1000 10000; do
      case " $ROWS " in *" ${partitions}x$bytes "*) ;; *) ROWS+=" ${partitions}x$bytes" ;; esac
    done
  done
fi

free=$(df -P -k "$data" | awk 'NR == 2 { print $4 }')
if [ $((free * 1024)) -lt "$space" ]; then
  echo "commit-table: $data has $((free * 1024)) bytes free, SPACE_BYTES asks for $space" >&2
  exit 1
fi
ringlog=${RINGLOG:-bin/ringlog}
[ -n "${RINGLOG:-}" ] || go build -buildvcs=auto -o "$ringlog" ./cmd/ringlog
data=$(mktemp -d "$data/commit-table.XXXXXX")
trap 'rm -rf "$data"' EXIT

# run ROW DURABILITY ROUND NAME FLAGS...: one run as one line of JSON; a run that fails is a line too.
run() {
  local row=$1 durability=$2 round=$3 name=$4 report
  shift 4
  sync
  sleep "${PAUSE:-1}"
  report=$("$ringlog" perf commit --json --data-dir "$data" --partitions "${row%x*}" --record-bytes "${row#*x}" \
    --durability "$durability" --duration "${seconds}s" --warm-up "${WARM_UP:-1s}" --in-flight-bytes "$flight" \
    --space-bytes "$space" "$@") || report='{"failed": true}'
  jq -c --arg row "$row" --arg durability "$durability" --arg name "$name" --argjson round "$round" \
    '{row: $row, durability: $durability, name: $name, round: $round} + .' <<<"$report" >>"$out.jsonl"
}

# From 256 KiB for a partition and commit on, writing to the segments at once is the raw counterpart;
# below it the journal, with and without overlap, of which the table takes the faster one.
for durability in $durabilities; do
  for row in $ROWS; do
    for round in $(seq "$rounds"); do
      echo "commit-table: $row, $durability, round $round of $rounds" >&2
      [[ $systems != *" auto "* ]] || run "$row" "$durability" "$round" auto --system engine --way auto "$@"
      [[ $systems != *" sync "* ]] || run "$row" "$durability" "$round" sync --system engine --way sync "$@"
      if [ "${row#*x}" -ge 262144 ]; then
        run "$row" "$durability" "$round" "raw direct" --system direct "$@"
        continue
      fi
      [[ $systems != *" raw "* ]] || run "$row" "$durability" "$round" "raw journal" --system journal "$@"
      [[ $systems != *" serial "* ]] || run "$row" "$durability" "$round" "raw journal, serial" --system journal --overlap=false "$@"
    done
  done
done

jq -rn --slurpfile runs <(grep -v '"failed":true' "$out.jsonl") '
  def median: sort | .[length / 2 | floor];
  def grouped: round | tostring | [match("\\d{1,3}(?=(\\d{3})*$)"; "g").string] | join(",");
  def ms: . / 10 | round / 100;
  def ratio: . * 100 | round / 100;
  def rate: map(.appends_per_s) | median;
  def cell: if length == 0 then "failed" else
    "\(rate | grouped) [\(map(.appends_per_s) | min | grouped)..\(map(.appends_per_s) | max | grouped)], \(map(.commit_latency_us.p50) | median | ms)/\(map(.commit_latency_us.p99) | median | ms)" end;
  def share(of): if length == 0 or (of | length) == 0 then "" else rate / (of | rate) | ratio end;
  def steady: if length == 0 then "" else map(if .first_third_appends_per_s > 0 then .last_third_appends_per_s / .first_third_appends_per_s else 0 end) | median | ratio end;
  def amplification: if length == 0 then "" else map(.write_amplification) | median | ratio end;
  ($runs[0] | if . == null then "no runs" else
    "\(.environment.cpu_model), \(.environment.cores) cores, \(.file_system), \(.environment.kernel), \(.environment.go), commit \(.environment.commit // "unknown"), \(.parameters.duration_ns / 1e9) s a run after \(.parameters.warm_up_ns / 1e9) s" end),
  "",
  "Appends/s: median [least..most], then p50/p99 of a commit in ms.",
  "",
  "| partitions × bytes | durability | engine | engine, no journal | raw | engine : raw | engine : no journal | appends, MB a commit | last : first third | written : appended, engine, raw | RSS MB | others, % of a core | in flight |",
  "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
  (reduce $runs[] as $r ([]; if any(.[]; .row == $r.row and .durability == $r.durability) then . else . + [$r | {row, durability}] end)
  | .[] as $key | [$runs[] | select(.row == $key.row and .durability == $key.durability)]
  | map(select(.name == "auto")) as $auto | map(select(.name == "sync")) as $sync
  | (map(select(.name | startswith("raw"))) | group_by(.name) | if length == 0 then [] else max_by(rate) end) as $raw
  | "| \($key.row | sub("x"; " × ")) | \($key.durability) | \($auto | cell) | \($sync | cell) | \($raw | if length == 0 then "" else .[0].name[4:] + ": " end)\($raw | cell) | \($auto | share($raw)) | \($auto | share($sync)) | \($auto | if length == 0 or .[0].commits == null then "" else "\(map(.appends_per_commit) | median | grouped), \(map(.bytes_per_commit) | median / 1e6 | ratio)" end) | \($auto | steady) | \($auto | amplification), \($raw | amplification) | \($auto | if length == 0 then "" else map(.resident_bytes_max) | max / 1e6 | round end) | \(map(.cpu.foreign) | median | round) | \(.[0].appends_in_flight | grouped) |")
' >"$out.md"
cat "$out.md"
