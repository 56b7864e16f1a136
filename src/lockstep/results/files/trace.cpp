#include "lockstep/results/files/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

using measure::RankStamps;
using measure::StepPhase;
using measure::StepStamps;

/// The events of one row. Tracks of a rank, from top to bottom:
///
///   rank 0                     |- step 1 ------------------------|- step 2 ...
///                              |input|forward|backward     |...|
///   rank 0 buckets                            |bucket 1|   |bucket 3|
///   rank 0 buckets, lane 2                        |bucket 2|
///   rank 0 kernels, stream 7   |kernel| |kernel|  |kernel|
class RowTrace {
 public:
  RowTrace(const TracedRow& row, int process, double origin_s, Json& events)
      : row_(row),
        process_(process),
        origin_s_(origin_s),
        events_(events),
        lanes_(lanes_of(row)),
        streams_(streams_of(row)) {}

  void write() {
    name("process_name", 0, row_.label);
    for (size_t rank = 0; rank < row_.ranks.size(); ++rank) {
      name("thread_name", phases_track(rank), fmt::format("rank {}", number_of(rank)));
      for (int lane = 0; lane < lanes_; ++lane) {
        const std::string which = lane == 0 ? "" : fmt::format(", lane {}", lane + 1);
        name("thread_name", buckets_track(rank, lane),
             fmt::format("rank {} buckets{}", number_of(rank), which));
      }
      for (size_t step = 0; step < row_.ranks[rank].steps.size(); ++step) {
        write_step(rank, step);
        write_buckets(rank, step);
      }
      write_kernels(rank);
    }
  }

 private:
  int phases_track(size_t rank) const {
    return static_cast<int>(rank) * (1 + lanes_ + static_cast<int>(streams_.size())) + 1;
  }
  int buckets_track(size_t rank, int lane) const { return phases_track(rank) + 1 + lane; }

  int number_of(size_t rank) const {
    return row_.numbers.empty() ? static_cast<int>(rank) : row_.numbers[rank];
  }

  int kernels_track(size_t rank, size_t stream) const {
    return buckets_track(rank, lanes_) + static_cast<int>(stream);
  }

  /// In the order in which they are used first.
  static std::vector<int64_t> streams_of(const TracedRow& row) {
    std::vector<int64_t> streams;
    for (const RankStamps& rank : row.ranks) {
      for (const measure::KernelSpan& kernel : rank.kernels) {
        if (std::ranges::find(streams, kernel.queue) == streams.end()) streams.push_back(kernel.queue);
      }
    }
    return streams;
  }

  static int lanes_of(const TracedRow& row) {
    int most = 1;
    for (const RankStamps& rank : row.ranks) {
      for (const StepStamps& step : rank.steps) {
        for (const measure::CollectiveStamp& bucket : step.collectives)
          most = std::max(most, bucket.lane + 1);
      }
    }
    return most;
  }

  void name(const char* what, int track, const std::string& text) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", track}, {"args", {{"name", text}}}});
    if (track > 0) {
      events_.push_back({{"ph", "M"},
                         {"name", "thread_sort_index"},
                         {"pid", process_},
                         {"tid", track},
                         {"args", {{"sort_index", track}}}});
    }
  }

  /// From and to on the clock of `rank`.
  void slice(size_t rank, int track, const std::string& text, double from_s, double to_s,
             Json arguments = Json::object()) {
    const double shift_s = -row_.ranks[rank].clock_offset_s - origin_s_;
    events_.push_back({{"ph", "X"},
                       {"name", text},
                       {"pid", process_},
                       {"tid", track},
                       {"ts", 1e6 * (from_s + shift_s)},
                       {"dur", 1e6 * std::max(0.0, to_s - from_s)},
                       {"args", std::move(arguments)}});
  }

  void write_step(size_t rank, size_t index) {
    const StepStamps& step = row_.ranks[rank].steps[index];
    const int track = phases_track(rank);
    slice(rank, track, fmt::format("step {}", index + 1), step.begin_s, step.end_s);
    if (step.last_micro_batch_s() > step.begin_s) {
      slice(rank, track, "earlier micro-batches", step.begin_s, step.last_micro_batch_s());
    }
    static const std::map<StepPhase, const char*> kNames{
        {StepPhase::kInput, "input"},         {StepPhase::kForward, "forward"},
        {StepPhase::kBackward, "backward"},   {StepPhase::kExposed, "exposed communication"},
        {StepPhase::kOptimizer, "optimizer"}, {StepPhase::kOther, "other"}};
    const bool alone = std::max(row_.ranks.size(), row_.job_ranks) == 1;
    for (const measure::PhaseStretch& stretch : measure::phase_stretches(step, alone)) {
      slice(rank, track, kNames.at(stretch.phase), stretch.begin_s, stretch.end_s);
    }
  }

  void write_buckets(size_t rank, size_t index) {
    const StepStamps& step = row_.ranks[rank].steps[index];
    for (size_t i = 0; i < step.collectives.size(); ++i) {
      const measure::CollectiveStamp& bucket = step.collectives[i];
      const int track = buckets_track(rank, bucket.lane);
      const double from_s = measure::turn_s(step.collectives, i);
      slice(rank, track, fmt::format("bucket {} ({})", i + 1, format_bytes(bucket.bytes)), from_s,
            bucket.ended_s, {{"bytes", bucket.bytes}, {"ready_us_before", 1e6 * (from_s - bucket.issued_s)}});
      const LastArrival last = last_to_issue(index, i);
      const double waited_until_s =
          std::min(bucket.ended_s, last.on_rank_0_s + row_.ranks[rank].clock_offset_s);
      // The last rank waits for no other.
      if (last.rank != rank && waited_until_s > from_s) {
        slice(rank, track, fmt::format("waiting for rank {}", number_of(last.rank)), from_s, waited_until_s);
      }
    }
  }

  void write_kernels(size_t rank) {
    std::vector<double> ended_s(streams_.size(), 0);
    for (const measure::KernelSpan& kernel : row_.ranks[rank].kernels) {
      const auto stream = static_cast<size_t>(std::ranges::find(streams_, kernel.queue) - streams_.begin());
      double& last_s = ended_s[stream];
      if (last_s == 0) {
        name("thread_name", kernels_track(rank, stream),
             fmt::format("rank {} {} {}", number_of(rank), row_.kernels, kernel.queue));
      }
      Json arguments = Json::object();
      if (last_s > 0) arguments["gap_us_before"] = std::max(0.0, 1e6 * (kernel.begin_s - last_s));
      slice(rank, kernels_track(rank, stream), kernel.name, kernel.begin_s, kernel.end_s,
            std::move(arguments));
      last_s = std::max(last_s, kernel.end_s);
    }
  }

  struct LastArrival {
    size_t rank = 0;
    double on_rank_0_s = -std::numeric_limits<double>::infinity();
  };

  LastArrival last_to_issue(size_t step, size_t collective) const {
    LastArrival last;
    for (size_t rank = 0; rank < row_.ranks.size(); ++rank) {
      const RankStamps& own = row_.ranks[rank];
      if (step >= own.steps.size() || collective >= own.steps[step].collectives.size()) continue;
      const double issued_s = own.steps[step].collectives[collective].issued_s - own.clock_offset_s;
      if (issued_s > last.on_rank_0_s) last = {rank, issued_s};
    }
    return last;
  }

  const TracedRow& row_;
  int process_;
  double origin_s_;
  Json& events_;
  /// Tracks for buckets, since slices of one track must not overlap.
  int lanes_;
  /// A track each.
  std::vector<int64_t> streams_;
};

/// From the first begin to the last end of a step, on rank 0's clock.
struct RowSpan {
  double begin_s = std::numeric_limits<double>::infinity();
  double end_s = 0;
};

RowSpan span_of(const TracedRow& row) {
  RowSpan span;
  for (const RankStamps& rank : row.ranks) {
    if (rank.steps.empty()) continue;
    span.begin_s = std::min(span.begin_s, rank.steps.front().begin_s - rank.clock_offset_s);
    span.end_s = std::max(span.end_s, rank.steps.back().end_s - rank.clock_offset_s);
  }
  if (std::isinf(span.begin_s)) span.begin_s = 0;
  return span;
}

}  // namespace

std::string to_trace(const std::vector<TracedRow>& rows) {
  constexpr double kGapBetweenRows = 0.01;
  Json events = Json::array();
  double begin_s = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowSpan span = span_of(rows[i]);
    RowTrace(rows[i], static_cast<int>(i) + 1, span.begin_s - begin_s, events).write();
    begin_s += std::max(0.0, span.end_s - span.begin_s) + kGapBetweenRows;
  }
  return json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace lockstep::results
