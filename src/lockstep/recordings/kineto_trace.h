#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::recordings {

/// Categories of a trace's events that a training is explained by.
enum class EventKind : uint8_t {
  /// A stretch that PyTorch or the user named on a thread: "Optimizer.step#SGD.step".
  kAnnotation,
  /// An operator or a node of autograd on a thread.
  kOperator,
  /// On a device.
  kKernel,
  /// A copy or a fill of a device's memory.
  kCopy,
  /// A call of CUDA's run time or driver on a thread.
  kLaunch
};

/// Meaning of an event, from its name.
enum class EventRole : uint8_t {
  kPlain,
  /// "ProfilerStep#7".
  kProfilerStep,
  /// "lockstep.step#7", by which the recorder marks the end of a step.
  kStepEnd,
  /// "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__".
  kLoader,
  /// Forward of a data-parallel module.
  kForward,
  /// A compiled function, whose layers are not seen: "Torch-Compiled Region: 0/0".
  kCompiled,
  /// A node that autograd's engine evaluates.
  kBackward,
  /// The node that adds up a parameter's gradient.
  kGradient,
  /// "Optimizer.step#SGD.step".
  kOptimizer,
  /// A collective's issue: "c10d::allreduce_".
  kIssue,
  /// A collective at work on a backend's thread, or its launch on a device: "gloo:all_reduce",
  /// "nccl:all_reduce".
  kCollective,
  /// PyTorch's note of a collective's parameters, without work of its own.
  kNote,
  /// A layer whose input's first size is the batch.
  kLayer,
  /// A call that waits for the device.
  kSynchronize,
  /// A kernel of NCCL or RCCL.
  kCommunication
};

struct Event {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  /// Joins a kernel with its launch; -1: none.
  int64_t correlation = -1;
  /// Index in KinetoTrace::names.
  uint32_t name = 0;
  /// A thread, or a stream of a device; numbered from 0 on in the order in which they occur.
  uint32_t track = 0;
  /// Index in KinetoTrace::details; -1: none.
  int32_t details = -1;
  EventKind kind = EventKind::kOperator;
  EventRole role = EventRole::kPlain;
};

/// Arguments of collectives, gradients and layers; empty where the profiler did not record them.
struct Details {
  /// Of the tensors that are its first argument; of a layer, those of its input.
  int64_t elements = 0;
  int element_bytes = 0;
  /// First size of a layer's input.
  int64_t batch = 0;
  std::string collective;
  std::string group;
  std::string group_ranks;
};

struct ProcessGroup {
  std::string name;
  std::vector<int> ranks;
};

/// A trace of PyTorch's profiler (Kineto) of one rank, with the events that a training is explained by.
struct KinetoTrace {
  std::string file;
  /// In order of begin; times in nanoseconds since 1970, or of the trace's own clock where it does not say.
  std::vector<Event> events;
  std::vector<std::string> names;
  std::vector<Details> details;
  std::optional<int> rank;
  std::optional<int> world;
  std::string backend;
  std::string gpu;
  std::vector<ProcessGroup> groups;
  /// Categories of events that are neither read nor known to explain nothing, and libraries of collectives
  /// likewise ("hccl").
  std::set<std::string> unknown_categories;
  std::set<std::string> unknown_libraries;

  const std::string& name_of(const Event& event) const { return names[event.name]; }
  const Details* details_of(const Event& event) const {
    return event.details < 0 ? nullptr : &details[static_cast<size_t>(event.details)];
  }
};

/// Reads JSON as torch 1.8 to 2.11 write it, or a bare list of its events, compressed by gzip or not, in one
/// pass; memory grows with the number of events, 48 bytes each. Throws Error of one sentence, with the file
/// and the byte where the text is damaged or cut off, for a file that is no trace of PyTorch's profiler, and
/// for times that none can have.
/// `inside`: name of a file in an archive (files_in_archive()); empty for a file of its own.
KinetoTrace read_kineto_trace(const std::filesystem::path& path, const std::string& inside = "");
/// The same for text in memory, which is not compressed.
KinetoTrace parse_kineto_trace(std::string_view text, const std::string& name);

/// Throws Error for a trace whose times would not be those of the training: of a device or a library of
/// collectives that is not known, of a GPU without its kernels, of kernels without the host's operators.
void check_readable(const KinetoTrace& trace);

/// More ranks than any job has.
inline constexpr int kMostRanks = 1'000'000;

/// By the category of an event, as any version names it, and by its name where old versions had one category
/// for operators and annotations. Empty for those that explain nothing.
std::optional<EventKind> kind_of(std::string_view category, std::string_view name);

/// Whether events of a category that has no kind are known to explain nothing.
bool explains_nothing(std::string_view category);

/// "hccl" for "hccl:all_reduce", a collective of a library that is not read; empty for all else.
std::string_view unknown_library(std::string_view name);

/// "all-reduce" for "allreduce", "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32(...)"; "other" for what
/// is no collective that has a name.
std::string collective_kind(std::string_view name);

EventRole role_of(EventKind kind, std::string_view name);

/// Bytes of an element, by the names that operators ("float", "c10::Half") and NCCL's notes ("Float") have
/// for its type; 0: not known.
int bytes_of_type(std::string_view type);

/// Ranks in "[0, 1]", as PyTorch lists them.
std::vector<int> ranks_in_text(std::string_view text);

}  // namespace lockstep::recordings
