#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/base/registry.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::collectives {

inline constexpr const char* kInPlace = "in";
inline constexpr const char* kOutOfPlace = "out";

/// One collective at one size: its settings and what was measured.
struct Row {
  std::string collective;
  /// A backend of lockstep, or for imported rows the tool: "nccl-tests", "osu".
  std::string backend;
  int ranks = 1;
  /// As nccl-tests counts: the buffer, or all ranks' parts together where each has one.
  int64_t bytes = 0;
  /// Elements: of the buffer, or of one rank's part.
  int64_t count = 0;
  std::string dtype = "fp32";
  /// "sum", or "none" where nothing is combined.
  std::string op = "none";
  std::string place = kInPlace;
  /// Communicators that carry out as many of them at once.
  int at_a_time = 1;
  /// The ranks' cores were busy with a compute loop meanwhile.
  bool computing = false;

  double median_s = 0;
  /// Empty where there are too few iterations to know.
  std::optional<double> p90_s, p99_s;
  /// bytes * at_a_time / median_s, in 10^9 bytes per second; times bus_factor().
  double algorithm_gb_per_s = 0;
  double bus_gb_per_s = 0;
  /// bus_gb_per_s over the link's.
  std::optional<double> link_share;
  /// Elements of all ranks that were not what they should be; empty: not checked.
  std::optional<int64_t> wrong;
  /// Of wrong results whose elements were not counted: the largest deviation.
  std::optional<double> deviation;
  /// While computing: by how much the collective takes longer than idle, and computing while it runs.
  std::optional<double> phi_n, phi_c;
  /// Time of each iteration: the slowest rank's. Empty for imported rows.
  std::vector<double> iteration_s;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& self) {
    LOCKSTEP_FIELDS(kRequired, collective, backend)
    LOCKSTEP_FIELDS(kAtLeastOne, ranks, bytes)
    LOCKSTEP_FIELDS(kOptional, count, dtype, op, place, at_a_time, computing)
    fields("median_s", self.median_s, kRequired);
    LOCKSTEP_FIELDS(kOptional, p90_s, p99_s, algorithm_gb_per_s, bus_gb_per_s, link_share, wrong, deviation,
                    phi_n, phi_c, iteration_s)
  }

  /// The settings but for the size: rows that share it are a curve. "all_reduce over gloo, 2 ranks, fp32".
  std::string series() const;
  bool is_wrong() const { return wrong > 0 || deviation; }
  bool same_work(const Row& other) const { return series() == other.series() && bytes == other.bytes; }
};

/// Wire or memory between the ranks without a library: the slowest rank's rate in one
/// direction while all send and receive, in 10^9 bytes per second, and half a round trip.
struct Link {
  std::string backend;
  int ranks = 1;
  /// "sockets" or "memory".
  std::string kind;
  double gb_per_s = 0;
  std::optional<double> latency_s;

  LOCKSTEP_DESCRIBE(kOptional, backend, ranks, kind, gb_per_s, latency_s)
};

/// Everything that one `lockstep collectives` measured.
struct Record {
  std::string lockstep_version;
  /// Empty for imported texts.
  std::string host;
  std::string command;
  /// Reason why rows are missing; empty: none are.
  std::string incomplete;
  /// Sentences on imported texts: what was left out, and what was concluded.
  std::vector<std::string> notes;
  std::vector<Link> links;
  std::vector<Row> rows;

  LOCKSTEP_DESCRIBE(kOptional, lockstep_version, host, command, incomplete, notes, links, rows)
};

/// Fills in what follows from iteration_s, or for imported rows from median_s.
void summarize(Row& row);
/// The same for all rows, then shares of the link and phi_n from the idle row beside.
void summarize(Record& record);

std::string to_json(const Record& record);

/// Whether a text is that of to_json(), by its beginning.
bool is_record(std::string_view text);

/// Throws Error that names `name` and the place for text that to_json() did not write, for a row without a
/// time or with one that is not a number, and for a file without rows.
Record from_json(std::string_view text, std::string_view name);

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

/// Facts that an imported text may lack.
struct ImportHints {
  /// A name of operations(): only tests of it are read. Empty: from the text, or from the name of the file.
  std::string collective;
  /// Ranks, likewise; 0: from the text.
  int ranks = 0;
  /// Where several are possible; empty: that is an error.
  std::string usual_collective;
};

struct ImportedText {
  std::vector<Row> rows;
  /// Sentences: what was left out, and what was concluded rather than read.
  std::vector<std::string> notes;
};

/// Rows of what nccl-tests (all_reduce_perf and its kin, 2.0 to 2.19) or the OSU micro-benchmarks (5 to 7:
/// the latency of a collective, osu_latency, osu_bw) print, maybe of several tests. nccl-tests' rows are out
/// of place and in place; OSU's sizes of gathers and of all-to-all, which are those of one rank, become those
/// of all. The ratio of the printed bus bandwidth to the algorithm bandwidth, bus_factor(), must be that of
/// the collective and the ranks; where the text does not name them, it tells them if only one fits. Throws
/// Error that says what is missing and how to give it.
ImportedText import_text(std::string_view text, const std::string& name, const ImportHints& hints);

}  // namespace lockstep::collectives
