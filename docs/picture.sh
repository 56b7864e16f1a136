#!/usr/bin/env bash
# Makes docs/report.png, the picture of the report page in README.md: measures, writes the page, and has a
# headless Chromium draw its top.
#
#   docs/picture.sh                measures first (about three minutes; on a machine that does nothing else)
#   docs/picture.sh RESULT.json    draws the page of a saved result
#
#   LOCKSTEP_CHROMIUM=PROGRAM      a browser other than the one that is installed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
result=${1:-$folder/result.json}
if [ $# -eq 0 ]; then
  build/lockstep bench --model resnet18 --image-size 64 --batch 8 --strategy ddp,replicated --ranks 1,2 \
    --breakdown --max-time 20 --json "$result"
fi
build/lockstep report "$result" -o "$folder/report.html"

browser=${LOCKSTEP_CHROMIUM:-$(command -v chromium || command -v google-chrome || true)}
if [ -z "$browser" ]; then
  echo "docs/picture.sh: no Chromium here: install it, or name one in LOCKSTEP_CHROMIUM" >&2
  exit 1
fi
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
  --window-size=1080,1190 --screenshot="$folder/report.png" "file://$folder/report.html" 2>/dev/null
mv "$folder/report.png" docs/report.png
echo "docs/report.png: $(stat -c %s docs/report.png) bytes"
