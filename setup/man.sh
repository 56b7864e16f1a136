#!/usr/bin/env bash
# Writes lockstep.1 and a page of each command, lockstep-bench.1, from what --help prints.
#
#   setup/man.sh [PROGRAM [FOLDER]]     default: build/lockstep, build/man/man1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$(realpath "${1:-build/lockstep}")
folder=${2:-build/man/man1}
command -v help2man >/dev/null || {
  echo "man: there is no help2man: run setup/install.sh --wheel" >&2
  exit 1
}
mkdir -p "$folder"

version=$("$program" --version | sed -n '1s/^lockstep \([^ ]*\).*/\1/p')

# page NAME [COMMAND]: the manual page of what `lockstep COMMAND --help` explains; help2man asks a program of that name.
page() {
  printf '#!/bin/sh\nexec "%s" %s --help\n' "$program" "${2:-}" >"$work/$1"
  chmod +x "$work/$1"
  help2man --no-info --version-string "$version" --name "$("$work/$1" | head -n 1)" --output "$folder/$1.1" "$work/$1"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page lockstep
for command in $("$program" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  page "lockstep-$command" "$command"
done
