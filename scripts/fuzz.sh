#!/usr/bin/env bash
# Runs every fuzz target of the module for a few seconds each: scripts/fuzz.sh [SECONDS]
# Targets are found in the sources, so a new one is run from the day it is
# written. Stops at the first that fails; its input is then under testdata/fuzz. Inputs are
# minimized by a few runs only: where goroutines run, what an input covers differs from run to
# run, and a minute would go for each.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-5}
go=${GO:-go}
count=0
while IFS=: read -r file line; do
  package=./$(dirname "$file")
  target=${line#func }
  target=${target%%(*}
  echo "fuzz $package $target"
  "$go" test -run='^$' -fuzz="^$target\$" -fuzztime="${seconds}s" -fuzzminimizetime=20x "$package"
  count=$((count + 1))
done < <(grep -rE --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]*\(' . | sed 's,^\./,,' | sort)

if [ "$count" = 0 ]; then
  echo "no fuzz target was found: look at scripts/fuzz.sh" >&2
  exit 1
fi
echo "$count fuzz targets, $seconds s each"
