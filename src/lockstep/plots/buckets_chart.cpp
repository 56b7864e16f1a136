#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::BucketTimes;
using results::RankBreakdown;

constexpr size_t kMostRanks = 8;
constexpr size_t kMostLanes = 4;
/// Keeps the drawing small for a plan with a bucket per parameter.
constexpr size_t kMostBuckets = 160;
constexpr double kStrip = 11;
constexpr double kLane = 17;
constexpr double kBar = 14;

/// Whether the times of a bucket are finite and in order; a damaged file may hold anything.
bool in_order(const BucketTimes& bucket) {
  return std::isfinite(bucket.ready_s) && std::isfinite(bucket.started_s) &&
         std::isfinite(bucket.all_arrived_s) && std::isfinite(bucket.ended_s) &&
         bucket.ended_s >= bucket.ready_s && bucket.ended_s >= 0;
}

/// At most kMostBuckets of a rank.
std::vector<BucketTimes> usable_buckets(const RankBreakdown& rank) {
  std::vector<BucketTimes> buckets;
  for (const BucketTimes& bucket : rank.buckets) {
    if (in_order(bucket) && buckets.size() < kMostBuckets) buckets.push_back(bucket);
  }
  return buckets;
}

/// Chooses among the runs whose buckets are known: the one in the headline, otherwise the one with the most
/// ranks, strategies before controls.
std::optional<LabelledRun> choose_run(const Sources& sources) {
  const std::optional<LabelledRun> headline = results::headline_run(sources.records);
  std::optional<LabelledRun> best;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (!run.run->breakdown) continue;
    const auto& ranks = run.run->breakdown->ranks;
    if (std::ranges::none_of(ranks, [](const RankBreakdown& rank) { return !usable_buckets(rank).empty(); }))
      continue;
    const auto weight = [&](const LabelledRun& each) {
      return std::tuple(headline && headline->run == each.run, !each.control, each.run->ranks);
    };
    if (!best || weight(run) > weight(*best)) best = run;
  }
  return best;
}

/// Lane of each bucket, so that no two buckets in one lane overlap. Once all kMostLanes are taken, a bucket
/// goes to the lane that is free first. Greedy interval scheduling: buckets by the time they are ready, each
/// into the first lane that is free.
std::vector<size_t> bucket_lanes(const std::vector<BucketTimes>& buckets) {
  std::vector<size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return buckets[i].ready_s; });
  std::vector<size_t> lanes(buckets.size(), 0);
  std::array<double, kMostLanes> free_at;
  free_at.fill(std::numeric_limits<double>::lowest());
  for (size_t i : order) {
    auto lane = std::ranges::find_if(free_at, [&](double end_s) { return end_s <= buckets[i].ready_s; });
    if (lane == free_at.end()) lane = std::ranges::min_element(free_at);
    *lane = std::max(*lane, buckets[i].ended_s);
    lanes[i] = lane - free_at.begin();
  }
  return lanes;
}

/// The ranks to show: kMostRanks from the first to the last, spread evenly, and the straggler.
std::vector<size_t> chosen_ranks(const results::Run& run) {
  const size_t all = run.breakdown->ranks.size(), most = std::min(all, kMostRanks);
  std::set<size_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.insert(most == 1 ? 0 : i * (all - 1) / (most - 1));
  for (size_t i = 0; i < all; ++i)
    if (run.is_straggler(i)) chosen.insert(i);
  return {chosen.begin(), chosen.end()};
}

double finite_or_zero(double value) {
  return std::isfinite(value) ? std::max(0.0, value) : 0;
}

/// The end of a rank's step or of its last bucket, whichever is later.
double end_of(const RankBreakdown& rank) {
  double end_s = finite_or_zero(rank.mean.step_s);
  for (const BucketTimes& bucket : usable_buckets(rank)) end_s = std::max(end_s, bucket.ended_s);
  return end_s;
}

/// Draws the phases of a rank's step as a strip above its buckets.
void draw_strip(Canvas& canvas, const RowFrame& frame, const Box& row, const RankBreakdown& rank,
                double unit) {
  double begin_s = 0;
  for (const PhaseLook& look : phase_looks()) {
    const double seconds = finite_or_zero(rank.mean.*look.seconds);
    if (seconds <= 0) continue;
    const double left = frame.x(begin_s * unit), right = frame.x((begin_s + seconds) * unit);
    begin_s += seconds;
    draw_phase(canvas, {left, row.y, std::max(0.5, right - left - 0.5), kStrip}, look,
               fmt::format("{}: {}", look.name, time_text(seconds)));
  }
}

std::string tooltip_of(const BucketTimes& bucket, size_t number) {
  return fmt::format("bucket {}: {}, ready at {}, started at {}, all ranks there at {}, done at {}", number,
                     format_bytes(bucket.bytes), time_text(bucket.ready_s), time_text(bucket.started_s),
                     time_text(bucket.all_arrived_s), time_text(bucket.ended_s));
}

/// Draws one bucket from ready to done:
///
///     |-----/////////\\\\\\\|
///     |     |        |       |
///   ready started  all there done
///
/// A stroke where it was ready, a line while it waited to be sent, a box hatched upwards while it waited for
/// other ranks, and one hatched downwards while it was transferred.
void draw_bucket(Canvas& canvas, const RowFrame& frame, double top, const BucketTimes& bucket, size_t number,
                 double unit) {
  const double started_s = std::clamp(bucket.started_s, bucket.ready_s, bucket.ended_s);
  const double arrived_s = std::clamp(bucket.all_arrived_s, started_s, bucket.ended_s);
  const auto x = [&](double seconds) { return frame.x(std::max(0.0, seconds) * unit); };
  const double middle = top + kBar / 2;
  canvas.line({x(bucket.ready_s), top + 2}, {x(bucket.ready_s), top + kBar - 2}, Colour::kInk, 1.5);
  if (x(started_s) - x(bucket.ready_s) > 0.5)
    canvas.line({x(bucket.ready_s), middle}, {x(started_s), middle}, Colour::kMuted, 1.5);
  const std::string tooltip = tooltip_of(bucket, number);
  const PhaseLook& waiting = phase_looks()[3];
  const PhaseLook& transfer = phase_looks()[4];
  if (arrived_s > started_s)
    draw_phase(canvas, {x(started_s), top, x(arrived_s) - x(started_s), kBar}, waiting, tooltip);
  const Box moving{x(arrived_s), top, std::max(1.0, x(bucket.ended_s) - x(arrived_s)), kBar};
  draw_phase(canvas, moving, transfer, tooltip);
  const std::string label = std::to_string(number);
  // The number goes on a plain ground, if the box is wide enough for it.
  const double needed = text_width(label, kSmallTextSize) + 4;
  if (moving.width < needed + 2) return;
  canvas.rect({moving.x + (moving.width - needed) / 2, top + 1, needed, kBar - 2}, transfer.fill, 1, 2);
  canvas.text({moving.x + moving.width / 2, top + kBar - 2.7}, label,
              {.colour = transfer.text, .anchor = Anchor::kMiddle, .size = kSmallTextSize});
}

std::vector<LegendEntry> bucket_legend(const std::vector<const results::PhaseTimes*>& means) {
  std::vector<LegendEntry> legend{{"ready", {.colour = Colour::kInk, .marker = Marker::kNone, .width = 1.5}}};
  std::vector<const PhaseLook*> looks = phases_in(means);
  for (size_t always : {3, 4}) {
    if (std::ranges::find(looks, &phase_looks()[always]) == looks.end())
      looks.push_back(&phase_looks()[always]);
  }
  for (const PhaseLook* look : looks) legend.push_back(legend_entry(*look));
  return legend;
}

}  // namespace

Chart buckets_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Buckets of a mean step"};
  const std::optional<LabelledRun> run = choose_run(sources);
  if (!run) {
    return missing_chart(chart.title, "no run tells when its buckets were under way",
                         "Measure it with `lockstep bench --breakdown --json FILE`; strategies that send no "
                         "buckets, and recordings without collectives, have none.");
  }
  chart.title += ": " + with_ranks(*run);
  const results::Breakdown& breakdown = *run->run->breakdown;
  const std::vector<size_t> ranks = chosen_ranks(*run->run);

  RowFrame::Layout layout{.right = 12, .gap = 12};
  std::vector<const results::PhaseTimes*> means;
  std::vector<std::vector<BucketTimes>> buckets;
  std::vector<std::vector<size_t>> lanes;
  double end_s = 0;
  for (size_t rank : ranks) {
    means.push_back(&breakdown.ranks[rank].mean);
    buckets.push_back(usable_buckets(breakdown.ranks[rank]));
    lanes.push_back(bucket_lanes(buckets.back()));
    const size_t used = lanes.back().empty() ? 0 : *std::ranges::max_element(lanes.back()) + 1;
    const char* slowest = run->run->is_straggler(rank) ? " (slowest)" : "";
    layout.rows.push_back({fmt::format("rank {}{}", run->run->rank_at(rank), slowest),
                           kStrip + 3 + kLane * static_cast<double>(used)});
    end_s = std::max(end_s, end_of(breakdown.ranks[rank]));
  }
  const TimeUnit unit = time_unit(end_s);
  layout.legend = bucket_legend(means);
  layout.x_title = fmt::format("{} since the step began", unit.name);

  Canvas canvas(form.id);
  const RowFrame frame(canvas, form, layout, Scale::linear(0, end_s * unit.per_second, form.ticks()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Box& row = frame.row(i);
    draw_strip(canvas, frame, row, breakdown.ranks[ranks[i]], unit.per_second);
    for (size_t b = 0; b < buckets[i].size(); ++b) {
      draw_bucket(canvas, frame, row.y + kStrip + 3 + kLane * static_cast<double>(lanes[i][b]), buckets[i][b],
                  b + 1, unit.per_second);
    }
  }
  chart.description = fmt::format(
      "For each rank the mean phases of a step, and below them when each of its {} was ready, under way and "
      "combined.",
      counted(buckets[0].size(), "bucket"));
  if (const auto overlap = breakdown.overlap()) {
    chart.description +=
        fmt::format(" {} of communication was hidden behind the backward pass.", share_text(*overlap));
  }
  if (ranks.size() < breakdown.ranks.size()) {
    chart.notes.push_back(
        fmt::format("{} of {} are drawn.", ranks.size(), counted(breakdown.ranks.size(), "rank")));
  }
  if (std::ranges::any_of(ranks, [&](size_t place) { return run->run->is_straggler(place); }))
    chart.notes.push_back(fmt::format("The others waited for rank {} most.", *breakdown.straggler));
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace lockstep::plots
