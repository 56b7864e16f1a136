#include "lockstep/results/record/setup.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "lockstep/base/number_range.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {
namespace {

const Setup& default_setup() {
  static const Setup kDefault;
  return kDefault;
}

/// A tuned row has a bucket size of its own, which must not keep rows of one sweep apart.
bool is_tuned(const Setting& setting, const Run& run) {
  return setting.member == Setting::Member(&Setup::bucket_mb) && run.tuning.has_value();
}

}  // namespace

std::string mebibytes_text(double mebibytes) {
  const std::string mib = fmt::format("{}", mebibytes), kib = fmt::format("{}", 1024 * mebibytes);
  return mib.size() > kib.size() + 2 ? kib + " KiB" : mib + " MiB";
}

std::optional<double> option_number(const std::string& options, const std::string& flag) {
  const size_t begin = (" " + options).find(" " + flag + " ");
  if (begin == std::string::npos) return std::nullopt;
  const std::string rest = options.substr(begin + flag.size() + 1);
  return parse_number(rest.substr(0, rest.find(' ')), {});
}

int Setup::steps_per_sample() const {
  return std::max(1, static_cast<int>(option_number(strategy_options, "--sync-every").value_or(1)));
}

std::string Setting::value_text(const Setup& setup) const {
  return std::visit(
      [&](auto of) -> std::string {
        using T = std::remove_cvref_t<decltype(setup.*of)>;
        if constexpr (std::is_same_v<T, bool>) return setup.*of ? "on" : "off";
        if constexpr (std::is_same_v<T, std::string>) return (setup.*of).empty() ? "none" : setup.*of;
        return fmt::format("{}", setup.*of);
      },
      member);
}

std::string Setting::with_unit(const Setup& setup) const {
  return member == Member(&Setup::bucket_mb) ? mebibytes_text(setup.bucket_mb)
                                             : value_text(setup) + prose.unit;
}

std::string Setting::text(const Run& run) const {
  if (is_tuned(*this, run)) return "tuned";
  if (member == Member(&Setup::unit) && !run.batch_is_known()) return "";
  const bool unknown = std::visit(
      [&](auto of) {
        using T = std::remove_cvref_t<decltype(run.*of)>;
        // A text that older files lack was empty then, which is "none"; any other empty text is a gap.
        if constexpr (std::is_same_v<T, std::string>) return (run.*of).empty() && has(kUnknownIfAbsent);
        return has(kNullable) && run.*of == T();
      },
      member);
  return unknown ? "" : with_unit(run);
}

std::string Setting::phrase(const Run& run) const {
  if (is_tuned(*this, run)) return "tuned buckets";
  if (prose.of_default != nullptr && same(run, default_setup())) return prose.of_default;
  return fmt::format(fmt::runtime(prose.value), text(run));
}

std::string Setting::phrase(const Setup& setup) const {
  if (prose.of_default != nullptr && same(setup, default_setup())) return prose.of_default;
  return fmt::format(fmt::runtime(prose.value), with_unit(setup));
}

bool Setting::same(const Setup& a, const Setup& b) const {
  return std::visit([&](auto of) { return a.*of == b.*of; }, member);
}

Setup unknown_setup() {
  Setup setup;
  for (const Setting& setting : kSettings) {
    // The default was the value before files had the setting.
    if (!setting.has(Setting::kUnknownIfAbsent) && !setting.has(Setting::kRequired)) continue;
    std::visit([&](auto of) { setup.*of = {}; }, setting.member);
  }
  return setup;
}

}  // namespace lockstep::results
