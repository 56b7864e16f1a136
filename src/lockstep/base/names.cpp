#include "lockstep/base/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Names in other tools, in lower case with underscores, and lockstep's names for the same.
constexpr std::pair<std::string_view, const char*> kElsewhere[] = {
    {"zero", "sharded"},
    {"zero1", "sharded"},
    {"fsdp", "sharded"},
    {"fsdp2", "sharded"},
    {"deepspeed", "sharded"},
    {"ps", "parameter_server"},
    {"dp", "data_parallel"},
    {"allreduce", "replicated"},
    {"all_reduce", "replicated"},
    {"distributed", "ddp"},
    {"openmpi", "mpi"},
    {"float32", "fp32"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"bfloat16", "bf16"},
    {"amp", "bf16"},
    {"gpu", "cuda"},
    {"n", "ranks"},
    {"np", "ranks"},
    {"nproc", "ranks"},
    {"nproc_per_node", "ranks"},
    {"world_size", "ranks"},
    {"num_gpus", "ranks"},
    {"gpus", "ranks"},
    {"workers", "ranks"},
    {"arch", "model"},
    {"network", "model"},
    {"m", "model"},
    {"b", "batch"},
    {"bs", "batch"},
    {"batch_size", "batch"},
    {"learning_rate", "lr"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"num_batches", "steps"},
    {"num_warmup_batches", "warmup"},
    {"dtype", "precision"},
    {"variable_update", "strategy"},
    {"bucket_cap_mb", "bucket-mb"},
    {"gradient_accumulation_steps", "accumulate"},
    {"clip_grad_norm", "grad-clip"},
    {"data_dir", "data"},
    {"v", "version"},
    {"run", "bench"},
    {"benchmark", "bench"},
    {"list", "info"},
    {"chart", "plot"},
    {"print", "show"},
    {"view", "show"},
    {"check", "verify"}};

std::string in_lower_case(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return c == '-' ? '_' : std::tolower(c); });
  return lower;
}

/// Levenshtein distance, with one row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known) {
  const std::string typed = in_lower_case(name);
  for (const auto& [elsewhere, here] : kElsewhere)
    if (typed == elsewhere && std::ranges::find(known, here) != known.end()) return {here};
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& candidate : known) {
    const std::string lower = in_lower_case(candidate);
    const bool prefix = !typed.empty() && (lower.starts_with(typed) || typed.starts_with(lower));
    const size_t distance = edit_distance(typed, lower);
    // Two mistakes in a short name, a third of the letters in a long one.
    if (prefix || (distance <= std::max<size_t>(2, candidate.size() / 3) &&
                   distance < std::max(typed.size(), candidate.size()))) {
      scored.emplace_back(prefix ? std::min<size_t>(distance, 2) : distance, candidate);
    }
  }
  // Stable: names at the same distance keep the order in which the lists show them.
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(3, scored.size()); ++i) names.push_back(scored[i].second);
  return names;
}

std::string join_alternatives(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string did_you_mean(std::span<const std::string> names) {
  return names.empty() ? "" : fmt::format("; did you mean {}?", join_alternatives(names));
}

void throw_unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                        std::string_view list_command) {
  throw ConfigError(fmt::format("unknown {} '{}'{}", what, name, did_you_mean(nearest_names(name, known))),
                    fmt::format("'{}' lists all of them.", list_command));
}

std::string flag_name(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return std::string(word.substr(0, word.find('=')));
}

std::vector<std::string> without_flags(const std::vector<std::string>& words,
                                       std::span<const std::string_view> names) {
  std::vector<std::string> kept;
  bool keep = true;
  for (const std::string& word : words) {
    // Values follow the name of their flag.
    if (word.starts_with('-')) keep = std::ranges::find(names, flag_name(word)) == names.end();
    if (keep) kept.push_back(word);
  }
  return kept;
}

std::vector<std::string> with_flags(const std::vector<std::string>& words,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> names;
  for (const std::string& word : others) {
    if (word.starts_with('-')) names.push_back(flag_name(word));
  }
  std::vector<std::string> all =
      without_flags(words, std::vector<std::string_view>(names.begin(), names.end()));
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace lockstep
