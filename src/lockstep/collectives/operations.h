#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::collectives {

/// An operation that all ranks carry out, and what nccl-tests counts of it.
struct Operation {
  /// Empty: a message from every rank to the next one, around a ring.
  std::optional<comm::Collective::Kind> kind;
  /// Whether the Communicator offers it in one buffer, and from one into another.
  bool in_place = false;
  bool out_of_place = false;
  /// The size is that of all ranks' parts together; the count is that of one.
  bool parts = false;
  /// Bus bandwidth over algorithm bandwidth at N ranks: share * (N - 1) / N; 0 shares: 1 at any N. From the
  /// bytes that the busiest link has to carry (nccl-tests, doc/PERFORMANCE.md).
  double shares = 0;
};

/// all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, send_recv.
const Registry<Operation>& operations();

/// Times the bytes of a row over its time; see Operation::shares.
double bus_factor(const Operation& operation, int ranks);

/// Elements of fp32, bf16 and so on by their names in results. Throws ConfigError that lists them.
comm::DType dtype_named(const std::string& name);

/// Bytes of one size, "4KiB", or of a range in doublings, "8B..1GiB"; a number alone is in MiB, as everywhere
/// on the command line. Throws ConfigError.
std::vector<int64_t> parse_sizes(const std::string& text);

/// Sizes of the buckets in which DDP sends gradients of fp32: `values` of each parameter in order of
/// registration are taken in reverse, and a bucket is closed once it has reached its cap, 1 MiB for the first
/// one and `cap_bytes` for the others (c10d::compute_bucket_assignment_by_size).
std::vector<int64_t> bucket_sizes(const std::vector<int64_t>& values, int64_t cap_bytes);

}  // namespace lockstep::collectives
