#!/usr/bin/env bash
# Builds and runs the tests; the last line is "N passed, N failed" over all of them. A test that skips itself
# counts as failed, those labelled gpu excepted: a promise that was not checked is not kept.
#
#   tests/run.sh        release build: all but the slow ones; what has threads and sockets again under tsan
#   tests/run.sh --all  also the slow ones, everything under asan and tsan, and the fuzzers of the readers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

everything=false
case "${1:-}" in
  "") ;;
  --all) everything=true ;;
  *)
    echo "tests/run.sh: unknown option '$1' (there is only --all)" >&2
    exit 2
    ;;
esac

# What surrounds this shell (a cluster job, another run of ctest, colours, thread counts) is not part of a test.
for name in $(compgen -e); do
  case $name in
    CTEST_* | GTEST_* | BENCHMARK_* | LOCKSTEP_PLUGIN_PATH | MAKEFLAGS | MFLAGS | MAKELEVEL) unset "$name" ;;
    OMPI_* | OPAL_* | PMIX_* | PMI_* | PRTE_* | SLURM_* | TORCHELASTIC_*) unset "$name" ;;
    RANK | WORLD_SIZE | LOCAL_RANK | LOCAL_WORLD_SIZE | GROUP_RANK | MASTER_ADDR | MASTER_PORT) unset "$name" ;;
    OMP_* | GOMP_* | KMP_* | MKL_* | ATEN_* | TORCH_*) unset "$name" ;;
    PYTHON*) unset "$name" ;;
    NO_COLOR | CLICOLOR | CLICOLOR_FORCE | COLUMNS | LD_PRELOAD | MALLOC_*) unset "$name" ;;
  esac
done
export LC_ALL=C.UTF-8
# Tests share the cores: a thread that waits for its team by spinning takes them from the others.
export OMP_WAIT_POLICY=PASSIVE

jobs=$(setup/jobs.sh)
passed=0
failed=0
# What failed and why, said again at the very end: of a long log often only the end is kept.
failures=""

# run NAME FOLDER JOBS CTEST-ARGUMENTS...: one ctest run, added to the sums.
run() {
  local name=$1 folder=$2 parallel=$3 results head total not_run bad
  shift 3
  results=$PWD/$folder/test-results/$name.xml
  rm -f "$results"
  printf '\n== %s\n' "$name"
  "${wrapper[@]}" ctest --test-dir "$folder" -j "$parallel" --output-on-failure --no-tests=error \
    --output-junit "$results" "$@" || true
  if ! head=$(grep -m 1 -A 10 '<testsuite ' "$results" 2>/dev/null); then
    echo "no test of '$name' ran: that is a failure" >&2
    failed=$((failed + 1))
    return
  fi
  total=$(attribute tests "$head")
  bad=$(attribute failures "$head")
  not_run=$(($(attribute skipped "$head") + $(attribute disabled "$head")))
  if [[ $name == *gpu* ]]; then
    total=$((total - not_run))
  else
    bad=$((bad + not_run))
  fi
  passed=$((passed + total - bad))
  failed=$((failed + bad))
  failures+=$(reasons "$name" <"$results")
}

# The failed tests of a JUnit file, each with the first failure that GoogleTest tells of, or else how its output ends;
# and, but for those that need a GPU, the tests that did not run.
reasons() {
  awk -v run="$1" '
    /<testcase / {
      name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name)
      if (/status="(notrun|disabled)"/ && run !~ /gpu/)
        printf "\n%s (%s)\n  skipped or not run, which counts as failed\n", name, run
      bad = /status="fail"/; left = 0; told = 0; count = 0
      if (bad) printf "\n%s (%s)\n", name, run
    }
    bad && /<\/testcase>/ && !told { for (i = (count > 6 ? count - 6 : 0); i < count; i++) print "  " last[i] }
    /<\/testcase>/ { bad = 0 }
    !bad { next }
    { line = substr($0, 1, 200); gsub(/<[^>]*>|\t/, "", line) }
    / Failure$/ && !told { left = 5; told = 1 }
    left-- > 0 { print "  " line }
    line != "" { last[count++] = line }'
}

# The number in name="N" of an XML element.
attribute() { sed -nE "s/.*[[:space:]]$1=\"([0-9]+)\".*/\1/p" <<<"$2" | head -n 1; }

has_tests() { ctest --test-dir "$1" -N -L "$2" | grep -qE 'Total Tests: [1-9]'; }

# Tests of several ranks bring processes and threads that poll, and wait in between: three at a time, however many cores.
at_a_time=$((jobs < 2 ? 1 : 3))

# Of the unit tests some sleep, so one more than there are cores.
run_release() {
  run "release, unit" build "$((jobs + 1))" -LE '^(comm|ranks|cli|browser|slow|gpu)$'
  run "release, program" build "$jobs" -L '^cli$' -LE '^slow$'
  run "release, several ranks" build "$at_a_time" -L '^(comm|ranks|browser)$' -LE '^slow$'
  if [ ! -e /dev/nvidiactl ]; then
    printf '\n== release, gpu: there is none\n'
  elif has_tests build '^gpu$'; then
    run "release, gpu" build 1 -L '^gpu$'
  fi
}

# The thread sanitizer of older compilers cannot cope with much address-space randomisation.
wrapper=()
without_randomisation() {
  if setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
}

# The tests of threads and sockets.
concurrent_tests=(comm_ranks_test comm_test comm_sanitized_plugin_test launch_test feed_test)

# sanitize PRESET FOLDER concurrent|all CMAKE-OPTIONS...: builds and runs the tests of the concurrent parts, or all. Those
# of the program are left out, because it wants its backends, and sanitizer builds have no plugins.
sanitize() {
  local preset=$1 folder=$2 which=$3 part targets=()
  shift 3
  if [ "$which" = concurrent ]; then
    targets=(-- "${concurrent_tests[@]}")
  fi
  if [ "$preset" = tsan ]; then without_randomisation; fi
  "${wrapper[@]}" setup/build.sh "$preset" -B "$folder" "$@" "${targets[@]}"
  export ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1
  export LSAN_OPTIONS=suppressions=$PWD/tests/lsan-suppressions.txt:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1
  export TSAN_OPTIONS=second_deadlock_stack=1:suppressions=$PWD/tests/tsan-suppressions.txt
  if [ "$which" = concurrent ]; then
    for part in comm launch feed; do
      run "$folder, $part" "$folder/tests/$part" "$((jobs + 1))" -LE '^(comm|ranks|slow|gpu)$' -E '_NOT_BUILT$'
    done
    # Three ranks by each way, and two where the way takes long; --all has the others.
    run "$folder, several ranks" "$folder/tests/comm" "$at_a_time" -L '^comm$' \
      -R '^comm[.](thread[.]3|staged[.]2|hierarchical[.]thread[.]3)ranks$'
  else
    # Left out: a sanitizer has no stack for a thread without memory.
    run "$folder, unit" "$folder" "$jobs" -LE '^(comm|ranks|cli|browser|slow|gpu)$' \
      -E '^ThreadsTest.a_thread_that_cannot_be_started'
    run "$folder, several ranks" "$folder" 1 -L '^comm$'
  fi
  unset ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
  wrapper=()
}

# libFuzzer comes with clang; what it found is kept and tried first (tests/fuzz/run_fuzzer.cmake).
fuzz() {
  if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
    printf '\n== fuzz\nclang++ cannot link a fuzzer, which counts as failed: install clang and libclang-rt-dev\n' >&2
    failed=$((failed + 1))
    return
  fi
  setup/build.sh fuzz -DLOCKSTEP_FUZZ_SECONDS=60 -- fuzz_result_file fuzz_sample_file fuzz_image_file fuzz_tensor_file fuzz_batch_message fuzz_collectives_text fuzz_network_file
  run fuzz build/fuzz "$jobs" -L '^fuzz$'
}

# lockstep's own benchmarks are not run as tests, nor can those run that need a GPU; that they compile is one.
if $everything; then
  setup/build.sh release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_BENCHMARKS=ON -DLOCKSTEP_GPU_TESTS=ON
else
  setup/build.sh release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_BENCHMARKS=OFF
fi
run_release
if $everything; then
  fuzz
  if has_tests build '^slow$'; then run "release, slow" build 1 -L '^slow$' -LE '^gpu$'; fi
  sanitize asan build/asan-torch all
  sanitize tsan build/tsan-torch all
else
  sanitize tsan build/tsan concurrent -DLOCKSTEP_TORCH_PARTS=OFF
fi

for plugin in nccl cuda_graph cuda_kernels; do
  if [ ! -e build/plugins/lockstep_$plugin.so ]; then
    printf '\nlockstep_%s.so was not compiled: the CUDA toolkit with nvcc, NCCL or a LibTorch with CUDA is missing.\n' "$plugin"
  fi
done
if [ -n "$failures" ]; then printf '\n== failed\n%s\n' "$failures"; fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
