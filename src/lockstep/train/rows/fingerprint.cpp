#include "lockstep/train/rows/fingerprint.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::train {
namespace {

constexpr uint64_t kPrime = 1099511628211ULL;
constexpr size_t kLanes = 8;

/// Differences that a message names.
constexpr size_t kMostDifferences = 3;

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string count_or(const std::optional<int>& count, const char* otherwise) {
  return count ? std::to_string(*count) : otherwise;
}

void append(Fingerprint& fingerprint, const PacingOptions& pacing) {
  // The period follows from the strategy.
  const auto& [warmup_steps, steps, precision_target, min_time_s, max_time_s, period] = pacing;
  fingerprint.push_back({"--warmup", count_or(warmup_steps, "as found")});
  fingerprint.push_back({"--steps", count_or(steps, "as found")});
  fingerprint.push_back({"--precision-target", number(precision_target)});
  fingerprint.push_back({"--min-time", number(min_time_s)});
  fingerprint.push_back({"--max-time", max_time_s ? number(*max_time_s) : "none"});
}

std::string value_of(const Fingerprint& fingerprint, const std::string& name) {
  const auto found = std::ranges::find(fingerprint, name, &Property::name);
  return found == fingerprint.end() ? "none" : found->value;
}

std::string hash_text(uint64_t hash) {
  return fmt::format("#{:016x}", hash);
}

bool is_hash(const std::string& value) {
  return value.starts_with('#');
}

}  // namespace

std::string ranks_have(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {} has", ranks.front());
  return fmt::format("ranks {} have", fmt::join(ranks, ", "));
}

namespace {

/// The values of one entry by rank, rank 0 last.
std::string difference_in(const std::string& name, const std::vector<Fingerprint>& by_rank) {
  const std::string ours = value_of(by_rank[0], name);
  std::map<std::string, std::vector<int>> others;
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    const std::string theirs = value_of(by_rank[rank], name);
    if (theirs != ours) others[theirs].push_back(static_cast<int>(rank));
  }
  if (others.empty()) return "";
  std::string text;
  for (const auto& [value, ranks] : others) text += fmt::format("{} {} {}, ", ranks_have(ranks), name, value);
  return text + fmt::format("rank 0 has {} {}", name, ours);
}

}  // namespace

void add_bits(uint64_t& hash, const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu();
  const auto* words = static_cast<const uint32_t*>(here.const_data_ptr());
  const size_t count = here.nbytes() / sizeof(uint32_t), lanes_end = count / kLanes * kLanes;
  // Each multiplication waits for the one before it in its lane alone.
  std::array<uint64_t, kLanes> lanes;
  lanes.fill(hash);
  for (size_t i = 0; i < lanes_end; i += kLanes) {
#pragma GCC unroll 8
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = (lanes[lane] ^ words[i + lane]) * kPrime;
  }
  for (const uint64_t lane : lanes) hash = (hash ^ lane) * kPrime;
  for (size_t i = lanes_end; i < count; ++i) hash = (hash ^ words[i]) * kPrime;
}

void add_text(uint64_t& hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  // No character of UTF-8, so that "ab", "c" is not "a", "bc".
  hash = (hash ^ 0xFFU) * kPrime;
}

Fingerprint training_settings_of(const RowPlan& row) {
  Fingerprint fingerprint;
  for (const results::Setting& setting : results::kSettings) {
    if (!setting.has(results::Setting::kDerived) && !setting.has(results::Setting::kNotOfTraining))
      fingerprint.push_back({setting.flag_or_name(), setting.value_text(row)});
  }
  for (auto& [flag, value] : strategies::spelled_out(row.parsed_options))
    fingerprint.push_back({flag, value});
  return fingerprint;
}

Fingerprint fingerprint_of(const RowPlan& row) {
  Fingerprint fingerprint = training_settings_of(row);
  for (const results::Setting& setting : results::kSettings) {
    if (setting.has(results::Setting::kNotOfTraining))
      fingerprint.push_back({setting.flag_or_name(), setting.value_text(row)});
  }
  // Not device_index and device_cpus, which each host has of its own.
  const InputFlags& flags = row.input_flags;
  fingerprint.push_back({"--address", flags.address.empty() ? "none" : flags.address});
  fingerprint.push_back({"--timeout", number(flags.timeout_s)});
  fingerprint.push_back({"--tune-budget", number(row.tune_budget_s)});
  fingerprint.push_back({"--verify-every", std::to_string(row.verify_every)});
  append(fingerprint, row.pacing);
  return fingerprint;
}

Fingerprint fingerprint_of(const std::vector<RowPlan>& rows) {
  std::vector<Property> fingerprint;
  std::map<std::string, std::vector<std::string>> values;
  uint64_t hash = kEmptyHash;
  for (const RowPlan& row : rows) {
    for (auto& [name, value] : fingerprint_of(row)) {
      add_text(hash, name);
      add_text(hash, value);
      std::vector<std::string>& known = values[name];
      if (known.empty()) fingerprint.push_back({name, ""});
      if (std::ranges::find(known, value) == known.end()) known.push_back(value);
    }
  }
  for (Property& property : fingerprint)
    property.value = fmt::format("{}", fmt::join(values[property.name], ", "));
  fingerprint.push_back({"number of rows", std::to_string(rows.size())});
  // Equal value sets can be paired differently; hash the rows too.
  fingerprint.push_back({"plan", hash_text(hash)});
  return fingerprint;
}

Fingerprint fingerprint_of(const replica::Parameters& parameters) {
  Fingerprint fingerprint;
  for (const auto* tensors : {&parameters.trainable(), &parameters.buffers()}) {
    for (const auto& [name, tensor] : *tensors) {
      uint64_t hash = kEmptyHash;
      add_bits(hash, tensor);
      fingerprint.push_back(
          {fmt::format("shape of {}", name), fmt::format("{}", fmt::join(tensor.sizes(), "x"))});
      fingerprint.push_back(
          {fmt::format("strides of {}", name), fmt::format("{}", fmt::join(tensor.strides(), " "))});
      fingerprint.push_back({fmt::format("initial values of {}", name), hash_text(hash)});
    }
  }
  return fingerprint;
}

uint64_t hash_of(const Fingerprint& fingerprint) {
  uint64_t hash = kEmptyHash;
  for (const auto& [name, value] : fingerprint) {
    add_text(hash, name);
    add_text(hash, value);
  }
  return hash;
}

std::string difference_text(const std::vector<Fingerprint>& by_rank) {
  std::vector<std::string> names;
  for (const Fingerprint& fingerprint : by_rank) {
    for (const Property& property : fingerprint) {
      // Most ranks are like rank 0 and have no new names.
      if (&fingerprint != &by_rank.front() && fingerprint == by_rank.front()) break;
      if (std::ranges::find(names, property.name) == names.end()) names.push_back(property.name);
    }
  }
  std::vector<std::string> differences;
  std::vector<std::string> of_hashes;
  for (const std::string& name : names) {
    std::string text = difference_in(name, by_rank);
    if (text.empty()) continue;
    (is_hash(value_of(by_rank[0], name)) ? of_hashes : differences).push_back(std::move(text));
  }
  // A hash follows from the other properties, if any differs.
  if (differences.empty()) differences = std::move(of_hashes);
  const size_t more = differences.size() - std::min(differences.size(), kMostDifferences);
  differences.resize(differences.size() - more);
  std::string text = fmt::format("{}", fmt::join(differences, "; "));
  if (more > 0) text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace lockstep::train
