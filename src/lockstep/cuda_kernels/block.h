#pragma once

#include <cstdint>

// The language of the kernels: C++ that nvcc compiles for a GPU and any compiler for the host. On a GPU a
// kernel is run by a block of threads at a time; on the host the same code is a loop:
//
//     GPU                                       host
//     every thread of the block calls body      for (thread = 0; ...) body(thread)      for_threads()
//     __syncthreads()                           the end of that loop
//     registers                                 an array with an element per thread     PerThread
//     __shared__ memory                         an object that the caller owns          Kernel::Shared
//     __global__ with blockIdx.x                kernel(block, shared)                   operator()
//
// Everything that a thread keeps beyond a barrier is a PerThread or shared, so the host computes what the
// GPU computes, and tests compare it with LibTorch without a GPU. Control flow around for_threads() depends
// only on what all threads of the block agree on.

#ifdef __CUDACC__
#define LOCKSTEP_KERNEL __host__ __device__ __forceinline__
#else
#define LOCKSTEP_KERNEL inline
#endif

/// Before a loop over an array that is to live in registers.
#ifdef __CUDA_ARCH__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_UNROLL
#endif

namespace lockstep::cuda_kernels {

/// Threads of every block.
constexpr int kThreads = 256;

/// Whether the host takes a block's threads in reverse. A result that depends on it lacks a barrier.
inline thread_local bool reverse_host_threads = false;
/// Accesses of 16 bytes by the host to addresses that a GPU refuses.
inline thread_local int64_t misaligned_host_accesses = 0;

/// Runs body(thread) for every thread of the block, then waits for all of them.
template <typename Body>
LOCKSTEP_KERNEL void for_threads(const Body& body) {
#if defined(__CUDA_ARCH__)
  body(static_cast<int>(threadIdx.x));
  __syncthreads();
#else
  for (int i = 0; i < kThreads; ++i) body(reverse_host_threads ? kThreads - 1 - i : i);
#endif
}

/// A value of each thread that outlives a barrier.
template <typename T>
class PerThread {
 public:
#if defined(__CUDA_ARCH__)
  __device__ T& operator[](int /*thread*/) {
    return value_;
  }

 private:
  T value_{};
#else
  LOCKSTEP_KERNEL T& operator[](int thread) {
    return values_[thread];
  }

 private:
  T values_[kThreads]{};
#endif
};

/// Makes what this thread wrote to global memory visible to other blocks.
LOCKSTEP_KERNEL void publish() {
#if defined(__CUDA_ARCH__)
  __threadfence();
#endif
}

/// Adds 1 and returns the value before that; one step for all blocks.
LOCKSTEP_KERNEL uint32_t count_up(uint32_t* counter) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, 1u);
#else
  return (*counter)++;
#endif
}

/// Reads what another block published: past the multiprocessor's own cache.
LOCKSTEP_KERNEL float read_published(const float* value) {
#if defined(__CUDA_ARCH__)
  return __ldcg(value);
#else
  return *value;
#endif
}

}  // namespace lockstep::cuda_kernels
