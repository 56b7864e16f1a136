#include "lockstep/train/rows/facts.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/train/rows/bits.h"

namespace lockstep::train {
namespace {

/// More of them say no more about what is wrong.
constexpr size_t kMostDifferences = 3;

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string count_or(const std::optional<int>& count, const char* otherwise) {
  return count ? std::to_string(*count) : otherwise;
}

void append(Facts& facts, const PacingOptions& pacing) {
  const auto& [warmup_steps, steps, precision_target, max_time_s] = pacing;
  facts.push_back({"--warmup", count_or(warmup_steps, "as found")});
  facts.push_back({"--steps", count_or(steps, "as found")});
  facts.push_back({"--precision-target", number(precision_target)});
  facts.push_back({"--max-time", number(max_time_s)});
}

std::string value_of(const Facts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? "none" : found->value;
}

std::string hash_text(uint64_t hash) {
  return fmt::format("#{:016x}", hash);
}

bool is_hash(const std::string& value) {
  return value.starts_with('#');
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {} has", ranks.front());
  return fmt::format("ranks {} have", fmt::join(ranks, ", "));
}

/// Of one fact: who has what, rank 0 last.
std::string difference_in(const std::string& name, const std::vector<Facts>& by_rank) {
  const std::string ours = value_of(by_rank[0], name);
  std::map<std::string, std::vector<int>> others;
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    const std::string theirs = value_of(by_rank[rank], name);
    if (theirs != ours) others[theirs].push_back(static_cast<int>(rank));
  }
  if (others.empty()) return "";
  std::string text;
  for (const auto& [value, ranks] : others) text += fmt::format("{} {} {}, ", ranks_text(ranks), name, value);
  return text + fmt::format("rank 0 has {} {}", name, ours);
}

}  // namespace

Facts facts_of(const RowPlan& row) {
  Facts facts;
  for (const results::Setting& setting : results::kSettings) {
    if (setting.chosen) facts.push_back({setting.flag_or_name(), setting.value_text(row)});
  }
  // Not device_index and device_cpus, which each host has of its own.
  const InputFlags& flags = row.input_flags;
  facts.push_back({"--address", flags.address.empty() ? "none" : flags.address});
  facts.push_back({"--timeout", number(flags.timeout_s)});
  facts.push_back({"--tune-budget", number(row.tune_budget_s)});
  facts.push_back({"--verify-every", std::to_string(row.verify_every)});
  append(facts, row.pacing);
  for (auto& [flag, value] : strategies::spelled_out(row.parsed_options)) facts.push_back({flag, value});
  return facts;
}

Facts facts_of(const std::vector<RowPlan>& rows) {
  std::vector<Fact> facts;
  std::map<std::string, std::vector<std::string>> values;
  uint64_t hash = kEmptyHash;
  for (const RowPlan& row : rows) {
    for (auto& [name, value] : facts_of(row)) {
      add_text(hash, name);
      add_text(hash, value);
      std::vector<std::string>& known = values[name];
      if (known.empty()) facts.push_back({name, ""});
      if (std::ranges::find(known, value) == known.end()) known.push_back(value);
    }
  }
  for (Fact& fact : facts) fact.value = fmt::format("{}", fmt::join(values[fact.name], ", "));
  facts.push_back({"number of rows", std::to_string(rows.size())});
  // The same values may be combined otherwise.
  facts.push_back({"plan", hash_text(hash)});
  return facts;
}

Facts facts_of(const replica::Parameters& parameters) {
  Facts facts;
  for (const auto* tensors : {&parameters.trainable(), &parameters.buffers()}) {
    for (const auto& [name, tensor] : *tensors) {
      uint64_t hash = kEmptyHash;
      add_bits(hash, tensor);
      facts.push_back({fmt::format("shape of {}", name), fmt::format("{}", fmt::join(tensor.sizes(), "x"))});
      facts.push_back(
          {fmt::format("strides of {}", name), fmt::format("{}", fmt::join(tensor.strides(), " "))});
      facts.push_back({fmt::format("initial values of {}", name), hash_text(hash)});
    }
  }
  return facts;
}

uint64_t hash_of(const Facts& facts) {
  uint64_t hash = kEmptyHash;
  for (const auto& [name, value] : facts) {
    add_text(hash, name);
    add_text(hash, value);
  }
  return hash;
}

std::string difference_text(const std::vector<Facts>& by_rank) {
  std::vector<std::string> names;
  for (const Facts& facts : by_rank) {
    for (const Fact& fact : facts) {
      // Ranks that are like rank 0, as most are, add no name.
      if (&facts != &by_rank.front() && facts == by_rank.front()) break;
      if (std::ranges::find(names, fact.name) == names.end()) names.push_back(fact.name);
    }
  }
  std::vector<std::string> differences;
  std::vector<std::string> of_hashes;
  for (const std::string& name : names) {
    std::string text = difference_in(name, by_rank);
    if (text.empty()) continue;
    (is_hash(value_of(by_rank[0], name)) ? of_hashes : differences).push_back(std::move(text));
  }
  // A hash follows from what can be said in words, where there is anything.
  if (differences.empty()) differences = std::move(of_hashes);
  const size_t more = differences.size() - std::min(differences.size(), kMostDifferences);
  differences.resize(differences.size() - more);
  std::string text = fmt::format("{}", fmt::join(differences, "; "));
  if (more > 0) text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace lockstep::train
