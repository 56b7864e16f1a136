#!/usr/bin/env bash
# Runs a command of this bundle with the LibTorch of this machine.
#
#   ./lockstep ARGUMENTS...           is ./with-torch build/lockstep ARGUMENTS...
#   ./with-torch tests/gpu/run        runs the tests that need a GPU
#
#   LOCKSTEP_TORCH=PATH   a LibTorch folder, a Python interpreter that has torch, or a virtual environment with one;
#                         else the python3 that comes first
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

fail() {
  printf 'lockstep: %s\n' "$*" >&2
  exit 4
}

# What this bundle was built with: "torch 2.11.0", "glibc 2.36", "libstdc++ 3.4.30".
built_with() { sed -n "s/^$1 //p" "$here/built-with.txt"; }

# at_least WANTED VERSION
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

check_system() {
  local wanted there library
  wanted=$(built_with glibc)
  there=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //') || there=
  at_least "$wanted" "${there:-0}" ||
    fail "this bundle needs glibc $wanted or newer, and this machine has ${there:-another C library}:" \
      "build lockstep on a system that is no newer than this one"
  wanted=$(built_with libstdc++)
  library=$(ldconfig -p 2>/dev/null | sed -n 's/.*libstdc++\.so\.6 .* => //p' | head -n 1) || library=
  if [ -n "$library" ] && ! grep -qaF "GLIBCXX_$wanted" "$library"; then
    fail "this bundle needs a libstdc++ with GLIBCXX_$wanted, which $library is too old for:" \
      "build lockstep on a system that is no newer than this one"
  fi
}

# The torch folder that a Python would import; without importing it, which takes seconds.
torch_of_python() {
  "$1" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")'
}

find_torch() {
  local where=${LOCKSTEP_TORCH:-} root python
  if [ -z "$where" ]; then
    python=$(command -v python3) ||
      fail "there is no python3 here to ask for torch: set LOCKSTEP_TORCH to a LibTorch folder or a Python that has torch"
    root=$(torch_of_python "$python") || root=
    [ -n "$root" ] || fail "$python has no torch: install torch==$(built_with torch) there, or set LOCKSTEP_TORCH to a" \
      "LibTorch folder or a Python that has it"
  elif [ -e "$where/lib/libtorch_cpu.so" ]; then
    root=$(realpath "$where")
  else
    python=$where
    if [ -d "$where" ]; then python=$where/bin/python3; fi
    [ -x "$python" ] || fail "LOCKSTEP_TORCH=$where is neither a LibTorch folder nor a Python interpreter"
    root=$(torch_of_python "$python") || root=
    [ -n "$root" ] || fail "LOCKSTEP_TORCH=$where: that Python has no torch"
  fi
  [ -e "$root/lib/libtorch_cpu.so" ] || fail "$root has no lib/libtorch_cpu.so"
  printf '%s\n' "$root"
}

torch_version() {
  sed -nE 's/^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)/\2/p' "$1/include/torch/headeronly/version.h" \
    2>/dev/null | paste -sd.
}

[ $# -gt 0 ] || fail "with-torch wants a command"
check_system
torch=$(find_torch)
wanted=$(built_with torch)
there=$(torch_version "$torch")
# One minor version has one binary interface.
[ "${there%.*}" = "${wanted%.*}" ] ||
  fail "this bundle was built with LibTorch $wanted, and that in $torch is ${there:-of another kind}:" \
    "install torch==$wanted, or set LOCKSTEP_TORCH to one"

# The wheels of CUDA lie beside torch, each with a folder of libraries.
libraries=$torch/lib
for folder in "$(dirname "$torch")"/nvidia/*/lib; do
  if [ -d "$folder" ]; then libraries+=:$folder; fi
done
export LD_LIBRARY_PATH=$libraries:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LOCKSTEP_PLUGIN_PATH=$here/build/plugins
case $1 in
  build/* | tests/*) exec "$here/$1" "${@:2}" ;;
  *) exec "$@" ;;
esac
