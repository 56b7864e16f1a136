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

/// The two strategies that exchange nothing: one rank alone, and all ranks at once without each other.
inline constexpr const char* kSingle = "single";
inline constexpr const char* kIndependent = "independent";

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
  /// Hosts that the ranks are on.
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
  /// Unit that rates count: "image", or what the file of a network names ("token").
  std::string unit = "image";
  /// Units in a sample of the batch.
  int64_t units_per_sample = 1;

  /// "images/s", "tokens/s".
  std::string rate_unit() const { return unit + "s/s"; }
  Role role() const { return role_of(strategy); }

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& setup);
};

/// Whether the ranks of a row exchange anything.
inline bool communicates(const Setup& row) {
  return row.role() == Role::kStrategy;
}

/// More than any machine has. Readers refuse more, because they make lists as long as a row has ranks.
inline constexpr int kMostRanks = 1'000'000;

/// Relation between two rows that differ in a setting.
enum class Distinction {
  /// They are never compared, and no table calls the setting an attribute.
  kIdentity,
  /// They are of other tables and curves, and of different work. Two files whose rows all differ in the
  /// setting are compared for it, unless Setting::may_change is false.
  kAttribute,
  /// As an attribute between files; within one file it follows from the number of ranks.
  kPlacement,
  /// The same row: the setting is only recorded.
  kNone,
};

/// The value of a setting in a file that lacks its key.
enum class IfAbsent {
  /// The default of Setup: files are older than the setting.
  kDefault,
  /// Not known: 0 or "".
  kUnknown,
  /// The file is refused.
  kRefused,
};

/// One member of Setup as files, tables and messages know it.
struct Setting {
  using Member = std::variant<std::string Setup::*, bool Setup::*, int Setup::*, int64_t Setup::*,
                              uint64_t Setup::*, double Setup::*>;

  /// In JSON and CSV.
  const char* key;
  /// In messages and at the head of a column: "memory format".
  const char* name;
  Member member;
  /// In comparisons of what ranks and checkpoints were told, where that is not `name`.
  const char* flag = nullptr;
  Distinction distinction = Distinction::kAttribute;
  /// In titles; "{}" stands for the value.
  const char* prose = "{}";
  /// In titles where the setting has its default; null: `prose`.
  const char* prose_of_default = nullptr;
  /// After the value: " MiB".
  const char* unit = "";
  /// Only rows whose ranks communicate have it.
  bool of_communication = false;
  /// Whether rows are still compared when one file has one value throughout and the other file another.
  bool may_change = true;
  /// 0 and "" are null in JSON and empty in CSV.
  bool nullable = false;
  IfAbsent if_absent = IfAbsent::kDefault;
  /// The range of a whole number; empty: as FieldRule has it.
  std::optional<int64_t> least = std::nullopt;
  std::optional<int64_t> most = std::nullopt;
  bool in_csv = true;
  /// The user's choice, which the ranks must have in common; false: it follows from others, or from where the
  /// job runs.
  bool chosen = true;

  const char* flag_or_name() const { return flag == nullptr ? name : flag; }
  /// The exact value without its unit; "none" for an empty text.
  std::string value_text(const Setup& setup) const;
  /// The value as a table shows it; empty: not known. Buckets that were tuned are "tuned", since every row of
  /// a sweep may have found another size.
  std::string text(const Run& run) const;
  /// The value in a title: "buckets of 25 MiB"; of a Setup, before it was measured.
  std::string phrase(const Run& run) const;
  std::string phrase(const Setup& setup) const;
  bool same(const Setup& a, const Setup& b) const;
};

/// Every member of Setup, in the order of the result file. Readers and writers of files, tables, the matching
/// of rows and the comparison of ranks iterate over it, so that a new setting is a member above and an entry
/// here.
inline constexpr auto kSettings = std::to_array<Setting>({
    {.key = "model",
     .name = "network",
     .member = &Setup::model,
     .distinction = Distinction::kIdentity,
     .if_absent = IfAbsent::kRefused},
    {.key = "batch_per_rank",
     .name = "batch per rank",
     .member = &Setup::batch_per_rank,
     .distinction = Distinction::kIdentity,
     .if_absent = IfAbsent::kRefused,
     .least = 1},
    {.key = "global_batch",
     .name = "global batch",
     .member = &Setup::global_batch,
     .distinction = Distinction::kIdentity,
     .nullable = true},
    {.key = "accumulate",
     .name = "accumulation",
     .member = &Setup::accumulate,
     .flag = "--accumulate",
     .prose = "gradients of {} batches accumulated",
     .prose_of_default = "no accumulation",
     .least = 1},
    {.key = "ranks",
     .name = "number of ranks",
     .member = &Setup::ranks,
     .distinction = Distinction::kIdentity,
     .if_absent = IfAbsent::kRefused,
     .least = 1,
     .most = kMostRanks},
    {.key = "hosts",
     .name = "hosts",
     .member = &Setup::hosts,
     .distinction = Distinction::kPlacement,
     .least = 1,
     .chosen = false},
    {.key = "strategy",
     .name = "strategy",
     .member = &Setup::strategy,
     .of_communication = true,
     .if_absent = IfAbsent::kRefused},
    {.key = "backend",
     .name = "backend",
     .member = &Setup::backend,
     .of_communication = true,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .chosen = false},
    {.key = "precision", .name = "precision", .member = &Setup::precision},
    {.key = "kernels",
     .name = "kernels",
     .member = &Setup::kernels,
     .flag = "--kernels",
     .prose = "{} kernels"},
    {.key = "memory_format",
     .name = "memory format",
     .member = &Setup::memory_format,
     .if_absent = IfAbsent::kUnknown},
    {.key = "device", .name = "device", .member = &Setup::device, .flag = "--device"},
    {.key = "cuda_graph",
     .name = "CUDA graph",
     .member = &Setup::cuda_graph,
     .flag = "--cuda-graph",
     .prose = "CUDA graph",
     .prose_of_default = "no CUDA graph"},
    {.key = "input", .name = "input", .member = &Setup::input, .prose = "input {}"},
    {.key = "data",
     .name = "data",
     .member = &Setup::data,
     .flag = "--data",
     .prose = "data {}",
     .prose_of_default = "no data",
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false},
    {.key = "input_options",
     .name = "input options",
     .member = &Setup::input_options,
     .flag = "flags of the input",
     .prose_of_default = "no input options",
     .nullable = true,
     .in_csv = false},
    {.key = "image_size",
     .name = "image size",
     .member = &Setup::image_size,
     .prose = "images of {}",
     .may_change = false,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown},
    {.key = "bucket_mb",
     .name = "bucket",
     .member = &Setup::bucket_mb,
     .flag = "--bucket-mb",
     .prose = "buckets of {}",
     .unit = " MiB",
     .of_communication = true,
     .if_absent = IfAbsent::kUnknown},
    {.key = "strategy_options",
     .name = "strategy options",
     .member = &Setup::strategy_options,
     .flag = "options of the strategy",
     .prose_of_default = "no options",
     .of_communication = true,
     .nullable = true},
    {.key = "threads_per_rank",
     .name = "threads per rank",
     .member = &Setup::threads_per_rank,
     .prose = "{} threads per rank",
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .chosen = false},
    {.key = "seed",
     .name = "seed",
     .member = &Setup::seed,
     .distinction = Distinction::kNone,
     .if_absent = IfAbsent::kUnknown},
    {.key = "parameters",
     .name = "parameters",
     .member = &Setup::parameters,
     .distinction = Distinction::kNone,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .chosen = false},
    {.key = "parameter_tensors",
     .name = "tensors of parameters",
     .member = &Setup::parameter_tensors,
     .distinction = Distinction::kNone,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false,
     .chosen = false},
    {.key = "largest_parameter",
     .name = "largest tensor of parameters",
     .member = &Setup::largest_parameter,
     .distinction = Distinction::kNone,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false,
     .chosen = false},
    {.key = "multiply_adds",
     .name = "multiply-adds",
     .member = &Setup::multiply_adds,
     .distinction = Distinction::kNone,
     .nullable = true,
     .if_absent = IfAbsent::kUnknown,
     .chosen = false},
    {.key = "learning_rate",
     .name = "learning rate",
     .member = &Setup::learning_rate,
     .distinction = Distinction::kNone,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false},
    {.key = "momentum",
     .name = "momentum",
     .member = &Setup::momentum,
     .distinction = Distinction::kNone,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false},
    {.key = "weight_decay",
     .name = "weight decay",
     .member = &Setup::weight_decay,
     .distinction = Distinction::kNone,
     .if_absent = IfAbsent::kUnknown,
     .in_csv = false},
    {.key = "nesterov",
     .name = "Nesterov momentum",
     .member = &Setup::nesterov,
     .flag = "--nesterov",
     .distinction = Distinction::kNone,
     .in_csv = false},
    {.key = "unit", .name = "unit of rates", .member = &Setup::unit, .in_csv = false, .chosen = false},
    {.key = "units_per_sample",
     .name = "units in a sample",
     .member = &Setup::units_per_sample,
     .least = 1,
     .in_csv = false,
     .chosen = false},
});

/// A row of which a file says nothing.
Setup unknown_setup();

template <typename Fields, typename Self>
void Setup::describe(Fields& fields, Self& setup) {
  if constexpr (!std::is_const_v<Self>) static_cast<Setup&>(setup) = unknown_setup();
  for (const Setting& setting : kSettings) {
    const FieldRule rule{.required = setting.if_absent == IfAbsent::kRefused,
                         .nullable = setting.nullable,
                         .least = setting.least,
                         .most = setting.most,
                         .in_csv = setting.in_csv};
    std::visit([&](auto member) { fields(setting.key, setup.*member, rule); }, setting.member);
  }
}

}  // namespace lockstep::results
