#include "lockstep/plots/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::Run;
using results::Setting;

/// Ends of an interval that can be drawn: a damaged file may have any.
std::optional<std::pair<double, double>> drawable(const std::optional<results::Interval>& interval) {
  if (!interval || !interval->missing.empty()) return std::nullopt;
  if (!positive(interval->low) || !positive(interval->high) || interval->high < interval->low)
    return std::nullopt;
  return std::pair(interval->low, interval->high);
}

/// Adds a curve for each key of the runs with a point; `prefix` begins their labels.
template <typename Value>
void add_curves(std::vector<Curve>& curves, const std::vector<LabelledRun>& runs, Curve::Kind kind,
                const std::string& prefix, Value value) {
  std::map<std::string, size_t> known;
  for (const LabelledRun& run : runs) {
    if (!run.run->finished() || run.control != (kind == Curve::Kind::kControl)) continue;
    const std::optional<CurvePoint> point = value(*run.run);
    if (!point || !positive(point->value) || !positive(point->x)) continue;
    const auto [at, fresh] = known.try_emplace(run.curve, curves.size());
    if (fresh) curves.push_back({prefix + run.label, run.run->model, run.run->strategy, kind, {}});
    curves[at->second].points.push_back(*point);
  }
}

/// Own curves, their controls, then curves of the published records, without controls. `value` gives a run's
/// point, or nothing.
template <typename Value>
std::vector<Curve> curves_of(const Sources& sources, Value value, const Setting* across = nullptr) {
  std::vector<Curve> curves;
  const std::vector<LabelledRun> own = labelled_runs(sources.records, across);
  const bool published = results::all_published(sources.records);
  add_curves(curves, own, published ? Curve::Kind::kPublished : Curve::Kind::kOwn, "", value);
  add_curves(curves, own, Curve::Kind::kControl, "", value);
  for (const NamedRecord& named : sources.published) {
    if (across != nullptr) break;
    add_curves(curves, labelled_runs({&named, 1}), Curve::Kind::kPublished, named.name + ": ", value);
  }
  for (Curve& curve : curves) std::ranges::stable_sort(curve.points, {}, &CurvePoint::x);
  return curves;
}

/// The rate of a run at `x`.
std::optional<CurvePoint> rate_at(double x, const Run& run) {
  return CurvePoint{x, run.images_per_s, drawable(run.rate_interval)};
}

/// The value of a setting that is a number.
double number_of(const Setting& setting, const Run& run) {
  return std::visit(
      [&](auto of) -> double {
        using T = std::remove_cvref_t<decltype(run.*of)>;
        if constexpr (std::is_same_v<T, int> || std::is_same_v<T, double>) return run.*of;
        return 0;
      },
      setting.member);
}

/// A damaged file may hold any number.
std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value) || value < 0; });
  return values;
}

/// Whether a step has a sample of any rank.
bool is_filled(const std::vector<double>& ranks) {
  return !ranks.empty();
}

}  // namespace

StepSeries step_series(const results::Run& run) {
  StepSeries series;
  // A step without any rank (a damaged file) has no time.
  if (!run.samples.empty() && std::ranges::all_of(run.samples, is_filled)) {
    series.measured_s = finite(results::representative_steps(run));
  }
  if (!run.warmup_samples.empty() && std::ranges::all_of(run.warmup_samples, is_filled)) {
    series.warmup_s = finite(results::per_step_maxima(run.warmup_samples));
  }
  return series;
}

std::vector<std::vector<LabelledRun>> by_network(const std::vector<LabelledRun>& runs) {
  std::vector<std::vector<LabelledRun>> networks;
  for (const LabelledRun& run : runs) {
    auto known = std::ranges::find_if(
        networks, [&](const auto& network) { return network.front().run->model == run.run->model; });
    if (known == networks.end()) known = networks.emplace(networks.end());
    known->push_back(run);
  }
  for (auto& network : networks) {
    std::ranges::stable_sort(network, {},
                             [](const LabelledRun& run) { return std::pair(run.record, run.control); });
  }
  return networks;
}

std::vector<Curve> throughput_curves(const Sources& sources) {
  return curves_of(sources, [](const Run& run) { return rate_at(run.ranks, run); });
}

std::map<int, std::string> baselines_of(const Sources& sources) {
  std::map<int, std::string> found;
  for (const std::vector<NamedRecord>* records : {&sources.records, &sources.published}) {
    for (const NamedRecord& named : *records) {
      for (const Run& run : named.record.runs) {
        if (!run.baseline || !run.speedup) continue;
        const std::string words = results::baseline_words(run);
        const auto [at, fresh] = found.emplace(run.baseline->ranks, words);
        if (!fresh && at->second != words)
          at->second = at->first == 1 ? "one rank" : counted(at->first, "rank");
      }
    }
  }
  if (found.empty()) found.emplace(1, "one rank");
  return found;
}

std::vector<Curve> speedup_curves(const Sources& sources) {
  std::vector<Curve> curves = curves_of(sources, [](const Run& run) -> std::optional<CurvePoint> {
    const std::optional<double> speedup = results::shown_speedup(run);
    if (!positive(speedup) || run.role() == results::Role::kBaseline) return std::nullopt;
    return CurvePoint{static_cast<double>(run.ranks), *speedup, drawable(run.speedup_interval)};
  });
  for (const std::vector<results::Forecast>& forecast : sources.forecasts) {
    const auto own = std::ranges::find_if(curves, [&](const Curve& curve) {
      const CurvePoint& last = curve.points.back();
      return curve.kind == Curve::Kind::kOwn && last.x == forecast.front().ranks &&
             last.value == forecast.front().speedup;
    });
    if (own != curves.end()) own->beyond = forecast;
  }
  return curves;
}

std::optional<SettingCurves> setting_curves(const Sources& sources) {
  constexpr size_t kFewestValues = 3;
  SettingCurves found;
  size_t most = kFewestValues - 1;
  for (const Setting& setting : results::kSettings) {
    const bool is_batch = setting.member == Setting::Member(&results::Setup::batch_per_rank);
    if (!setting.is_attribute() && !is_batch) continue;
    const auto curves = curves_of(
        sources,
        [&](const Run& run) -> std::optional<CurvePoint> {
          // Under strong scaling the batch per rank follows from the number of ranks, and a tuner's choice is
          // no sweep.
          if ((is_batch && run.global_batch > 0) || run.tuning) return std::nullopt;
          return rate_at(number_of(setting, run), run);
        },
        &setting);
    for (const Curve& curve : curves) {
      if (curve.kind != Curve::Kind::kOwn || curve.points.size() <= most) continue;
      most = curve.points.size();
      found = {&setting, curves};
    }
  }
  if (found.setting == nullptr) return std::nullopt;
  std::erase_if(found.curves, [](const Curve& curve) { return curve.strategy == results::kSingle; });
  return found;
}

std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes) {
  if (curves.size() <= kMostCurves) return curves;
  notes.push_back(
      fmt::format("{} of {} curves are drawn; the tables have all of them.", kMostCurves, curves.size()));
  std::set<std::string> networks;
  size_t own = 0;
  // The half of the room for own curves, their references, published ones beside them; then more own ones.
  const auto rank = [&](const Curve& curve) {
    if (curve.kind == Curve::Kind::kOwn) {
      networks.insert(curve.model);
      return own++ < kMostCurves / 2 ? 0 : 3;
    }
    if (!networks.contains(curve.model) || curve.strategy == results::kSingle) return 4;
    return curve.kind == Curve::Kind::kControl ? 1 : 2;
  };
  std::vector<std::pair<int, size_t>> ranked;
  for (size_t i = 0; i < curves.size(); ++i) ranked.emplace_back(rank(curves[i]), i);
  std::ranges::sort(ranked);
  ranked.resize(kMostCurves);
  std::ranges::sort(ranked, {}, &std::pair<int, size_t>::second);
  std::vector<Curve> chosen;
  for (const auto& [rank_of_it, i] : ranked) chosen.push_back(std::move(curves[i]));
  return chosen;
}

std::vector<LineStyle> styles_of(const std::vector<Curve>& curves) {
  std::vector<std::string> models;
  for (const Curve& curve : curves) {
    if (curve.kind == Curve::Kind::kPublished) continue;
    if (std::ranges::find(models, curve.model) == models.end()) models.push_back(curve.model);
  }
  const bool several = models.size() > 1;
  std::vector<LineStyle> styles;
  // Controls are counted by strategy, so that a control has one style in all charts; own curves are counted
  // by network if there are several.
  std::map<std::string, size_t> controls, own;
  size_t hues = several ? models.size() : 0;
  for (const Curve& curve : curves) {
    const auto hue = static_cast<size_t>(std::ranges::find(models, curve.model) - models.begin());
    if (curve.kind == Curve::Kind::kOwn) {
      const size_t index = several ? own[curve.model]++ : hues++;
      // A hue that comes again has another marker.
      styles.push_back(several ? line_style(hue, index + hue / kHueCount, index)
                               : line_style(index, index + index / kHueCount, index / kHueCount));
      continue;
    }
    const bool control = curve.kind == Curve::Kind::kControl;
    const size_t before = control ? controls[curve.strategy + (several ? curve.model : "")]++ : 0;
    LineStyle& style = styles.emplace_back(control ? line_style(hue, before, 1 + before)
                                                   : line_style(hues, hues + hues / kHueCount, 0));
    style.hollow = true;
    style.width = 1.75;
    if (control) {
      // The controls of further records have hollow shapes.
      if (curve.strategy == results::kSingle) {
        style.marker = before == 0 ? Marker::kCross : line_style(hue, before + 2, 0).marker;
      } else if (before == 0) {
        style.marker = Marker::kPlus;
      }
      if (!several) style.colour = Colour::kMuted;
    } else {
      // Dotted as long as hues and markers differ, then long dashes.
      style.dash = hues / kHueCount % 2 == 0 ? "2 4" : "9 3 2 3";
      ++hues;
    }
  }
  return styles;
}

void draw_beyond(Canvas& canvas, const XyFrame& frame, const Curve& curve, LineStyle style, Point from) {
  std::vector<Point> line{from}, band{from};
  for (size_t i = 1; i < curve.beyond.size(); ++i) {
    const auto& [ranks, speedup, low, high] = curve.beyond[i];
    line.push_back(frame.at(ranks, speedup));
    band.push_back(frame.at(ranks, high));
    band.insert(band.begin(), frame.at(ranks, low));
  }
  style.dash = kPredictedDash;
  style.hollow = true;
  canvas.polygon(band, style.colour, 0.15);
  canvas.polyline(line, style);
  for (size_t i = 1; i < curve.beyond.size(); ++i) {
    const auto& [ranks, speedup, low, high] = curve.beyond[i];
    canvas.marker(line[i], style, 2.5,
                  fmt::format("{}, {}, predicted: {} times ({} to {})", curve.label, counted(ranks, "rank"),
                              number_text(speedup), number_text(low), number_text(high)));
  }
}

std::vector<LabelledRun> most_telling(std::vector<LabelledRun> runs, size_t most,
                                      std::vector<std::string>& notes) {
  if (runs.size() <= most) return runs;
  notes.push_back(
      fmt::format("{} of {} rows are drawn; the table has all of them.", most, count_text(runs.size())));
  std::vector<LabelledRun> chosen;
  // The last of each of `most` equal parts, so that the last run is always there.
  for (size_t i = 0; i < most; ++i) chosen.push_back(runs[(i + 1) * runs.size() / most - 1]);
  return chosen;
}

}  // namespace lockstep::plots
