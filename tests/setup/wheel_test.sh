#!/usr/bin/env bash
# Packs the wheel, installs it with pip beside a torch and over one, and runs the program from there.
#
#   tests/setup/wheel_test.sh BUILD-FOLDER SITE-PACKAGES-WITH-TORCH TORCH-STUBS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$1
site=$2
stubs=$3
tools=$PWD/.venv-wheel/bin/python3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LD_LIBRARY_PATH LOCKSTEP_PLUGIN_PATH LOCKSTEP_TORCH PYTHONPATH
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1

failures=0
complain() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}

# expect TEXT STATUS COMMAND...: the command's exit code, and a text in what it says.
expect() {
  local text=$1 wanted=$2 status=0
  shift 2
  "$@" >"$folder/said.txt" 2>&1 || status=$?
  if [ "$status" -ne "$wanted" ] || { [ -n "$text" ] && ! grep -qF -- "$text" "$folder/said.txt"; }; then
    complain "$* ended with $status instead of $wanted, or did not say \"$text\":"
    sed 's/^/  | /' "$folder/said.txt"
  fi
}

expect "pip install" 0 setup/wheel.sh "$build" "$folder"
wheels=("$folder"/lockstep-*-py3-none-manylinux_2_*_x86_64.whl)
wheel=${wheels[0]}
[ -e "$wheel" ] || {
  ls "$folder"
  complain "the wheel has no manylinux tag"
  exit 1
}

# Its contents.
"$tools" -m wheel unpack -d "$folder/unpacked" "$wheel" >/dev/null
unpacked=("$folder"/unpacked/*)
info=("${unpacked[0]}"/*.dist-info)
grep -qx 'Requires-Dist: torch==2.11.\*' "${info[0]}/METADATA" || complain "it does not require torch 2.11"
for text in LICENSE libzmq5.txt libsodium23.txt libhwloc15.txt libfmt9.txt nlohmann-json3-dev.txt; do
  compgen -G "${info[0]}/licenses/${text%[0-9]*.txt}*" >/dev/null || complain "there is no license $text"
done
for page in lockstep.1 lockstep-bench.1; do
  compgen -G "${unpacked[0]}/*.data/data/share/man/man1/$page" >/dev/null || complain "there is no manual page $page"
done
if find "${unpacked[0]}" -name 'libtorch*' -o -name 'libc10*' -o -name 'libgomp*' -o -name 'libcud*' -o -name 'libmpi*' |
  grep .; then
  complain "these belong to torch or to the machine"
fi

# make_environment FOLDER PIP-ARGUMENTS...: a virtual environment with the wheel.
make_environment() {
  python3 -m venv "$1"
  "$1/bin/python3" -m pip install --quiet --no-deps "${@:2}" "$wheel" || complain "pip could not install into $1"
}

# try_program FOLDER: what users do first, in an environment.
try_program() {
  local lockstep=$1/bin/lockstep
  expect "LibTorch 2." 0 "$lockstep" --version
  expect "gloo         usable       Gloo" 0 "$lockstep" info backends
  expect "oneDNN 3." 0 "$lockstep" info kernels
  expect "2 ranks --    1M/2R" 0 "$lockstep" bench --model resnet18 --image-size 64 --batch 2 --ranks 1,2 --steps 3 \
    --warmup 1 --json "$1/result.json"
  expect "2 ranks" 0 "$lockstep" bench --model trivial --ranks 2 --steps 3 --warmup 1 --backend mpi
  expect "2 ranks" 0 mpirun --allow-run-as-root --oversubscribe -np 2 "$lockstep" bench --model trivial --ranks 2 \
    --steps 3 --warmup 1 --backend mpi
  expect "lockstep docs" 0 "$lockstep" docs --help
  expect "# " 0 "$lockstep" docs faq
  expect "" 0 "$lockstep" report "$1/result.json" -o "$1/report.html"
  grep -qF "resnet18" "$1/report.html" || complain "the report says nothing about resnet18"
  expect "did you mean" 2 "$1/bin/python3" -m lockstep bench --modell resnet18
}

# Beside torch: links stand for what pip would have copied.
beside=$folder/beside
make_environment "$beside"
own=("$beside"/lib/python3*/site-packages)
ln -s "$site"/torch "$site"/torch-*.dist-info "$site"/torchgen "$site"/nvidia "${own[0]}/"
try_program "$beside"

# Nothing comes from where it was built, and only what every Linux has from the system.
program=${own[0]}/lockstep/bin/lockstep
for file in "$program" "${own[0]}"/lockstep/bin/plugins/*.so "${own[0]}"/lockstep.libs/*; do
  if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -vF "[\$ORIGIN"; then complain "$file looks there"; fi
done
foreign=$(ldd "$program" | sed -nE 's/.* => (\/[^ ]*) .*/\1/p' | grep -v "^$folder" |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s|libz)\.so\.[0-9.]*$') || true
[ -z "$foreign" ] || complain "these come from the system: $foreign"

# Its header builds a network of one's own.
include=$("$beside/bin/python3" -c 'import lockstep; print(lockstep.include_folder())')
c++ -std=c++20 -O1 -shared -fPIC examples/own_network.cpp -o "$folder/libmine.so" -I"$include" -I"$site/torch/include" \
  -I"$site/torch/include/torch/csrc/api/include" -L"$site/torch/lib" -ltorch_cpu -lc10
expect "2 ranks" 0 "$beside/bin/lockstep" bench --model "$folder/libmine.so:convnet" --ranks 2 --steps 3 --warmup 1

# A network of Python's goes into a file and is trained.
cat >"$folder/mine.py" <<'PYTHON'
import lockstep, torch
model = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
loss = torch.nn.functional.cross_entropy
lockstep.export(model, loss, torch.randn(4, 12), torch.randint(3, (4,)), "mine.pt2")
PYTHON
python_packages=(.venv-tests/lib/python3*/site-packages)
expect "" 0 env LD_LIBRARY_PATH="$stubs" PYTHONPATH="$(realpath "${python_packages[0]}")" "$beside/bin/python3" \
  -c "import os; os.chdir('$folder'); exec(open('mine.py').read())"
expect "2 ranks" 0 "$beside/bin/lockstep" bench --model "$folder/mine.pt2" --ranks 2 --steps 3 --warmup 1
expect "torchvision:vit_b_16" 0 "$beside/bin/lockstep" export --help

# Over a torch elsewhere, as in a virtual environment with the system's packages.
over=$folder/over
make_environment "$over"
own=("$over"/lib/python3*/site-packages)
echo "$site" >"${own[0]}/elsewhere.pth"
try_program "$over"

# Over all of PyPI's torch, CUDA's libraries among them, where `make setup-python` has installed it.
full=(.venv-dev/lib/python3*/site-packages)
if [ -e "${full[0]}/torch" ]; then
  realpath "${full[0]}" >"${own[0]}/elsewhere.pth"
  try_program "$over"
  expect "train it with" 0 "$over/bin/lockstep" export torchvision:resnet18 --image-size 64 --batch 2 -o "$folder/resnet18.pt2"
  expect "2 ranks" 0 "$over/bin/lockstep" bench --model "$folder/resnet18.pt2" --ranks 1,2 --steps 3 --warmup 1
else
  echo "torch with CUDA's libraries was not tried: 'make setup-python' installs one"
fi

# Without one.
rm "${own[0]}/elsewhere.pth"
expect "has no torch: " 4 "$over/bin/lockstep" info

[ "$failures" -eq 0 ] || exit 1
echo "the wheel runs where pip puts it"
