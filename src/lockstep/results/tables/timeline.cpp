#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/numbers.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

constexpr size_t kColumns = 70;
constexpr size_t kMostRanks = 4;
constexpr size_t kLead = 9;

/// The first letter of its name; what is no phase has a dot.
char mark_of(const Phase& phase) {
  return phase.seconds == &PhaseTimes::other_s ? '.' : *phase.name;
}

/// Fills the columns of a stretch of time; at least one, unless it is shorter than a quarter of one.
void draw(std::string& line, double begin_s, double end_s, double step_s, char mark) {
  if (!((end_s - begin_s) / step_s * kColumns > 0.25)) return;
  const auto column = [&](double seconds) {
    const double place = std::round(std::clamp(seconds / step_s, 0.0, 1.0) * kColumns);
    return std::min(static_cast<size_t>(place), kColumns - 1);
  };
  const size_t first = column(begin_s), last = std::max(first + 1, column(end_s));
  std::fill(line.begin() + static_cast<std::ptrdiff_t>(first),
            line.begin() + static_cast<std::ptrdiff_t>(std::min(last, kColumns)), mark);
}

std::string phases_line(const RankBreakdown& rank, double step_s) {
  std::string line(kColumns, ' ');
  double at_s = 0;
  for (const Phase& phase : kPhases) {
    const double seconds = rank.mean.*phase.seconds;
    draw(line, at_s, at_s + seconds, step_s, mark_of(phase));
    at_s += std::max(0.0, seconds);
  }
  return line;
}

std::string buckets_line(const RankBreakdown& rank, double step_s) {
  std::string line(kColumns, ' ');
  for (size_t i = 0; i < rank.buckets.size(); ++i) {
    const BucketTimes& bucket = rank.buckets[i];
    const double arrived_s = std::max(bucket.started_s, bucket.all_arrived_s);
    draw(line, bucket.started_s, arrived_s, step_s, '-');
    draw(line, arrived_s, bucket.ended_s, step_s, static_cast<char>('0' + (i + 1) % 10));
  }
  return line;
}

/// The first ranks, and the straggler in place of the last of them.
std::vector<size_t> shown_ranks(const Run& run) {
  std::vector<size_t> places;
  for (size_t place = 0; place < run.breakdown->ranks.size(); ++place) {
    if (places.size() < kMostRanks) {
      places.push_back(place);
    } else if (run.is_straggler(place)) {
      places.back() = place;
    }
  }
  return places;
}

std::string line_of(const std::string& lead, std::string columns) {
  columns.erase(columns.find_last_not_of(' ') + 1);
  return fmt::format("{:<{}}{}\n", lead, kLead, columns);
}

}  // namespace

Document timeline(const RunRecord& record) {
  const auto has_buckets = [](const Run& run) {
    return run.ranks > 1 && run.breakdown && run.breakdown->mean.step_s > 0 &&
           !run.breakdown->ranks.empty() && !run.breakdown->ranks.front().buckets.empty();
  };
  const auto found = std::ranges::find_if(record.runs, has_buckets);
  if (std::ranges::count_if(record.runs, has_buckets) != 1) return {};
  const Breakdown& breakdown = *found->breakdown;
  const double step_s = breakdown.mean.step_s;
  std::string text;
  const std::vector<size_t> shown = shown_ranks(*found);
  for (const size_t place : shown) {
    text +=
        line_of(fmt::format("rank {}", found->rank_at(place)), phases_line(breakdown.ranks[place], step_s));
    text += line_of("", buckets_line(breakdown.ranks[place], step_s));
  }
  const std::string middle = time_text(step_s / 2), end = time_text(step_s);
  text += fmt::format("{:{}}0{:>{}}{:>{}}\n", "", kLead, middle, kColumns / 2 - 1, end, kColumns / 2);
  Document document;
  // A recorded script may be called as its strategy.
  const std::string name =
      found->model == found->strategy ? found->model : found->model + ", " + found->strategy;
  document.add(Heading{fmt::format("A mean step: {} at {}", name, counted(found->ranks, "rank"))});
  document.add(Preformatted{std::move(text)});
  document.add(
      Remark{"",
             "i: input, f: forward, b: backward, w: waiting for other ranks, t: transfer, o: "
             "optimizer. Below, each bucket: - until the last rank has it, its number until all do."});
  if (shown.size() < breakdown.ranks.size())
    document.add(Remark{"", fmt::format("{} of {} ranks are drawn.", shown.size(), breakdown.ranks.size())});
  return document;
}

}  // namespace lockstep::results
