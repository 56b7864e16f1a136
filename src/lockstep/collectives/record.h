#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/fields.h"

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

}  // namespace lockstep::collectives
