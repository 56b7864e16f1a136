#!/usr/bin/env bash
# Prints how many jobs a build may run at once: the processors that this process may use (affinity and the
# cgroup's quota applied), but not more than there is memory for (a file that includes LibTorch takes 1.5 GB, the largest 2).
set -euo pipefail

# nproc follows OMP_NUM_THREADS, which says nothing about compilers.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
  allowed=$(((quota + period - 1) / period))
  [ "$allowed" -ge "$cores" ] || cores=$allowed
fi
memory_mb=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
if read -r limit 2>/dev/null </sys/fs/cgroup/memory.max && [ "$limit" != max ]; then
  limit_mb=$((limit / 1048576))
  [ "$limit_mb" -ge "$memory_mb" ] || memory_mb=$limit_mb
fi
by_memory=$((memory_mb / 1700))
[ "$by_memory" -ge "$cores" ] || cores=$by_memory
[ "$cores" -ge 1 ] || cores=1
echo "$cores"
