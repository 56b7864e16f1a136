#include "lockstep/results/tables/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/measure/series.h"
#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

using measure::Comparison;

using Texts = std::vector<std::string>;

bool has(const Setting& setting, const Run& run) {
  return !setting.has(Setting::kOfCommunication) || communicates(run);
}

/// Whether the setting keeps rows of two files apart, beside the settings of identity() below.
bool decides(const Setting& setting) {
  return setting.is_attribute() || setting.has(Setting::kPlacement);
}

/// The values of a setting in the rows of a file.
std::set<std::string> values(const RunRecord& record, const Setting& setting) {
  std::set<std::string> found;
  for (const Run& run : record.runs) {
    if (!run.finished() || !has(setting, run)) continue;
    if (std::string text = setting.text(run); !text.empty()) found.insert(std::move(text));
  }
  return found;
}

/// The settings that keep rows apart; the others that differ go to `changes`.
std::vector<const Setting*> deciding(const RunRecord& base, const RunRecord& test,
                                     std::vector<SettingChange>& changes) {
  std::vector<const Setting*> kept;
  for (const Setting& setting : kSettings) {
    if (!decides(setting)) continue;
    const std::set<std::string> of_base = values(base, setting);
    const std::set<std::string> of_test = values(test, setting);
    if (of_base.empty() || of_test.empty()) continue;
    const bool changed = of_base.size() == 1 && of_test.size() == 1 && of_base != of_test;
    if (changed && !setting.has(Setting::kFixed)) {
      changes.push_back({setting.name, *of_base.begin(), *of_test.begin()});
    } else {
      kept.push_back(&setting);
    }
  }
  return kept;
}

/// Whether two runs train the same network on the same batch, as far as that is known.
bool same_training(const Run& a, const Run& b, bool as_same) {
  const bool recorded = a.recorded || b.recorded;
  if (recorded && as_same) return true;
  // Strong scaling: the batch per rank follows from the number of ranks.
  const bool same_batch =
      a.global_batch == b.global_batch && (a.global_batch > 0 || a.batch_per_rank == b.batch_per_rank);
  if (!recorded) return same_batch && a.model == b.model;
  if (!same_batch && a.batch_is_known() && b.batch_is_known()) return false;
  if (a.model != kUnnamed && b.model != kUnnamed) return a.model == b.model;
  return a.parameters > 0 && a.parameters == b.parameters && a.parameter_tensors == b.parameter_tensors &&
         a.largest_parameter == b.largest_parameter;
}

/// The key of a row: rows of two files that train the same match where it is equal.
Texts identity(const Run& run, const std::vector<const Setting*>& deciding) {
  Texts texts{fmt::format("{}", run.ranks), communicates(run) ? "communicates" : run.strategy};
  for (const Setting* setting : deciding) texts.push_back(has(*setting, run) ? setting->text(run) : "");
  return texts;
}

using Launches = std::vector<std::vector<double>>;

/// Steps of the shortest launch; launches without steps are left out of the comparison, too.
size_t fewest_steps(const Launches& launches) {
  size_t fewest = 0;
  for (const auto& launch : launches) {
    if (!launch.empty() && (fewest == 0 || launch.size() < fewest)) fewest = launch.size();
  }
  return fewest;
}

/// Whether the samples are a series of steps. Files of PyTorch's benchmark hold the samples of several
/// ranks one after the other.
bool pools_ranks(const Run& run) {
  return run.pooled && run.ranks > 1;
}

/// Two percentiles without an interval: pooled samples of ranks that wait for one another are not
/// independent.
Comparison compare_pooled(const Launches& base, const Launches& test,
                          const measure::CompareOptions& options) {
  Comparison comparison;
  comparison.options = options;
  comparison.within_launches = true;
  comparison.base_s = measure::percentile(base.front(), 100 * *options.quantile);
  comparison.test_s = measure::percentile(test.front(), 100 * *options.quantile);
  if (comparison.base_s > 0) comparison.ratio = comparison.test_s / comparison.base_s;
  comparison.reason = "a file of PyTorch's benchmark pools the samples of ranks that move together";
  return comparison;
}

/// `quantile`: empty for the mean.
measure::CompareOptions options_for(std::optional<double> quantile, const DiffOptions& options) {
  return {quantile, options.confidence, options.threshold, options.paired};
}

/// Whether a step has more samples on one side, as far as both are known. Means of recordings of other
/// lengths have other shares of smaller last batches.
bool has_other_batches(const DiffRow& row) {
  const double base = row.base->images_per_rank_step(), test = row.test->images_per_rank_step();
  const double harmless = row.base->recorded && row.test->recorded ? 0.1 * base : 0;
  return row.base->batch_is_known() && row.test->batch_is_known() && std::abs(base - test) > harmless;
}

/// One percentile of a row, or the reason why a side has too few steps for it.
PercentileChange compare_percentile(const DiffRow& row, const Launches& base, const Launches& test,
                                    int percentile, const DiffOptions& options) {
  PercentileChange change;
  change.percentile = percentile;
  const measure::CompareOptions how = options_for(percentile / 100.0, options);
  change.comparison.options = how;
  if (has_other_batches(row)) {
    change.known = false;
    change.comparison.within_launches = !row.over_launches();
    change.comparison.reason =
        fmt::format("a step has {:g} {}s per rank in base and {:g} in test", row.base->images_per_rank_step(),
                    row.base->unit, row.test->images_per_rank_step());
    return change;
  }
  const int needed = measure::samples_needed(percentile);
  for (const auto& [side, launches] : {std::pair{"base", &base}, std::pair{"test", &test}}) {
    if (fewest_steps(*launches) >= static_cast<size_t>(needed)) continue;
    change.known = false;
    change.comparison.within_launches = !row.over_launches();
    change.comparison.reason = fmt::format("{}: p{} needs {} steps a launch, not {}", side, percentile,
                                           needed, fewest_steps(*launches));
    return change;
  }
  change.comparison = pools_ranks(*row.base) || pools_ranks(*row.test) ? compare_pooled(base, test, how)
                                                                       : measure::compare(base, test, how);
  return change;
}

/// All percentiles of a matched row; the decisive one is its verdict.
DiffRow compare_row(const MatchedRow& matched, const Diff& diff) {
  DiffRow row;
  row.base = matched.base;
  row.test = matched.test;
  row.base_launches = launches(*matched.base);
  row.test_launches = launches(*matched.test);
  const Launches base = representative_steps_by_launch(*matched.base);
  const Launches test = representative_steps_by_launch(*matched.test);
  for (const int percentile : diff.percentiles) {
    row.changes.push_back(compare_percentile(row, base, test, percentile, diff.options));
    if (percentile == diff.options.decisive) row.verdict = row.changes.back().comparison;
  }
  row.mean.options = options_for({}, diff.options);
  if (!has_other_batches(row) && !pools_ranks(*row.base) && !pools_ranks(*row.test))
    row.mean = measure::compare(base, test, row.mean.options);
  return row;
}

/// Corrects all verdicts of the file at once (Holm), likewise those of the means, and marks the rows that
/// lose theirs.
void correct_verdicts(std::vector<DiffRow>& rows) {
  std::vector<Comparison> verdicts, means;
  for (const DiffRow& row : rows) {
    verdicts.push_back(row.verdict);
    means.push_back(row.mean);
  }
  measure::correct_for_rows(verdicts);
  measure::correct_for_rows(means);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].corrected_away = rows[i].verdict.differs() && !verdicts[i].differs();
    rows[i].verdict = verdicts[i];
    rows[i].mean = means[i];
  }
}

/// "resnet50 with batch size 8 at 1, 2 ranks": lets the reader see why no rows match.
std::string what_is_in(const RunRecord& record) {
  std::set<std::string> work;
  std::set<int> ranks;
  for (const Run& run : record.runs) {
    if (!run.finished()) continue;
    work.insert(fmt::format("{} with {}", run.model, batch_text(run)));
    ranks.insert(run.ranks);
  }
  if (work.empty()) return record.runs.empty() ? "nothing" : "unfinished rows only";
  return fmt::format("{} at {} ranks", fmt::join(work, ", "), fmt::join(ranks, ", "));
}

/// Bucket sizes of the rows that have buckets; a file of PyTorch's benchmark has one at its top.
std::string bucket_sizes(const RunRecord& record) {
  std::set<double> sizes;
  for (const Run& run : record.runs) {
    if (communicates(run)) sizes.insert(run.bucket_mb);
  }
  if (sizes.empty()) return fmt::format("{}", record.bucket_size_mb);
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// A property of machines or of rows; values that several share appear once.
template <typename T, typename Text>
std::string each_once(const std::vector<T>& owners, Text text) {
  std::vector<std::string> found;
  for (const T& owner : owners) {
    std::string one = std::invoke(text, owner);
    if (!one.empty() && std::ranges::find(found, one) == found.end()) found.push_back(std::move(one));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string gpus_text(const Machine& machine) {
  return machine.gpus.empty() ? "" : fmt::format("{} x {}", machine.gpus.size(), machine.gpus.front());
}

std::string gpu_paths_text(const Machine& machine) {
  return path_counts(machine.map, static_cast<size_t>(machine.map.gpus()));
}

/// 0 stands for a number that the file lacks.
std::string count_or_nothing(int count) {
  return count > 0 ? fmt::format("{}", count) : "";
}

/// "2 x NVIDIA H200".
std::string rank_gpu_names(const RunRecord& record) {
  return each_once(record.rank_gpus, [&](const topology::RankGpu& gpu) {
    const auto alike = std::ranges::count(record.rank_gpus, gpu.name, &topology::RankGpu::name);
    return fmt::format("{} x {}", alike, gpu.name);
  });
}

/// Whether ranks shared GPUs; empty on a CPU.
std::string sharing_text(const RunRecord& record) {
  if (record.rank_gpus.empty()) return "";
  return ranks_by_shared_gpu(record.rank_gpus).empty() ? "no" : "yes";
}

/// "1", or "1, 5" where rows have different numbers of launches.
std::string launches_text(const RunRecord& record) {
  std::set<int> counts;
  for (const Run& run : record.runs) counts.insert(launches(run));
  return fmt::format("{}", fmt::join(counts, ", "));
}

/// The one entry that always differs and therefore has no mark.
constexpr const char* kStarted = "started";

/// Entries that decide how fast a GPU is, apart from the program.
constexpr std::array<std::string_view, 7> kOfDevice{
    "cuda_version", "device", "device settings", "GPUs of the ranks", "GPUs shared", "cuDNN", "GPU driver"};

/// Names and values. Entries that PyTorch's diff.py has come first, under its names and in its order.
std::vector<std::pair<std::string, std::string>> entries(const RunRecord& record) {
  // A trace does not have what lockstep writes of its own runs.
  const bool recorded = record.source == kRecordedSource;
  return {
      {"bucket_size", recorded ? "" : bucket_sizes(record)},
      {"cuda_version", record.cuda_version.empty() && !recorded ? "None" : record.cuda_version},
      {"distributed_backend", record.distributed_backend},
      {"pytorch_version", record.torch_version},
      {"written by", record.source},
      {"lockstep", record.lockstep_version},
      {"backend library", record.backend_detail},
      {"kernels", kernels_text(record)},
      {"device", each_once(record.runs, &Run::device)},
      {"device settings", each_once(record.runs, &Run::device_settings)},
      {"GPUs of the ranks", rank_gpu_names(record)},
      {"GPUs shared", sharing_text(record)},
      {"cuDNN", record.cudnn_version},
      {"host", each_once(record.machines, &Machine::host)},
      {"processor", each_once(record.machines, &Machine::processor)},
      {"cores",
       each_once(record.machines, [](const Machine& machine) { return fmt::format("{}", machine.cores); })},
      {"memory",
       each_once(record.machines, [](const Machine& machine) { return format_bytes(machine.memory_bytes); })},
      {"governor", each_once(record.machines, &Machine::governor)},
      {"kernel", each_once(record.machines, &Machine::kernel)},
      {"GPU", each_once(record.machines, gpus_text)},
      {"GPU driver",
       each_once(record.machines, [](const Machine& machine) { return machine.map.driver_version; })},
      {"GPU paths", each_once(record.machines, gpu_paths_text)},
      {"launched as", record.launch},
      {"pinned", record.binding},
      {"most ranks", count_or_nothing(record.ranks)},
      {"threads per rank", count_or_nothing(record.threads_per_rank)},
      {"allocator", record.allocator},
      {"launches", launches_text(record)},
      {kStarted, record.started_at},
      {"command", command_text(record.command)},
      {"INCOMPLETE", record.incomplete},
  };
}

/// All facts on how the records were measured, entries that differ first.
std::vector<HeaderEntry> compare_headers(const RunRecord& base, const RunRecord& test) {
  const auto of_base = entries(base);
  const auto of_test = entries(test);
  std::vector<HeaderEntry> header;
  for (size_t i = 0; i < of_base.size(); ++i) {
    const auto& [name, base_text] = of_base[i];
    const std::string& test_text = of_test[i].second;
    if (base_text.empty() && test_text.empty()) continue;
    const bool of_device = std::ranges::find(kOfDevice, name) != kOfDevice.end();
    header.push_back({name, base_text.empty() ? kNoValue : base_text,
                      test_text.empty() ? kNoValue : test_text, base_text != test_text && name != kStarted,
                      of_device});
  }
  std::stable_partition(header.begin(), header.end(), [](const HeaderEntry& entry) { return entry.differs; });
  return header;
}

/// When the launches of a record started; ISO 8601, so that texts sort as times do. Empty: not known.
std::vector<std::string> starts_of(const RunRecord& record) {
  if (!record.launches_started_at.empty()) return record.launches_started_at;
  return record.started_at.empty() ? std::vector<std::string>{} : std::vector{record.started_at};
}

/// Whether two sides of several launches were measured without taking turns, in whole or for the most part:
/// in ABBA order the side changes once for every pair.
bool ran_one_after_the_other(const RunRecord& base, const RunRecord& test) {
  std::vector<std::pair<std::string, bool>> all;
  for (const auto& [record, is_test] : {std::pair{&base, false}, std::pair{&test, true}}) {
    for (const std::string& start : starts_of(*record)) all.emplace_back(start, is_test);
  }
  const auto of_test = std::ranges::count(all, true, &std::pair<std::string, bool>::second);
  const auto fewest = std::min(of_test, std::ssize(all) - of_test);
  if (fewest < 2) return false;
  std::ranges::sort(all);
  std::ptrdiff_t changes = 0;
  for (size_t i = 1; i < all.size(); ++i) changes += all[i].second != all[i - 1].second ? 1 : 0;
  return changes < fewest;
}

}  // namespace

RowMatching match_rows(const RunRecord& base, const RunRecord& test, bool as_same) {
  RowMatching matching;
  const std::vector<const Setting*> kept = deciding(base, test, matching.changes);
  std::vector<bool> taken(test.runs.size());
  for (size_t i = 0; i < test.runs.size(); ++i) {
    if (test.runs[i].finished()) continue;
    taken[i] = true;
    matching.unfinished_test.push_back(&test.runs[i]);
  }
  for (const Run& run : base.runs) {
    if (!run.finished()) {
      matching.unfinished_base.push_back(&run);
      continue;
    }
    const Texts wanted = identity(run, kept);
    size_t found = 0;
    const auto matches = [&](const Run& other) {
      return same_training(run, other, as_same) && identity(other, kept) == wanted;
    };
    while (found < test.runs.size() && (taken[found] || !matches(test.runs[found]))) ++found;
    if (found == test.runs.size()) {
      matching.only_base.push_back(&run);
    } else {
      taken[found] = true;
      matching.rows.push_back({&run, &test.runs[found]});
    }
  }
  for (size_t i = 0; i < test.runs.size(); ++i) {
    if (!taken[i]) matching.only_test.push_back(&test.runs[i]);
  }
  // Settings of communication mean nothing when no common row communicates.
  const bool any_communicates =
      std::ranges::any_of(matching.rows, [](const MatchedRow& row) { return communicates(*row.base); });
  if (!any_communicates) {
    std::erase_if(matching.changes, [](const SettingChange& change) {
      return std::ranges::any_of(kSettings, [&](const Setting& setting) {
        return change.name == setting.name && setting.has(Setting::kOfCommunication);
      });
    });
  }
  return matching;
}

bool DiffRow::mean_disagrees() const {
  if (!(mean.base_s > 0)) return false;
  if (verdict.differs() && mean.verdict == measure::Verdict::kSame) {
    return mean.ratio_interval->lower > verdict.ratio || mean.ratio_interval->upper < verdict.ratio;
  }
  if (std::abs(mean.ratio - 1) < mean.options.threshold) return false;
  if (mean.differs()) return mean.verdict != verdict.verdict;
  // Without intervals a change that rows of a quiet machine do not have, and that the percentile does not
  // show.
  constexpr double kLarge = 0.2;
  return mean.verdict == measure::Verdict::kNotEnoughData && !verdict.differs() &&
         std::abs(mean.ratio - 1) > kLarge && std::abs(mean.ratio / verdict.ratio - 1) > kLarge;
}

int Diff::regressions() const {
  return static_cast<int>(std::ranges::count_if(rows, &DiffRow::is_regression));
}

int Diff::rows_over_launches() const {
  return static_cast<int>(std::ranges::count_if(rows, &DiffRow::over_launches));
}

int Diff::judged_rows() const {
  return static_cast<int>(std::ranges::count_if(
      rows, [](const DiffRow& row) { return row.over_launches() && row.verdict.p.has_value(); }));
}

bool Diff::is_certain() const {
  return std::ranges::none_of(rows, [](const DiffRow& row) {
    return row.verdict.base_s > 0 && measure::certainty_of(row.verdict) == measure::Certainty::kOpen;
  });
}

Diff compare_records(const RunRecord& base, const RunRecord& test, const DiffOptions& options) {
  const RowMatching matching = match_rows(base, test, options.as_same);
  Diff diff{matching, options};
  std::set<int> shown{75, 95};
  // Two percentiles fill a line.
  if (!shown.contains(options.decisive)) shown = {options.decisive, options.decisive > 95 ? 75 : 95};
  diff.percentiles.assign(shown.begin(), shown.end());
  diff.header = compare_headers(base, test);
  if (matching.rows.empty()) {
    const std::string both =
        fmt::format("The base has {}; the test has {}.", what_is_in(base), what_is_in(test));
    if (!match_rows(base, test, /*as_same=*/true).rows.empty()) {
      throw ConfigError("it is not known whether base and test are the same training",
                        both + " --as-same compares them all the same; 'lockstep import --name' names them.");
    }
    throw ConfigError("base and test have no row in common",
                      "Rows belong together when model, batch and ranks are the same. " + both);
  }
  diff.one_after_the_other = ran_one_after_the_other(base, test);
  for (const MatchedRow& matched : matching.rows) diff.rows.push_back(compare_row(matched, diff));
  correct_verdicts(diff.rows);
  return diff;
}

}  // namespace lockstep::results
