#include "lockstep/plots/curves.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

using results::Run;

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
    if (!point || !positive(point->value) || !positive(point->workers)) continue;
    const auto [at, fresh] = known.try_emplace(run.curve, curves.size());
    if (fresh) curves.push_back({prefix + run.label, run.run->model, run.run->strategy, kind, {}});
    curves[at->second].points.push_back(*point);
  }
}

/// Own curves, their controls, then curves of the published records, without controls. `value` gives a run's
/// point, or nothing.
template <typename Value>
std::vector<Curve> curves_of(const Sources& sources, Value value) {
  std::vector<Curve> curves;
  const std::vector<LabelledRun> own = labelled_runs(sources);
  const bool published = results::all_published(sources.records);
  add_curves(curves, own, published ? Curve::Kind::kPublished : Curve::Kind::kOwn, "", value);
  add_curves(curves, own, Curve::Kind::kControl, "", value);
  for (const NamedRecord& named : sources.published) {
    add_curves(curves, labelled_runs({&named, 1}), Curve::Kind::kPublished, named.name + ": ", value);
  }
  for (Curve& curve : curves) std::ranges::stable_sort(curve.points, {}, &CurvePoint::workers);
  return curves;
}

}  // namespace

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
  return curves_of(sources, [](const Run& run) {
    return std::optional(
        CurvePoint{static_cast<double>(run.ranks), run.images_per_s, drawable(run.rate_interval)});
  });
}

std::vector<Curve> speedup_curves(const Sources& sources) {
  return curves_of(sources, [](const Run& run) -> std::optional<CurvePoint> {
    const std::optional<double> speedup = results::shown_speedup(run);
    if (!positive(speedup) || run.role() == results::Role::kBaseline) return std::nullopt;
    return CurvePoint{static_cast<double>(run.ranks), *speedup, drawable(run.speedup_interval)};
  });
}

std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes) {
  if (curves.size() <= kMostCurves) return curves;
  notes.push_back(
      fmt::format("{} of {} curves are drawn; the tables have all of them.", kMostCurves, curves.size()));
  std::set<std::string> models;
  for (const Curve& curve : curves) {
    if (curve.kind != Curve::Kind::kPublished) models.insert(curve.model);
  }
  // Published curves stand last.
  const auto published = std::ranges::find(curves, Curve::Kind::kPublished, &Curve::kind);
  const auto others = std::stable_partition(published, curves.end(),
                                            [&](const Curve& curve) { return models.contains(curve.model); });
  const auto room = std::max<std::ptrdiff_t>(kMostCurves / 2, kMostCurves - (others - published));
  curves.erase(curves.begin() + std::min(room, published - curves.begin()), published);
  curves.resize(std::min(kMostCurves, curves.size()));
  return curves;
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
