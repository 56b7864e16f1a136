# shellcheck shell=bash disable=SC2034
# Where LibTorch is, for the scripts in this folder. Sourced with the project's folder as working directory.

torch_minimum=2.11
venv_stamp=.venv/lockstep-installed.txt
torch_memory=.cache/lockstep-torch

# The LibTorch that the user once pointed to; empty where it is the one in .venv.
remembered_torch() { cat "$torch_memory" 2>/dev/null || true; }

# A path that stays right from any folder. Symbolic links stay: a virtual environment's interpreter is one.
absolute_torch() {
  if [ -e "$1" ]; then
    realpath -s "$1"
  else
    command -v "$1" || echo "$1"
  fi
}

# "<version> <root>" of the LibTorch at a path, by the same rules as the build's own search.
locate_torch() { cmake -DWHERE="$1" -P cmake/LocateLibTorch.cmake; }
