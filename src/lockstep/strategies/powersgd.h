#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/state.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// A gradient, and the index of its parameter.
struct IndexedGradient {
  size_t index = 0;
  at::Tensor gradient;
};

/// A dense tensor as the matrix that PowerSGD factors: a row for each index of its outermost dimension in
/// memory. Empty for a vector, and for a matrix that factors of `rank` would not make half as large.
std::optional<at::Tensor> matrix_to_factor(const at::Tensor& tensor, int rank);

/// The factor that a parameter's first approximation begins with, [columns, rank], in fp32 in host memory:
/// the same on all ranks.
at::Tensor first_factor(size_t index, int64_t columns, int rank);

/// Sums of gradients in a low rank, with error feedback and warm start (Vogels et al. 2019, "PowerSGD:
/// Practical Low-Rank Gradient Compression for Distributed Optimization", algorithms 1 and 2). For each
/// matrix M, the gradient of a rank over the number of ranks with what earlier steps left out:
///
///     P = sum of M Q, orthogonalized        all-reduce of rows * rank numbers
///     Q = sum of M' P                       all-reduce of columns * rank numbers
///     gradient = P Q'                       M - P Q' / ranks is left out, and Q begins the next step
///
/// Two all-reduces of host memory in all; other gradients travel whole in the first. Only the mean of all
/// ranks' gradients decides the result, as in one rank with the joint batch. Orthogonalization is done in
/// fp64 by one thread, so all ranks get the same bits. Keeps an fp32 copy of each factored gradient. Not
/// thread-safe.
class PowerSgd {
 public:
  /// Communicates over context.host_communicator().
  explicit PowerSgd(const StrategyContext& context);

  /// Overwrites gradients, each already divided by the number of ranks, by their sums. Collective, with the
  /// same parameters in the same order on all ranks; blocks until it is done.
  void sum(const std::vector<IndexedGradient>& gradients);

  int64_t buffer_bytes() const;
  std::vector<Measured> measured() const;

  /// `parameters`: all of them, in the order of their indices.
  void save(replica::State& state) const;
  void restore(const replica::State& state, const std::vector<at::Tensor>& parameters);

 private:
  struct Memory {
    /// What earlier steps left out, [rows, columns], on the gradient's device.
    at::Tensor error;
    /// [columns, rank], in host memory.
    at::Tensor factor;
  };

  Memory& memory_of(size_t index, const at::Tensor& matrix);
  void all_reduce(const at::Tensor& sums);

  comm::Communicator& group_;
  ActivityListener* activities_;
  int rank_;
  std::map<size_t, Memory> memory_;
  int64_t calls_ = 0;
  /// See measured().
  double computing_s_ = 0, waited_s_ = 0, payload_bytes_ = 0, left_out_ = 0, factored_ = 0;
};

}  // namespace lockstep::strategies
