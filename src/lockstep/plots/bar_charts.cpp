#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

using results::PhaseTimes;

constexpr size_t kMostBars = 16;
constexpr double kPhasesBar = 28;
constexpr double kMemoryBar = 20;

/// A damaged file may have a breakdown whose step took no time.
bool has_phases(const LabelledRun& run) {
  return run.run->breakdown && positive(run.run->breakdown->mean.step_s);
}

/// Draws the phases of one step from left to right, with their shares in the boxes that are wide enough.
void draw_bar(Canvas& canvas, const RowFrame& frame, const Box& row, const PhaseTimes& mean, double unit) {
  double begin_s = 0;
  for (const PhaseLook& look : phase_looks()) {
    const double seconds = mean.*look.seconds;
    if (!positive(seconds)) continue;
    const double left = frame.x(begin_s * unit), right = frame.x((begin_s + seconds) * unit);
    begin_s += seconds;
    // A gap of less than a pixel between two boxes.
    const Box box{left, row.y, std::max(0.75, right - left - 0.75), row.height};
    const std::string share = share_text(seconds / mean.step_s);
    draw_phase(canvas, box, look,
               fmt::format("{}: {}, {} of the step", look.name, time_text(seconds), share));
    const double needed = text_width(share, kSmallTextSize) + 6;
    if (box.width < needed) continue;
    const bool hatched = look.sample != LegendEntry::Sample::kSwatch;
    // A plain ground: stripes would make the number hard to read.
    if (hatched)
      canvas.rect({(left + right - needed) / 2, row.y + 6, needed, row.height - 12}, look.fill, 1, 2);
    canvas.text({(left + right) / 2, row.y + row.height / 2 + 4}, share,
                {.colour = look.text, .anchor = Anchor::kMiddle, .size = kSmallTextSize});
  }
}

/// " ddp, 2 ranks: a step of 1.20 s, forward 30 %, ...", for screen readers.
std::string in_words(const LabelledRun& run) {
  const PhaseTimes& mean = run.run->breakdown->mean;
  std::string text = fmt::format(" {}: a step of {}", with_ranks(run), time_text(mean.step_s));
  for (const PhaseLook* look : phases_in({&mean})) {
    text += fmt::format(", {} {}", look->name, share_text(mean.*look->seconds / mean.step_s));
  }
  return text + ".";
}

/// The runs network by network.
std::vector<LabelledRun> grouped(const std::vector<LabelledRun>& runs) {
  std::vector<LabelledRun> all;
  for (const auto& network : by_network(runs)) all.insert(all.end(), network.begin(), network.end());
  return all;
}

/// A row for each run. With `name_networks` a row has the name of its network above it, not in it.
std::vector<RowFrame::Row> rows_of(const std::vector<LabelledRun>& runs, double height, bool name_networks) {
  std::vector<RowFrame::Row> rows;
  for (const LabelledRun& run : runs) {
    rows.push_back({name_networks ? with_ranks_only(run) : with_ranks(run), height,
                    name_networks ? run.run->model : ""});
  }
  return rows;
}

/// Seconds of the longest step. Phases of a damaged file may add up to more than their step.
double longest_of(const std::vector<LabelledRun>& runs) {
  double longest_s = 0;
  for (const LabelledRun& run : runs) {
    const PhaseTimes& mean = run.run->breakdown->mean;
    double total_s = 0;
    for (const PhaseLook* look : phases_in({&mean})) total_s += mean.*look->seconds;
    longest_s = std::max({longest_s, total_s, mean.step_s});
  }
  return longest_s;
}

}  // namespace

Chart phases_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Where the time of a step goes"};
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [](const LabelledRun& run) { return !has_phases(run); });
  if (runs.empty()) {
    return missing_chart(chart.title, "no run has a breakdown",
                         "Measure it with `lockstep bench --breakdown --json FILE`.");
  }
  runs = most_telling(grouped(runs), kMostBars, chart.notes);
  std::vector<const PhaseTimes*> means;
  for (const LabelledRun& run : runs) means.push_back(&run.run->breakdown->mean);
  std::vector<LegendEntry> legend;
  for (const PhaseLook* look : phases_in(means)) legend.push_back(legend_entry(*look));

  Canvas canvas(form.id);
  chart.description = "The phases of a step as parts of a bar for each run.";
  double bottom = 0;
  size_t described = 0;
  for (const auto& network : by_network(runs)) {
    const double longest_s = longest_of(network);
    const TimeUnit unit = time_unit(longest_s);
    const RowFrame frame(canvas, form,
                         {.x_title = fmt::format("mean step in {}, over ranks", unit.name),
                          .legend = std::exchange(legend, {}),
                          .rows = rows_of(network, kPhasesBar, network.size() < runs.size()),
                          .right = 12,
                          .top = bottom},
                         Scale::linear(0, longest_s * unit.per_second, form.ticks()));
    for (size_t i = 0; i < network.size(); ++i) {
      draw_bar(canvas, frame, frame.row(i), network[i].run->breakdown->mean, unit.per_second);
      if (described++ < 6) chart.description += in_words(network[i]);
    }
    bottom = frame.bottom();
  }
  chart.notes.push_back("Hatched: communication that was not hidden behind the backward pass.");
  return drawn(std::move(chart), canvas, form, bottom);
}

Chart memory_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Peak memory of a rank"};
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [](const LabelledRun& run) { return results::peak_memory_bytes(*run.run) <= 0; });
  if (runs.empty()) {
    return missing_chart(chart.title, "no run says how much memory its ranks used",
                         "Measure again with this version of `lockstep bench --json FILE`.");
  }
  runs = most_telling(grouped(runs), kMostBars, chart.notes);
  int64_t most = 0;
  for (const LabelledRun& run : runs) most = std::max(most, results::peak_memory_bytes(*run.run));
  const bool large = most >= kGiB;
  const auto unit = static_cast<double>(large ? kGiB : kMiB);

  RowFrame::Layout layout{.x_title = fmt::format("highest resident memory in {}", large ? "GiB" : "MiB"),
                          .right = 78};
  layout.rows = rows_of(runs, kMemoryBar, by_network(runs).size() > 1);
  Canvas canvas(form.id);
  const RowFrame frame(canvas, form, layout,
                       Scale::linear(0, static_cast<double>(most) / unit, form.ticks()));
  chart.description = "The largest peak of resident memory among the ranks of each run.";
  bool spread = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [least_bytes, most_bytes] = std::ranges::minmax(runs[i].run->resources->peak_memory_bytes);
    const Box& row = frame.row(i);
    const auto x = [&](int64_t bytes) {
      return frame.x(static_cast<double>(std::max<int64_t>(0, bytes)) / unit);
    };
    const std::string text = format_bytes(most_bytes);
    canvas.rect({row.x, row.y, x(most_bytes) - row.x, row.height}, Colour::kBlue, 1, 2,
                fmt::format("{}: {} to {}", with_ranks(runs[i]), format_bytes(least_bytes), text));
    // A mark within two pixels of the end would only thicken it.
    if (x(most_bytes) - x(least_bytes) > 2) {
      canvas.line({x(least_bytes), row.y - 2}, {x(least_bytes), row.bottom() + 2}, Colour::kInk, 2.5);
      spread = true;
    }
    canvas.text({x(most_bytes) + 8, row.y + row.height / 2 + 4.5}, text);
    if (i < 8) chart.description += fmt::format(" {}: {}.", with_ranks(runs[i]), text);
  }
  if (spread) chart.notes.push_back("The bar is the rank with the most, the mark the one with the least.");
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace lockstep::plots
