#!/usr/bin/env bash
# Installs, by package name, the clients that the end-to-end tests drive the
# broker with, what the scripts that make tables read JSON with, and what makes the
# file systems whose power is cut. Does nothing when they are there.
set -euo pipefail

missing=()
need() { # command, package
  command -v "$1" >/dev/null || missing+=("$2")
}
need kcat kcat
need jq jq
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ]; then # nobody else may mount
  need mkfs.ext4 e2fsprogs
  need mkfs.xfs xfsprogs
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -qq -y "${missing[@]}" >/dev/null; }
  exit 0
fi

echo "The end-to-end tests need: ${missing[*]}." >&2
echo "Install them with your package manager (Debian: apt-get install ${missing[*]}; macOS: brew install ${missing[*]}), then run this again." >&2
exit 1
