#!/usr/bin/env bash
# Configures a preset where that is needed, and builds it.
#
#   setup/build.sh PRESET [CMAKE OPTIONS...] [-- TARGETS...]
#
# A build folder other than the preset's: -B FOLDER among the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=setup/torch.sh
source setup/torch.sh

preset=$1
shift
options=()
folder=build/$preset
[ "$preset" = release ] && folder=build
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  if [ "$1" = -B ]; then
    folder=$2
    shift
  else
    options+=("$1")
  fi
  shift
done
targets=("${@:2}")

torch=$(remembered_torch)
options+=("-DLOCKSTEP_TORCH=${torch:-$PWD/.venv}")

# Once configured, the build itself configures again when a CMake file has changed; what it cannot see is a
# change of the options.
wanted="$preset ${options[*]}"
if [ ! -f "$folder/build.ninja" ] || [ "$(cat "$folder/configured-with.txt" 2>/dev/null)" != "$wanted" ]; then
  cmake --preset "$preset" -B "$folder" "${options[@]}"
  echo "$wanted" >"$folder/configured-with.txt"
fi
cmake --build "$folder" -j "$(setup/jobs.sh)" ${targets:+--target "${targets[@]}"}
