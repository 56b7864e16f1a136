#include "lockstep/plots/curves.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/plots/numbers.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/groups.h"

namespace lockstep::plots {
namespace {

using results::Run;

/// Head of the part of a label that is the network.
constexpr const char* kModelHead = "model";

/// Key of all settings of a run except its batch and its number of ranks.
std::string settings_of(const LabelledRun& run) {
  std::string key = fmt::format("{}\n{}\n{}", run.record, run.run->model, run.run->device);
  for (const results::Setting& attribute : results::attributes()) key += "\n" + attribute.text(*run.run);
  return key;
}

/// Keys of runs under strong scaling: one batch per number of ranks, and the same product of both.
std::set<std::string> strongly_scaled(const std::vector<LabelledRun>& runs) {
  std::map<std::string, std::map<int, std::set<int>>> batches;
  for (const LabelledRun& run : runs)
    batches[settings_of(run)][run.run->ranks].insert(run.run->batch_per_rank);
  std::set<std::string> found;
  for (const auto& [settings, by_ranks] : batches) {
    std::set<int64_t> products;
    bool unique = by_ranks.size() > 1;
    for (const auto& [ranks, sizes] : by_ranks) {
      unique = unique && sizes.size() == 1;
      for (int size : sizes) products.insert(static_cast<int64_t>(ranks) * size);
    }
    if (unique && products.size() == 1) found.insert(settings);
  }
  return found;
}

/// Settings that tell runs apart; controls are left out, because they lack those of communication.
std::vector<const results::Setting*> varying_attributes(const std::vector<LabelledRun>& runs) {
  std::vector<const Run*> measured;
  for (const LabelledRun& run : runs) {
    if (!run.control) measured.push_back(run.run);
  }
  return results::varying(measured);
}

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

/// Own curves, their controls, then those of the published records without theirs. `value` gives a run's
/// point, or nothing.
template <typename Value>
std::vector<Curve> curves_of(const Sources& sources, Value value) {
  std::vector<Curve> curves;
  const std::vector<LabelledRun> own = labelled_runs(sources);
  add_curves(curves, own, Curve::Kind::kOwn, "", value);
  add_curves(curves, own, Curve::Kind::kControl, "", value);
  for (const NamedRecord& named : sources.published) {
    add_curves(curves, labelled_runs({&named, 1}), Curve::Kind::kPublished, named.name + ": ", value);
  }
  for (Curve& curve : curves) std::ranges::stable_sort(curve.points, {}, &CurvePoint::workers);
  return curves;
}

}  // namespace

std::optional<double> shown_speedup(const Run& run) {
  return run.stated_speedup ? run.stated_speedup : run.speedup;
}

std::vector<LabelledRun> labelled_runs(std::span<const NamedRecord> records) {
  std::vector<LabelledRun> runs;
  for (size_t record = 0; record < records.size(); ++record) {
    for (const Run& run : records[record].record.runs) {
      runs.push_back(
          {.run = &run, .record = record, .control = results::is_control(records[record].record, run)});
    }
  }
  const std::set<std::string> strong = strongly_scaled(runs);
  const auto varying = varying_attributes(runs);
  // A label names only what differs.
  std::set<std::string> models, batches;
  const auto batch_text = [&](const LabelledRun& run) {
    if (!strong.contains(settings_of(run))) return fmt::format("{}", run.run->batch_per_rank);
    return fmt::format("{} in all", static_cast<int64_t>(run.run->batch_per_rank) * run.run->ranks);
  };
  const auto batch_of = [&](const LabelledRun& run) { return "batch " + batch_text(run); };
  for (const LabelledRun& run : runs) {
    models.insert(run.run->model);
    if (!run.control) batches.insert(batch_of(run));
  }
  for (LabelledRun& run : runs) {
    std::string strategy = run.run->strategy.empty() ? "?" : run.run->strategy;
    if (run.control) strategy += " (control)";
    if (!run.run->finished()) strategy += fmt::format(" ({})", results::kUnfinished);
    if (models.size() > 1) run.parts.push_back({kModelHead, run.run->model, run.run->model});
    run.parts.push_back({"strategy", strategy, strategy});
    if (batches.size() > 1) run.parts.push_back({"batch", batch_text(run), batch_of(run)});
    for (const results::Setting* attribute : varying) {
      if (std::string_view(attribute->name) == "strategy") continue;
      // A control keeps the column, but has nothing in it.
      const bool concerned = !run.control || !attribute->has(results::Setting::kOfCommunication);
      run.parts.push_back(
          concerned ? LabelPart{attribute->name, attribute->text(*run.run), attribute->phrase(*run.run)}
                    : LabelPart{attribute->name, "", ""});
    }
    if (records.size() > 1) run.parts.push_back({"file", records[run.record].name, records[run.record].name});
    std::vector<std::string> phrases;
    for (const LabelPart& part : run.parts) {
      if (!part.phrase.empty()) phrases.push_back(part.phrase);
    }
    run.label = fmt::format("{}", fmt::join(phrases, ", "));
    run.curve = settings_of(run) + "\n" + batch_of(run);
    // It stands for no other run of its settings.
    if (!run.run->finished()) run.curve += fmt::format("\n{}", results::kUnfinished);
  }
  return runs;
}

std::string with_ranks(const LabelledRun& run) {
  return run.label + ", " + counted(run.run->ranks, "rank");
}

std::string with_ranks_only(const LabelledRun& run) {
  std::vector<std::string> phrases;
  for (const LabelPart& part : run.parts) {
    if (part.head != kModelHead && !part.phrase.empty()) phrases.push_back(part.phrase);
  }
  phrases.push_back(counted(run.run->ranks, "rank"));
  return fmt::format("{}", fmt::join(phrases, ", "));
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
  return curves_of(sources, [](const Run& run) {
    return std::optional(
        CurvePoint{static_cast<double>(run.ranks), run.images_per_s, drawable(run.rate_interval)});
  });
}

std::vector<Curve> speedup_curves(const Sources& sources) {
  return curves_of(sources, [](const Run& run) -> std::optional<CurvePoint> {
    const std::optional<double> speedup = shown_speedup(run);
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
