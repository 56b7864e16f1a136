#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/charts.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/numbers.h"

namespace lockstep::plots {
namespace {

constexpr size_t kMostBars = 16;
constexpr double kBar = 20;

bool has_memory(const LabelledRun& run) {
  return run.run->resources && !run.run->resources->peak_memory_bytes.empty() &&
         std::ranges::max(run.run->resources->peak_memory_bytes) > 0;
}

struct ByteUnit {
  const char* name;
  double bytes;
};

ByteUnit byte_unit(int64_t bytes) {
  if (bytes >= kGiB) return {"GiB", static_cast<double>(kGiB)};
  return {"MiB", static_cast<double>(kMiB)};
}

}  // namespace

Chart memory_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "Peak memory of a rank"};
  std::vector<LabelledRun> runs = labelled_runs(sources);
  std::erase_if(runs, [](const LabelledRun& run) { return !has_memory(run); });
  if (runs.empty()) {
    return missing_chart(chart.title, "no run says how much memory its ranks used",
                         "Measure again with this version of `lockstep bench --json FILE`.");
  }
  runs = most_telling(std::move(runs), kMostBars, chart.notes);
  int64_t most = 0;
  for (const LabelledRun& run : runs)
    most = std::max(most, std::ranges::max(run.run->resources->peak_memory_bytes));
  const ByteUnit unit = byte_unit(most);

  RowFrame::Layout layout{.x_title = fmt::format("highest resident memory in {}", unit.name), .right = 78};
  for (const LabelledRun& run : runs) layout.rows.push_back({with_ranks(run), kBar, ""});
  Canvas canvas(form.id);
  const RowFrame frame(canvas, form, layout,
                       Scale::linear(0, static_cast<double>(most) / unit.bytes, form.narrow() ? 4 : 7));
  chart.description = "The largest peak of resident memory among the ranks of each run.";
  bool spread = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [least_bytes, most_bytes] = std::ranges::minmax(runs[i].run->resources->peak_memory_bytes);
    const Box& row = frame.row(i);
    const auto x = [&](int64_t bytes) {
      return frame.x(static_cast<double>(std::max<int64_t>(0, bytes)) / unit.bytes);
    };
    const std::string text = format_bytes(most_bytes);
    canvas.rect({row.x, row.y, x(most_bytes) - row.x, row.height}, Colour::kBlue, 1, 2,
                fmt::format("{}: {} to {}", with_ranks(runs[i]), format_bytes(least_bytes), text));
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
