#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/charts.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/numbers.h"

namespace lockstep::plots {
namespace {

using results::Run;

constexpr size_t kMostNetworks = 16;
constexpr size_t kMostInNotes = 6;
constexpr double kBytesPerGradient = 4;
/// Units of the axes.
constexpr double kBytes = static_cast<double>(kMiB);
constexpr double kMultiplyAdds = 1e9;

/// What a rank computes and exchanges in a step, and the run that shows best how that scales: of those with
/// the most ranks the most efficient one.
struct Network {
  const Run* run = nullptr;
  double gradient_bytes = 0;
  double multiply_adds = 0;

  double per_byte() const { return multiply_adds / gradient_bytes; }
};

std::string name_of(const Run& run) {
  return fmt::format("{} x {}", run.model, static_cast<int64_t>(run.batch_per_rank) * run.accumulate);
}

/// Whether `a` shows more than `b` of how their network scales.
bool tells_more(const Run& a, const Run& b) {
  if (a.ranks != b.ranks) return a.ranks > b.ranks;
  return a.efficiency.value_or(0) > b.efficiency.value_or(0);
}

/// One for each network and number of samples in a rank's step, in the order of their first runs.
std::vector<Network> networks_of(const Sources& sources) {
  std::vector<Network> networks;
  for (const LabelledRun& labelled : labelled_runs(sources)) {
    const Run& run = *labelled.run;
    if (run.parameters <= 0 || run.multiply_adds <= 0 || run.batch_per_rank <= 0 || run.accumulate <= 0)
      continue;
    const auto known = std::ranges::find(networks, name_of(run),
                                         [](const Network& network) { return name_of(*network.run); });
    if (known == networks.end()) {
      networks.push_back(
          {.run = &run,
           .gradient_bytes = kBytesPerGradient * static_cast<double>(run.parameters),
           .multiply_adds = static_cast<double>(run.multiply_adds) * run.batch_per_rank * run.accumulate});
    } else if (!labelled.control && tells_more(run, *known->run)) {
      known->run = &run;
    }
  }
  return networks;
}

/// "92 % at 8 ranks"; empty where no efficiency is known.
std::string efficiency_text(const Run& run) {
  if (!positive(run.efficiency) || run.ranks < 2) return "";
  return fmt::format("{} at {}", percent_text(*run.efficiency), counted(run.ranks, "rank"));
}

/// "resnet50 x 32: 97 MiB of gradients in 161 tensors, the largest 9.2 %; 1,280 multiply-adds per byte".
std::string facts_text(const Network& network) {
  const Run& run = *network.run;
  std::string text = fmt::format("{}: {} of gradients", name_of(run),
                                 format_bytes(static_cast<int64_t>(network.gradient_bytes)));
  if (run.parameter_tensors > 0) {
    text += fmt::format(
        " in {}, the largest {}", counted(run.parameter_tensors, "tensor"),
        percent_text(static_cast<double>(run.largest_parameter) / static_cast<double>(run.parameters)));
  }
  text += fmt::format("; {} multiply-adds per byte", number_text(network.per_byte()));
  const std::string efficiency = efficiency_text(run);
  return efficiency.empty() ? text : text + ", " + efficiency;
}

/// Lines of equally many multiply-adds per byte at powers of ten, named at their upper ends.
void draw_ratios(Canvas& canvas, const XyFrame& frame, const Scale& x, const Scale& y) {
  const int first = static_cast<int>(std::floor(std::log10(y.low() * kMultiplyAdds / (x.high() * kBytes))));
  const int last = static_cast<int>(std::ceil(std::log10(y.high() * kMultiplyAdds / (x.low() * kBytes))));
  for (int power = first; power <= last; ++power) {
    // y = ratio * x, in the units of the axes.
    const double ratio = std::pow(10.0, power) * kBytes / kMultiplyAdds;
    const double left = std::max(x.low(), y.low() / ratio), right = std::min(x.high(), y.high() / ratio);
    if (left >= right) continue;
    canvas.line(frame.at(left, left * ratio), frame.at(right, right * ratio), Colour::kMuted, 1, "2 4");
    const Point end = frame.at(right, right * ratio);
    if (end.x - frame.at(left, left * ratio).x < 40) continue;
    canvas.text({end.x - 4, end.y + (end.y < frame.plot().y + 16 ? 12 : -4)},
                fmt::format("{}/B", fixed_text(std::pow(10.0, power), std::max(0, -power))),
                {.colour = Colour::kMuted, .anchor = Anchor::kEnd, .size = kSmallTextSize});
  }
}

}  // namespace

Chart networks_chart(const Sources& sources, const ChartForm& form) {
  Chart chart{.title = "What decides how a network scales"};
  std::vector<Network> networks = networks_of(sources);
  if (networks.empty()) {
    return missing_chart(chart.title, "no run says what its network computes and exchanges",
                         "Measure again with this version of `lockstep bench --json FILE`, images of the "
                         "network's own size.");
  }
  if (networks.size() > kMostNetworks) {
    chart.notes.push_back(fmt::format("{} more networks are left out.", networks.size() - kMostNetworks));
    networks.resize(kMostNetworks);
  }
  const auto [least_bytes, most_bytes] = std::ranges::minmax(networks, {}, &Network::gradient_bytes);
  const auto [least, most] = std::ranges::minmax(networks, {}, &Network::multiply_adds);
  // Room around the points, and for more than one line of equal ratios.
  const Scale x =
      Scale::log10(least_bytes.gradient_bytes / kBytes / 4, most_bytes.gradient_bytes / kBytes * 4);
  const Scale y =
      Scale::log10(least.multiply_adds / kMultiplyAdds / 4, most.multiply_adds / kMultiplyAdds * 4);
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < networks.size(); ++i) {
    LineStyle style = line_style(i);
    style.dash.clear();
    style.width = 0;
    const std::string efficiency = efficiency_text(*networks[i].run);
    legend.push_back({name_of(*networks[i].run) + (efficiency.empty() ? "" : ": " + efficiency), style});
  }
  Canvas canvas(form.id);
  const XyFrame frame(canvas, form,
                      {.x_title = "gradients that a rank exchanges in a step, MiB",
                       .y_title = "multiply-adds of a rank's forward pass, billions",
                       .legend = legend},
                      x, y);
  draw_ratios(canvas, frame, x, y);
  chart.description = "Multiply-adds of a rank's forward pass over the bytes of gradients that it exchanges.";
  for (size_t i = 0; i < networks.size(); ++i) {
    const std::string facts = facts_text(networks[i]);
    canvas.marker(frame.at(networks[i].gradient_bytes / kBytes, networks[i].multiply_adds / kMultiplyAdds),
                  legend[i].style, 6, facts);
    if (networks.size() <= kMostInNotes) chart.notes.push_back(facts + ".");
    if (i < kMostInNotes) chart.description += " " + facts + ".";
  }
  chart.notes.push_back(
      "Dotted: as many multiply-adds per byte of gradients (/B). Up and to the left there is more to compute "
      "for "
      "every byte, so that communication hides more easily. Many small tensors cost more messages without "
      "buckets; one "
      "large tensor is final late or fills a bucket alone.");
  return drawn(std::move(chart), canvas, form, frame.bottom());
}

}  // namespace lockstep::plots
