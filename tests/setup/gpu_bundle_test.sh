#!/usr/bin/env bash
# Packs the bundle, unpacks it elsewhere, and runs the program from there.
#
#   tests/setup/gpu_bundle_test.sh BUILD-FOLDER LIBTORCH-FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$1
torch=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LD_LIBRARY_PATH LOCKSTEP_PLUGIN_PATH LOCKSTEP_TORCH

failures=0
# expect TEXT STATUS COMMAND...: the command's exit code, and a text in what it says.
expect() {
  local text=$1 wanted=$2 status=0
  shift 2
  "$@" >"$folder/said.txt" 2>&1 || status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -qF -- "$text" "$folder/said.txt"; then
    printf '%s\n  ended with %s instead of %s, or did not say "%s":\n' "$*" "$status" "$wanted" "$text"
    sed 's/^/  | /' "$folder/said.txt"
    failures=$((failures + 1))
  fi
}

expect "for LibTorch 2." 0 setup/gpu-bundle.sh "$build" "$folder"
tar -C "$folder" -xf "$folder"/lockstep-gpu-*.tar.gz
mv "$folder"/lockstep-gpu-*/ "$folder/elsewhere"
there=$folder/elsewhere

# The program and its plugins find their libraries in the bundle, and LibTorch where they are told to.
export LOCKSTEP_TORCH=$torch
expect "LibTorch 2." 0 "$there/lockstep" info
expect "gloo         usable       Gloo" 0 "$there/lockstep" info backends
expect "$there/lib/libfmt" 0 "$there/with-torch" ldd "$there/build/lockstep"
expect "$torch/lib/libtorch_cpu.so" 0 "$there/with-torch" ldd "$there/build/lockstep"
expect "single" 0 "$there/lockstep" bench --model trivial --steps 3 --warmup 1 --strategy single --ranks 1
expect "gloo" 0 "$there/lockstep" bench --model trivial --steps 3 --warmup 1 --strategy ddp --ranks 2 --backend gloo
# Without a GPU its tests skip themselves, which is their way of saying that they could be loaded.
for program in "$there"/build/tests/gpu/*_test; do
  case $program in
    */gpu_ranks_test) CUDA_VISIBLE_DEVICES="" expect "skipped: no GPU" 77 "$there/with-torch" "$program" --backend thread --ranks 1 ;;
    *) expect "Test." 0 "$there/with-torch" "$program" --gtest_list_tests ;;
  esac
done
# And the scripts beside them find each other.
expect "the parts are 1, 2, 3, 4, rest" 2 "$there/with-torch" tests/gpu/run --part all
expect "check_program.py LOCKSTEP" 2 python3 "$there/tests/gpu/check_program.py"
expect "is not what --json writes" 1 python3 "$there/bench/gpu_vs_python.py" --from "$folder/none.json"
expect "PRECISION:BATCH" 2 python3 "$there/bench/gpu_vs_python.py" --rows bf16
expect "--wait" 0 python3 "$there/bench/python/gpu_train_step.py" --help
mapfile -t scripts < <(grep -hoE '"(tests/gpu|bench|bench/python)/[a-z_]+\.py"' tests/gpu/*.py | tr -d '"' | sort -u)
for script in "${scripts[@]:-none}"; do
  if [ ! -e "$there/$script" ]; then
    echo "tests/gpu/parts.py wants $script, which is not in the bundle"
    failures=$((failures + 1))
  fi
done
if readelf -d "$there"/build/lockstep "$there"/build/plugins/*.so | grep -E 'R(UN)?PATH'; then
  echo "these folders of the machine that packed it are still looked in"
  failures=$((failures + 1))
fi

# What the other machine may lack.
LOCKSTEP_TORCH=$folder/nowhere expect "is neither a LibTorch folder nor a Python interpreter" 4 "$there/lockstep" info
printf '#!/bin/sh\necho\n' >"$folder/python3"
chmod +x "$folder/python3"
LOCKSTEP_TORCH=$folder/python3 expect "that Python has no torch" 4 "$there/lockstep" info
LOCKSTEP_TORCH='' PATH=$folder:$PATH expect "has no torch: install torch==2." 4 "$there/lockstep" info
mkdir -p "$folder/old/lib" "$folder/old/include/torch/headeronly"
touch "$folder/old/lib/libtorch_cpu.so"
printf '#define TORCH_VERSION_%s\n' "MAJOR 2" "MINOR 9" "PATCH 1" >"$folder/old/include/torch/headeronly/version.h"
LOCKSTEP_TORCH=$folder/old expect "and that in $folder/old is 2.9.1" 4 "$there/lockstep" info
sed -i 's/^glibc .*/glibc 9.99/' "$there/built-with.txt"
expect "this bundle needs glibc 9.99 or newer" 4 "$there/lockstep" info

# What is too large is not kept, and the largest files are named.
rm "$folder"/*.tar.gz
LOCKSTEP_BUNDLE_MIB=1 expect "build/lockstep" 1 setup/gpu-bundle.sh "$build" "$folder"
if compgen -G "$folder/*.tar.gz" >/dev/null; then
  echo "a bundle that is too large was kept"
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] || exit 1
echo "the bundle runs elsewhere"
