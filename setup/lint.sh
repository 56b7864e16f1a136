#!/usr/bin/env bash
# Checks the sources' format, the scripts and clang-tidy's rules (.clang-tidy), or formats.
#
#   setup/lint.sh [FILES...]        checks; needs a configured release build for the compile commands
#   setup/lint.sh --fix [FILES...]  formats
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fix=false
if [ "${1:-}" = --fix ]; then
  fix=true
  shift
fi
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.sh' .ci/run)
fi
sources=()
units=()
scripts=()
for file in "${files[@]}"; do
  case $file in
    *.h | *.cu) sources+=("$file") ;;
    *.cpp)
      sources+=("$file")
      # Only what the build compiles has the options that clang-tidy needs.
      if grep -qsF "$PWD/$file\"" build/compile_commands.json; then units+=("$file"); fi
      ;;
    *.sh | .ci/run) scripts+=("$file") ;;
  esac
done

if $fix; then
  [ ${#sources[@]} -eq 0 ] || clang-format -i "${sources[@]}"
  exit 0
fi

status=0
if [ ${#sources[@]} -gt 0 ]; then
  clang-format --dry-run -Werror "${sources[@]}" || status=1
fi
if [ ${#scripts[@]} -gt 0 ]; then
  shellcheck -x "${scripts[@]}" || status=1
fi
if [ ${#units[@]} -gt 0 ]; then
  echo "clang-tidy: ${#units[@]} files"
  printf '%s\0' "${units[@]}" | xargs -0 -P "$(setup/jobs.sh)" -n 1 clang-tidy --quiet -p build || status=1
fi
exit "$status"
