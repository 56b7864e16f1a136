#!/usr/bin/env bash
# Packs what was built here for machines with GPUs that have a LibTorch of the same version, and neither compiler nor
# packages: the program, its plugins, the tests that need a GPU, and the libraries of this system that these need.
# LibTorch and CUDA are the other machine's own.
#
#   setup/gpu-bundle.sh [BUILD FOLDER [FOLDER]]     default: build; the bundle goes to the same folder
#
# Makes lockstep-gpu-VERSION.tar.gz, of less than 64 MiB (LOCKSTEP_BUNDLE_MIB). On the other machine:
#
#   tar xf lockstep-gpu-VERSION.tar.gz && lockstep-gpu-VERSION/lockstep info
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=setup/torch.sh
source setup/torch.sh

limit_mib=${LOCKSTEP_BUNDLE_MIB:-64}
needed_plugins=(cuda_graph cuda_copies cuda_kernels nccl gloo)
# Its library has to be the one that mpirun belongs to: it stays out, and where there is none, so is the backend.
optional_plugins=(mpi loopback)

fail() {
  printf 'gpu-bundle: %s\n' "$*" >&2
  exit 1
}

build=$(realpath "${1:-build}")
version=$(sed -n 's/^project(lockstep VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=lockstep-gpu-$version
archive=$(realpath "${2:-$build}")/$name.tar.gz
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bundle=$folder/$name
mkdir -p "$bundle"/build/plugins "$bundle"/build/tests/gpu "$bundle"/tests/gpu "$bundle"/lib "$bundle"/bench/python

# Libraries that the other machine has, or that have to be its own: the C and C++ runtime, LibTorch with its OpenMP,
# CUDA and what belongs to the driver.
is_theirs() {
  case $1 in
    linux-vdso.* | ld-linux* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.* | libutil.so.*) true ;;
    libstdc++.so.* | libgcc_s.so.* | libgomp.so.*) true ;;
    libtorch* | libc10* | libcu* | libnccl* | libnv*) true ;;
    *) false ;;
  esac
}

# copy_libraries_of FILE
copy_libraries_of() {
  local library arrow path
  while read -r library arrow path _; do
    library=$(basename "$library")
    if is_theirs "$library"; then continue; fi
    if [ "$arrow $path" = "=> not" ]; then
      # What only LibTorch's libraries want is theirs as well.
      if readelf -d "$1" | grep -qF "[$library]"; then fail "$1 needs $library, which is not on this machine"; fi
    elif [ "$arrow" = "=>" ] && [ ! -e "$bundle/lib/$library" ]; then
      cp -L "$path" "$bundle/lib/$library"
    fi
  done < <(ldd "$1")
}

[ -x "$build/lockstep" ] || fail "there is no $build/lockstep: run 'make gpu-bundle'"
cp "$build/lockstep" "$bundle/build/"
copy_libraries_of "$build/lockstep"
for plugin in "${needed_plugins[@]}"; do
  file=$build/plugins/lockstep_$plugin.so
  [ -e "$file" ] || fail "there is no $file: it is built where the CUDA toolkit, NCCL and Gloo are (docs/gpu.md)"
  cp "$file" "$bundle/build/plugins/"
  copy_libraries_of "$file"
done
for plugin in "${optional_plugins[@]}"; do
  if [ -e "$build/plugins/lockstep_$plugin.so" ]; then cp "$build/plugins/lockstep_$plugin.so" "$bundle/build/plugins/"; fi
done
for program in "$build"/tests/gpu/*_test; do
  [ -x "$program" ] || fail "there are no test programs in $build/tests/gpu: run 'make gpu-bundle'"
  cp "$program" "$bundle/build/tests/gpu/"
  copy_libraries_of "$program"
done
# What tests/gpu/run runs beside the programs.
cp tests/gpu/{run,checks.py,parts.py,judge.py,check_program.py} "$bundle/tests/gpu/"
mkdir -p "$bundle/tests/python" "$bundle/python"
cp tests/python/networks.py "$bundle/tests/python/"
cp -r python/lockstep "$bundle/python/"
rm -rf "$bundle"/python/lockstep/{,recorder/}__pycache__
cp bench/gpu_vs_python.py bench/gpu_promises.py bench/vs_python.py "$bundle/bench/"
cp bench/python/gpu_train_step.py bench/python/step_bytes.py "$bundle/bench/python/"
cp LICENSE "$bundle/"
cp setup/with-torch.sh "$bundle/with-torch"
cat >"$bundle/lockstep" <<'LAUNCHER'
#!/usr/bin/env bash
# lockstep, with the LibTorch of this machine; ./with-torch says how that is found.
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/with-torch" build/lockstep "$@"
LAUNCHER
chmod +x "$bundle/lockstep" "$bundle/with-torch"

mapfile -t binaries < <(find "$bundle/build" "$bundle/lib" -type f | sort)
strip --strip-unneeded "${binaries[@]}"
# Nothing is to be looked for where it lay on this machine.
for binary in "${binaries[@]}"; do
  printf 'file(RPATH_REMOVE FILE "%s")\n' "$binary"
done >"$folder/remove-rpath.cmake"
cmake -P "$folder/remove-rpath.cmake"

# The newest symbol version of a kind that any file wants: newest GLIBC GLIBC_2.34 -> 2.34.
newest() {
  for binary in "${binaries[@]}"; do objdump -T "$binary" 2>/dev/null; done |
    sed -nE "s/.*\*UND\*.*\(?\b$1_([0-9.]+)\)?.*/\1/p" | sort -uV | tail -n 1
}

built_with=$(sed -n 's/^LOCKSTEP_TORCH:[A-Z]*=//p' "$build/CMakeCache.txt")
read -r torch _ < <(locate_torch "$built_with") || true
[ -n "$torch" ] || fail "the LibTorch that $build was built with is not in $built_with any more"
{
  echo "torch $torch"
  echo "glibc $(newest GLIBC)"
  echo "libstdc++ $(newest GLIBCXX)"
} >"$bundle/built-with.txt"

tar -C "$folder" --owner=0 --group=0 -c "$name" | gzip >"$folder/$name.tar.gz"
size=$(stat -c %s "$folder/$name.tar.gz")
if [ "$size" -ge $((limit_mib * 1048576)) ]; then
  fail "the bundle has $((size / 1048576)) MiB, and is to have less than $limit_mib. Its biggest files," \
    "before compression:"$'\n'"$(cd "$bundle" && find . -type f -printf '%s %P\n' | sort -rn | head -n 8 |
      awk '{ printf "  %6.1f MiB  %s\n", $1 / 1048576, $2 }')"
fi
mv "$folder/$name.tar.gz" "$archive"
printf '%s: %s MiB, for LibTorch %s; needs %s\n' "$archive" "$(awk "BEGIN { printf \"%.1f\", $size / 1048576 }")" "$torch" \
  "$(sed -n '2,$p' "$bundle/built-with.txt" | paste -sd, | sed 's/,/, /')"
