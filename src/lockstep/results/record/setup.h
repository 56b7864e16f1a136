#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "lockstep/base/fields.h"

namespace lockstep::results {

struct Run;

/// "25 MiB", "0.5 MiB", with all digits; "25 KiB" where that is much shorter.
std::string mebibytes_text(double mebibytes);

/// The number behind a flag in options as on a command line; empty where it is not there.
std::optional<double> option_number(const std::string& options, const std::string& flag);

/// The two strategies that exchange nothing: one rank alone, and all ranks at once without each other.
inline constexpr const char* kSingle = "single";
inline constexpr const char* kIndependent = "independent";

/// Unit of rates that count steps of a rank, for want of a batch.
inline constexpr const char* kStepUnit = "step";

/// The part that a row plays in a comparison; follows from the name of its strategy.
enum class Role {
  kStrategy,
  /// kSingle: speed-ups are usually relative to it.
  kBaseline,
  /// kIndependent: perfect scaling on this machine.
  kControl
};

inline Role role_of(const std::string& strategy) {
  if (strategy == kSingle) return Role::kBaseline;
  return strategy == kIndependent ? Role::kControl : Role::kStrategy;
}

/// All settings that define a row, in the plan of a job as in its record. kSettings below describes each of
/// them, in the same order.
struct Setup {
  std::string model;
  int batch_per_rank = 0;
  /// Strong scaling: the batch of the whole job, the same at every number of ranks; 0: weak scaling, where
  /// the batch per rank is the same.
  int global_batch = 0;
  /// Batches per rank whose gradients are added up before they are combined, once per step.
  int accumulate = 1;
  int ranks = 1;
  /// Hosts that the ranks are on; 0: not known.
  int hosts = 1;
  std::string strategy;
  std::string backend;
  std::string precision = "fp32";
  /// "aten" (LibTorch's operations) or "fused" (RunRecord::kernel_detail names the library).
  std::string kernels = "aten";
  std::string memory_format = "channels_last";
  /// "cpu" or "cuda".
  std::string device = "cpu";
  /// A step is recorded once as a CUDA graph and replayed.
  bool cuda_graph = false;
  std::string input = "device";
  /// The folder that the input `dataset` reads, as given; empty: none.
  std::string data;
  /// Other flags of the input as they are typed, "--prefetch 8", without defaults and addresses.
  std::string input_options;
  int image_size = 0;
  double bucket_mb = 25;
  /// Other flags of the strategy as they are typed, "--wire bf16 --overlap off", without defaults.
  std::string strategy_options;
  /// 0: not known.
  int threads_per_rank = 0;
  uint64_t seed = 1;
  /// Trainable values of the network; 0: not known.
  int64_t parameters = 0;
  /// Tensors that these are in, and the values of the largest; 0: not known.
  int64_t parameter_tensors = 0;
  int64_t largest_parameter = 0;
  /// Per image and forward pass; 0: not known.
  int64_t multiply_adds = 0;
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool nesterov = false;
  /// Largest 2-norm of a step's gradients; 0: not limited.
  double grad_clip = 0;
  /// Unit that rates count: "image", or the unit in the file of a network ("token").
  std::string unit = "image";
  /// Units in a sample of the batch.
  int64_t units_per_sample = 1;

  /// Steps whose mean is a sample: those of a period where ranks exchange only at its end (--sync-every).
  int steps_per_sample() const;
  /// "images/s", "tokens/s".
  std::string rate_unit() const { return unit + "s/s"; }
  Role role() const { return role_of(strategy); }
  /// Rates of a recorded training count steps where nothing tells its batch, which is 1 then.
  bool batch_is_known() const { return unit != kStepUnit; }

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& setup);
};

/// Whether the ranks of a row exchange anything.
inline bool communicates(const Setup& row) {
  return row.role() == Role::kStrategy;
}

/// More than any machine has. Readers refuse more, because they make lists with an entry per rank.
inline constexpr int kMostRanks = 1'000'000;

/// One member of Setup as files, tables and messages know it.
struct Setting {
  using Member = std::variant<std::string Setup::*, bool Setup::*, int Setup::*, int64_t Setup::*,
                              uint64_t Setup::*, double Setup::*>;

  enum Trait : unsigned {
    /// Rows that differ in the setting are never compared, and no table calls it an attribute.
    kIdentity = 1 << 0,
    /// An attribute between files; within one file the setting follows from the number of ranks.
    kPlacement = 1 << 1,
    /// Rows that differ in the setting are the same row: it is only recorded.
    kRecorded = 1 << 2,
    /// Only rows whose ranks communicate have the setting.
    kOfCommunication = 1 << 3,
    /// Rows are not compared where one file has one value throughout and the other file another.
    kFixed = 1 << 4,
    /// 0 and "" are null in JSON and empty in CSV.
    kNullable = 1 << 5,
    /// In a file without its key the setting is not known (0 or ""); elsewhere it has its default, because
    /// the file is older than the setting.
    kUnknownIfAbsent = 1 << 6,
    /// A file without its key is refused.
    kRequired = 1 << 7,
    /// A file with a value below 1 is refused.
    kPositive = 1 << 8,
    /// Follows from other settings or from where the job runs; all others are the user's choice, which the
    /// ranks must have in common.
    kDerived = 1 << 9,
    /// A training may be resumed with another value: the schedule replaces it, or it does not change what is
    /// computed.
    kNotOfTraining = 1 << 10,
  };

  /// Words for a title. "{}" stands for the value, `unit` (" MiB") comes after it.
  struct Prose {
    const char* value = "{}";
    /// For a setting that has its default; null: `value`.
    const char* of_default = nullptr;
    const char* unit = "";
  };

  /// In JSON and CSV.
  const char* key;
  /// In messages and at the head of a column: "memory format".
  const char* name;
  Member member;
  unsigned traits = 0;
  /// In comparisons of the settings of ranks and checkpoints, where that is not `name`.
  const char* flag = nullptr;
  Prose prose = {};
  /// A file with a larger whole number is refused.
  std::optional<int64_t> most = std::nullopt;

  bool has(Trait trait) const { return (traits & trait) != 0; }
  /// Rows that differ in an attribute are of other tables and curves, and of different work. Two files whose
  /// rows all differ in one are compared for it, unless it is kFixed.
  bool is_attribute() const { return (traits & (kIdentity | kPlacement | kRecorded)) == 0; }
  const char* flag_or_name() const { return flag == nullptr ? name : flag; }
  /// The exact value without its unit; "none" for an empty text.
  std::string value_text(const Setup& setup) const;
  /// The value with its unit.
  std::string with_unit(const Setup& setup) const;
  /// The value as a table shows it; empty: not known. Buckets that were tuned are "tuned", since every row of
  /// a sweep may have found another size.
  std::string text(const Run& run) const;
  /// The value in a title: "buckets of 25 MiB"; of a Setup, before it was measured.
  std::string phrase(const Run& run) const;
  std::string phrase(const Setup& setup) const;
  bool same(const Setup& a, const Setup& b) const;
};

/// Every member of Setup (key, name, member, traits, flag, prose), in the order of the result file. Readers
/// and writers of files, tables, the matching of rows and the comparison of ranks iterate over it, so that a
/// new setting is a member above and an entry here.
inline constexpr auto kSettings = [] {
  using enum Setting::Trait;
  const auto titled = [](const char* value, const char* of_default = nullptr, const char* unit = "") {
    return Setting::Prose{value, of_default, unit};
  };
  return std::to_array<Setting>({
      {"model", "network", &Setup::model, kIdentity | kRequired},
      {"batch_per_rank", "batch per rank", &Setup::batch_per_rank, kIdentity | kRequired | kPositive},
      {"global_batch", "global batch", &Setup::global_batch, kIdentity | kNullable},
      {"accumulate", "accumulation", &Setup::accumulate, kPositive, "--accumulate",
       titled("gradients of {} batches accumulated", "no accumulation")},
      {"ranks", "number of ranks", &Setup::ranks, kIdentity | kRequired | kPositive, nullptr, {}, kMostRanks},
      {"hosts", "hosts", &Setup::hosts, kPlacement | kNullable | kUnknownIfAbsent | kDerived},
      {"strategy", "strategy", &Setup::strategy, kOfCommunication | kRequired},
      {"backend", "backend", &Setup::backend, kOfCommunication | kNullable | kUnknownIfAbsent | kDerived},
      {"precision", "precision", &Setup::precision},
      {"kernels", "kernels", &Setup::kernels, 0, "--kernels", titled("{} kernels")},
      {"memory_format", "memory format", &Setup::memory_format, kUnknownIfAbsent},
      {"device", "device", &Setup::device, 0, "--device"},
      {"cuda_graph", "CUDA graph", &Setup::cuda_graph, 0, "--cuda-graph",
       titled("CUDA graph", "no CUDA graph")},
      {"input", "input", &Setup::input, 0, nullptr, titled("input {}")},
      {"data", "data", &Setup::data, kNullable | kUnknownIfAbsent | kNotOfTraining, "--data",
       titled("data {}", "no data")},
      {"input_options", "input options", &Setup::input_options, kNullable | kNotOfTraining,
       "flags of the input", titled("{}", "no input options")},
      {"image_size", "image size", &Setup::image_size, kFixed | kNullable | kUnknownIfAbsent, nullptr,
       titled("images of {}")},
      {"bucket_mb", "bucket", &Setup::bucket_mb, kOfCommunication | kUnknownIfAbsent, "--bucket-mb",
       titled("buckets of {}", nullptr, " MiB")},
      {"strategy_options", "strategy options", &Setup::strategy_options, kOfCommunication | kNullable,
       "options of the strategy", titled("{}", "no options")},
      {"threads_per_rank", "threads per rank", &Setup::threads_per_rank,
       kNullable | kUnknownIfAbsent | kDerived, nullptr, titled("threads per rank: {}")},
      {"seed", "seed", &Setup::seed, kRecorded | kUnknownIfAbsent},
      {"parameters", "parameters", &Setup::parameters, kRecorded | kNullable | kUnknownIfAbsent | kDerived},
      {"parameter_tensors", "tensors of parameters", &Setup::parameter_tensors,
       kRecorded | kNullable | kUnknownIfAbsent | kDerived},
      {"largest_parameter", "largest tensor of parameters", &Setup::largest_parameter,
       kRecorded | kNullable | kUnknownIfAbsent | kDerived},
      {"multiply_adds", "multiply-adds", &Setup::multiply_adds,
       kRecorded | kNullable | kUnknownIfAbsent | kDerived},
      {"learning_rate", "learning rate", &Setup::learning_rate,
       kRecorded | kUnknownIfAbsent | kNotOfTraining},
      {"momentum", "momentum", &Setup::momentum, kRecorded | kUnknownIfAbsent},
      {"weight_decay", "weight decay", &Setup::weight_decay, kRecorded | kUnknownIfAbsent},
      {"nesterov", "Nesterov momentum", &Setup::nesterov, kRecorded, "--nesterov"},
      {"grad_clip", "norm of gradients", &Setup::grad_clip, 0, "--grad-clip",
       titled("gradients clipped to a norm of {}", "gradients not clipped")},
      {"unit", "unit of rates", &Setup::unit, kDerived},
      {"units_per_sample", "units in a sample", &Setup::units_per_sample, kPositive | kDerived},
  });
}();

/// The settings of a row that a file lacks completely.
Setup unknown_setup();

template <typename Fields, typename Self>
void Setup::describe(Fields& fields, Self& setup) {
  if constexpr (!std::is_const_v<Self>) static_cast<Setup&>(setup) = unknown_setup();
  for (const Setting& setting : kSettings) {
    const FieldRule rule{.required = setting.has(Setting::kRequired),
                         .nullable = setting.has(Setting::kNullable),
                         .least = setting.has(Setting::kPositive) ? std::optional<int64_t>(1) : std::nullopt,
                         .most = setting.most};
    std::visit([&](auto member) { fields(setting.key, setup.*member, rule); }, setting.member);
  }
}

}  // namespace lockstep::results
