#!/usr/bin/env bash
# Runs set-up in a copy of the project that has no network: what was installed must survive.
#
#   tests/setup/install_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LOCKSTEP_TORCH
cp -r setup cmake "$folder"
cd "$folder"

failures=0
check() {
  local what=$1
  shift
  if ! "$@"; then
    echo "$what"
    failures=$((failures + 1))
  fi
}

# An older LibTorch and an older oneDNN, which work.
mkdir -p .venv/bin .venv/lib .venv-onednn/lib
echo "an older list" | tee .venv/lockstep-installed.txt >.venv-onednn/lockstep-installed.txt
echo "libtorch" >.venv/lib/libtorch_cpu.so
echo "dnnl" >.venv-onednn/lib/libdnnl.so.3

# Port 9 (discard) of this machine answers nobody.
without_network() {
  env PIP_INDEX_URL=http://127.0.0.1:9/simple PIP_EXTRA_INDEX_URL='' PIP_FIND_LINKS='' PIP_NO_INDEX='' PIP_RETRIES=0 \
    PIP_NO_CACHE_DIR=1 "$@"
}
status=0
without_network setup/install.sh >said.txt 2>&1 || status=$?
check "set-up ended with $status without a network" [ "$status" -eq 1 ]
check "the older LibTorch is gone" grep -qx "libtorch" .venv/lib/libtorch_cpu.so
check "LibTorch passes as the new one" grep -qx "an older list" .venv/lockstep-installed.txt
check "half an installation was left" [ ! -e .venv.new ]
check "no remedy is named" grep -q "point LOCKSTEP_TORCH to a LibTorch folder" said.txt

# A LibTorch that is given leaves oneDNN to install, which lockstep can do without.
mkdir -p torch/lib torch/include/torch/headeronly
touch torch/lib/libtorch_cpu.so
printf '#define TORCH_VERSION_%s\n' "MAJOR 2" "MINOR 11" "PATCH 0" >torch/include/torch/headeronly/version.h
status=0
LOCKSTEP_TORCH=$PWD/torch without_network setup/install.sh >said.txt 2>&1 || status=$?
check "set-up ended with $status where only oneDNN could not be had" [ "$status" -eq 0 ]
if [ "$(uname -m)" = x86_64 ]; then
  check "the older oneDNN is gone" grep -qx "dnnl" .venv-onednn/lib/libdnnl.so.3
  check "the consequence is not said" grep -q "is built without its fused kernels" said.txt
fi

# Every package is pinned by version and by hash.
for list in setup/requirements-*.txt; do
  check "$list has a line without a version" awk '/^[a-z]/ && !/^[A-Za-z0-9.-]+==[0-9][^ ]* / {exit 1}' "$list"
  # shellcheck disable=SC2016
  check "$list has a package without a hash" awk '
    /^[a-z]/ { if (name != "" && !hashes) exit 1; name = $0; hashes = 0 }
    / --hash=sha256:[0-9a-f]+/ { hashes = 1 }
    END { exit name == "" || !hashes }' "$list"
done

[ "$failures" -eq 0 ] || { cat said.txt; exit 1; }
echo "set-up keeps what works until the new is complete"
