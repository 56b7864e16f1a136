#include "lockstep/collectives/operations.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"

namespace lockstep::collectives {
namespace {

constexpr NumberRange kSizes{.most = 64 * 1024, .above = true, .unit = Unit::kMebibytes};

int64_t parse_size(const std::string& text, const std::string& whole) {
  const std::optional<double> mebibytes = parse_number(text, kSizes);
  const double bytes = mebibytes.value_or(0) * static_cast<double>(kMiB);
  if (bytes >= 1) return std::llround(bytes);
  throw ConfigError(
      fmt::format("--sizes takes sizes from 1B to 64GiB (4KiB,25MiB), a range (8B..1GiB) or model:NAME, not "
                  "'{}'",
                  whole));
}

}  // namespace

const Registry<Operation>& operations() {
  using Kind = comm::Collective::Kind;
  static const Registry<Operation> all("collective", "lockstep collectives --help",
                                       {{"all_reduce", {Kind::kAllReduce, true, false, false, 2}},
                                        {"reduce_scatter", {Kind::kReduceScatter, true, true, true, 1}},
                                        {"all_gather", {Kind::kAllGather, true, true, true, 1}},
                                        {"broadcast", {Kind::kBroadcast, true, false, false, 0}},
                                        {"reduce", {Kind::kReduce, true, false, false, 0}},
                                        {"all_to_all", {Kind::kAllToAll, false, true, true, 1}},
                                        {"send_recv", {std::nullopt, false, true, false, 0}}});
  return all;
}

double bus_factor(const Operation& operation, int ranks) {
  return operation.shares == 0 ? 1 : operation.shares * (ranks - 1) / ranks;
}

comm::DType dtype_named(const std::string& name) {
  std::vector<std::string> known;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(comm::DType::kInt64); ++i) {
    known.emplace_back(comm::to_string(comm::DType(i)));
    if (known.back() == name) return comm::DType(i);
  }
  throw ConfigError(fmt::format("--dtype takes {}, not '{}'", join_alternatives(known), name));
}

std::vector<int64_t> parse_sizes(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {parse_size(text, text)};
  const int64_t last = parse_size(text.substr(dots + 2), text);
  std::vector<int64_t> sizes;
  for (int64_t size = parse_size(text.substr(0, dots), text); size <= last; size *= 2) sizes.push_back(size);
  if (!sizes.empty()) return sizes;
  throw ConfigError(fmt::format("--sizes {} ends below its beginning", text),
                    "Write the smaller size first.");
}

std::vector<int64_t> bucket_sizes(const std::vector<int64_t>& values, int64_t cap_bytes) {
  std::vector<int64_t> buckets;
  int64_t open = 0;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    open += *value * static_cast<int64_t>(sizeof(float));
    if (open < (buckets.empty() ? kMiB : cap_bytes)) continue;
    buckets.push_back(open);
    open = 0;
  }
  if (open > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace lockstep::collectives
