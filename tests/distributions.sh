#!/usr/bin/env bash
# Tries lockstep on other distributions: for each, a fresh system in a folder (debootstrap), in which set-up, the build,
# a run and `verify` of every backend have to pass. Wants root and a network; takes about ten minutes each.
#
#   tests/distributions.sh                 trixie
#   tests/distributions.sh noble trixie    Debian's and Ubuntu's names
#
#   LOCKSTEP_DISTRIBUTIONS=FOLDER   where the systems are kept [/var/tmp/lockstep-distributions]; one that is there is
#                                   used again, so remove it to begin with a fresh one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'distributions: %s\n' "$*" >&2
  exit 1
}

kept=${LOCKSTEP_DISTRIBUTIONS:-/var/tmp/lockstep-distributions}
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(trixie)
[ "$(id -u)" = 0 ] || fail "chroot and mount need root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap (ubuntu-keyring for Ubuntu's)"

mounted=()
unmount() {
  local place
  for place in "${mounted[@]}"; do umount "$place"; done
  mounted=()
}
trap unmount EXIT

# make_system NAME FOLDER: the base system, complete or not at all.
make_system() {
  local name=$1 folder=$2 options=(--variant=minbase)
  [ ! -d "$folder" ] || return 0
  case $name in
    jammy | noble | plucky | questing) options+=("--components=main,universe") ;;
  esac
  say "$name: base system into $folder"
  rm -rf "$folder.new"
  # Newer releases of a distribution are made as the older ones that debootstrap knows.
  if [ -e "/usr/share/debootstrap/scripts/$name" ]; then
    debootstrap "${options[@]}" "$name" "$folder.new" >"$folder.log"
  elif [[ ${options[*]} == *universe* ]]; then
    debootstrap "${options[@]}" "$name" "$folder.new" "" /usr/share/debootstrap/scripts/jammy >"$folder.log"
  else
    debootstrap "${options[@]}" "$name" "$folder.new" "" /usr/share/debootstrap/scripts/sid >"$folder.log"
  fi || {
    tail -n 5 "$folder.log" >&2
    fail "debootstrap could not make $name (its log: $folder.log)"
  }
  mv "$folder.new" "$folder"
}

# inside FOLDER COMMAND...: in the system, with none of this shell's environment.
inside() {
  local folder=$1
  shift
  chroot "$folder" /usr/bin/env -i HOME=/lockstep PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    ${PIP_CERT:+PIP_CERT=/etc/proxy-certificates.crt} /bin/bash -euo pipefail -c "cd /lockstep && $*"
}

try() {
  local name=$1 folder=$kept/$1 place
  make_system "$name" "$folder"
  for place in proc sys dev dev/shm; do
    mount --bind "/$place" "$folder/$place"
    mounted=("$folder/$place" "${mounted[@]}")
  done
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  # The state that is committed, over what an earlier try left built.
  mkdir -p "$folder/lockstep"
  git archive HEAD | tar -C "$folder/lockstep" -x
  # Certificates of a proxy that this machine trusts.
  if [ -n "${PIP_CERT:-}" ]; then cp "$PIP_CERT" "$folder/etc/proxy-certificates.crt"; fi

  say "$name: set-up and build"
  # `make` is the one package that a system must bring along.
  inside "$folder" "command -v make >/dev/null || { apt-get update -qq && apt-get install -y -qq make; } >/dev/null 2>&1"
  inside "$folder" "make build" >"$folder.build.log" 2>&1 || {
    tail -n 30 "$folder.build.log" >&2
    fail "$name: make build failed (the whole log: $folder.build.log)"
  }
  inside "$folder" ". /etc/os-release && echo \"\$PRETTY_NAME\" && gcc --version | head -n 1 && build/lockstep info backends"

  say "$name: bench and verify with every backend"
  inside "$folder" "build/lockstep bench --model lenet5 --ranks 1,2 --steps 20 --warmup 2 >/dev/null"
  local backend
  for backend in gloo mpi thread; do
    inside "$folder" "build/lockstep verify --model mlp --batch 4 --ranks 2 --strategy all --backend $backend | tail -n 1"
  done
  unmount
}

mkdir -p "$kept"
for name in "${names[@]}"; do try "$name"; done
say "all passed on: ${names[*]}"
