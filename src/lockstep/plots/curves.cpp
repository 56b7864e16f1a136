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

template <typename Value>
/// Curves of the records, controls last. `value` gives a run's point, or nothing.
std::vector<Curve> own_curves(const Sources& sources, bool with_single, Value value) {
  std::vector<Curve> own, controls;
  std::map<std::string, std::pair<bool, size_t>> known;
  for (const LabelledRun& run : labelled_runs(sources)) {
    if (run.run->role() == results::Role::kBaseline && !with_single) continue;
    if (!run.run->finished()) continue;
    const std::optional<CurvePoint> point = value(*run.run);
    if (!point || !positive(point->value) || !positive(point->workers)) continue;
    std::vector<Curve>& curves = run.control ? controls : own;
    const auto [at, fresh] = known.try_emplace(run.curve, run.control, curves.size());
    if (fresh)
      curves.push_back({run.label,
                        run.run->model,
                        run.run->strategy,
                        run.control ? Curve::Kind::kControl : Curve::Kind::kOwn,
                        {}});
    curves[at->second.second].points.push_back(*point);
  }
  own.insert(own.end(), controls.begin(), controls.end());
  for (Curve& curve : own) std::ranges::stable_sort(curve.points, {}, &CurvePoint::workers);
  return own;
}

template <typename Value>
/// A curve for each of a published table's that has any value.
void add_published(std::vector<Curve>& curves, const Sources& sources, Value value) {
  for (const PublishedTable& table : sources.published) {
    for (const PublishedCurve& published : table.curves) {
      Curve curve{published.label.empty() ? table.name : table.name + ": " + published.label,
                  published.model,
                  "",
                  Curve::Kind::kPublished,
                  {}};
      for (size_t row : published.rows) {
        const std::optional<double> found = value(table.rows[row]);
        if (positive(found))
          curve.points.push_back({static_cast<double>(table.rows[row].workers), *found, {}});
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
}

}  // namespace

std::vector<LabelledRun> labelled_runs(const Sources& sources) {
  std::vector<LabelledRun> runs;
  for (size_t record = 0; record < sources.records.size(); ++record) {
    for (const Run& run : sources.records[record].record.runs) {
      runs.push_back({.run = &run,
                      .record = record,
                      .control = results::is_control(sources.records[record].record, run)});
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
    if (sources.records.size() > 1) {
      run.parts.push_back({"file", sources.records[run.record].name, sources.records[run.record].name});
    }
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
  auto curves = own_curves(sources, true, [](const Run& run) -> std::optional<CurvePoint> {
    return CurvePoint{static_cast<double>(run.ranks), run.images_per_s, drawable(run.rate_interval)};
  });
  add_published(curves, sources, [](const PublishedRow& row) { return row.images_per_s; });
  return curves;
}

std::vector<Curve> speedup_curves(const Sources& sources) {
  auto curves = own_curves(sources, false, [](const Run& run) -> std::optional<CurvePoint> {
    if (!positive(run.speedup)) return std::nullopt;
    CurvePoint point{static_cast<double>(run.ranks), *run.speedup, {}};
    point.interval = drawable(run.speedup_interval);
    return point;
  });
  add_published(curves, sources, [](const PublishedRow& row) { return row.speedup; });
  return curves;
}

std::vector<Curve> most_telling(std::vector<Curve> curves, std::vector<std::string>& notes) {
  if (curves.size() <= kMostCurves) return curves;
  std::set<std::string> models;
  bool published = false;
  for (const Curve& curve : curves) {
    published |= curve.kind == Curve::Kind::kPublished;
    if (curve.kind != Curve::Kind::kPublished) models.insert(curve.model);
  }
  // Published curves get half of the room: the first curves of each kind come before the others.
  // Order of the kinds: own, two controls, published of the same networks, other published, then the rest.
  const size_t own_quota = published ? kMostCurves / 2 : kMostCurves;
  size_t own = 0, controls = 0;
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < curves.size(); ++i) {
    int rank = 0;
    switch (curves[i].kind) {
      case Curve::Kind::kOwn:
        // The lower the rank, the sooner a curve is drawn.
        rank = own++ < own_quota ? 0 : 4;
        break;
      case Curve::Kind::kControl:
        rank = controls++ < 2 ? 1 : 5;
        break;
      case Curve::Kind::kPublished:
        rank = models.contains(curves[i].model) || curves[i].model.empty() ? 2 : 3;
    }
    order.emplace_back(rank, i);
  }
  std::ranges::sort(order);
  notes.push_back(
      fmt::format("{} of {} curves are drawn; the tables have all of them.", kMostCurves, curves.size()));
  std::vector<size_t> chosen;
  for (size_t i = 0; i < kMostCurves; ++i) chosen.push_back(order[i].second);
  // Back to the order of the curves, which decides their colours.
  std::ranges::sort(chosen);
  std::vector<Curve> result;
  for (size_t i : chosen) result.push_back(std::move(curves[i]));
  return result;
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
