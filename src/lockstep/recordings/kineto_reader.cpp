#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_node.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/trace_text.h"

namespace lockstep::recordings {
namespace {

using nlohmann::json;

/// Builds one value of the metadata.
class ValueBuilder {
 public:
  void begin() {
    root_ = nullptr;
    open_.clear();
    size_ = 0;
  }
  const nlohmann::json& value() const { return root_; }
  /// False once the value is larger than any metadata.
  bool add(nlohmann::json value, bool container) {
    if (++size_ > kMost) return false;
    nlohmann::json* place = &root_;
    if (!open_.empty()) {
      nlohmann::json& parent = *open_.back();
      place = parent.is_array() ? &parent.emplace_back() : &parent[key_];
    }
    *place = std::move(value);
    if (container) open_.push_back(place);
    return true;
  }
  void key(const std::string& key) { key_ = key; }
  /// Whether the value is complete.
  bool close() {
    open_.pop_back();
    return open_.empty();
  }

 private:
  /// Metadata with more values are not PyTorch's.
  static constexpr size_t kMost = 1'000'000;

  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  std::string key_;
  size_t size_ = 0;
};

/// Reads the traces' distributedInfo and deviceProperties. Throw Error that names the file and the key of a
/// value that cannot be.
void read_distributed(const nlohmann::json& value, KinetoTrace& trace) {
  if (!value.is_object()) return;
  const JsonNode node(value, trace.file);
  if (!node["rank"].missing()) trace.rank = static_cast<int>(node["rank"].whole(0, kMostRanks));
  if (!node["world_size"].missing()) trace.world = static_cast<int>(node["world_size"].whole(1, kMostRanks));
  if (trace.rank && trace.world && *trace.rank >= *trace.world)
    node["rank"].refuse("a rank below world_size");
  trace.backend = node["backend"].text_or("");
  const auto groups = value.find("pg_config");
  if (groups == value.end() || !groups->is_array()) return;
  // A file may repeat the key.
  trace.groups.clear();
  for (const JsonNode& each : node["pg_config"].elements()) {
    ProcessGroup group{each["pg_name"].text_or(""), {}};
    if (const JsonNode ranks = each["ranks"]; !ranks.missing()) {
      const nlohmann::json& listed = (*groups)[trace.groups.size()]["ranks"];
      if (listed.is_string()) {
        group.ranks = ranks_in_text(listed.get_ref<const std::string&>());
      } else {
        for (const JsonNode& rank : ranks.elements())
          group.ranks.push_back(static_cast<int>(rank.whole(0, kMostRanks)));
      }
    }
    trace.groups.push_back(std::move(group));
  }
}

void read_devices(const nlohmann::json& value, KinetoTrace& trace) {
  if (!value.is_array()) return;
  const std::vector<JsonNode> devices = JsonNode(value, trace.file).elements();
  if (!devices.empty()) trace.gpu = devices.front()["name"].text_or("");
}

constexpr const char* kAdvice = "Give a trace that torch.profiler's export_chrome_trace() wrote.";
/// Times beyond these are none; nanoseconds still fit 64 bits.
constexpr double kMostMicroseconds = 9.2e15;
/// The most memory for events of one trace, in bytes: some ten million, a hundred times those of a usual
/// window.
constexpr size_t kMostKept = size_t{400} << 20;
/// Unknown categories and libraries that are kept.
constexpr size_t kMostUnknown = 8;

/// Keys of an event and of its arguments.
enum class Key {
  kOther,
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kBegin,
  kDuration,
  kArguments,
  kCorrelation,
  kDimensions,
  kType,
  kCollective,
  kElements,
  kElementType,
  kGroup,
  kGroupRanks
};

Key key_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Key> kKeys{{"ph", Key::kPhase},
                                                               {"cat", Key::kCategory},
                                                               {"name", Key::kName},
                                                               {"pid", Key::kProcess},
                                                               {"tid", Key::kThread},
                                                               {"ts", Key::kBegin},
                                                               {"dur", Key::kDuration},
                                                               {"args", Key::kArguments},
                                                               {"correlation", Key::kCorrelation},
                                                               {"Input Dims", Key::kDimensions},
                                                               {"Input dims", Key::kDimensions},
                                                               {"Input type", Key::kType},
                                                               {"Collective name", Key::kCollective},
                                                               {"In msg nelems", Key::kElements},
                                                               {"dtype", Key::kElementType},
                                                               {"Process Group Name", Key::kGroup},
                                                               {"Process Group Ranks", Key::kGroupRanks}};
  const auto found = kKeys.find(name);
  return found == kKeys.end() ? Key::kOther : found->second;
}

/// Callee of nlohmann's parser, value by value. Only the event that is being read is held as text.
class Handler : public nlohmann::json_sax<json> {
 public:
  explicit Handler(TraceText& text) : text_(text) { trace_.file = text.name(); }

  KinetoTrace take() {
    if (!has_events_) refuse("has no list of events (traceEvents)");
    for (Event& event : trace_.events) {
      if (__builtin_add_overflow(event.begin_ns, base_ns_, &event.begin_ns) ||
          __builtin_add_overflow(event.end_ns, base_ns_, &event.end_ns))
        refuse("has times that none can be");
    }
    // An event that holds others comes before them.
    std::ranges::sort(trace_.events, [](const Event& a, const Event& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    return std::move(trace_);
  }

  bool null() override {
    return scalar(nullptr, [] {});
  }
  bool boolean(bool value) override {
    return scalar(value, [] {});
  }
  bool number_integer(int64_t value) override {
    return scalar(value, [&] { number(static_cast<double>(value), value); });
  }
  bool number_unsigned(uint64_t value) override {
    const auto whole = static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
    return scalar(value, [&] { number(static_cast<double>(value), whole); });
  }
  bool number_float(double value, const std::string& /*text*/) override {
    return scalar(value, [&] { number(value, -1); });
  }
  bool string(std::string& value) override {
    return scalar(value, [&] { text(value); });
  }
  bool binary(json::binary_t& /*value*/) override { return true; }

  bool start_object(size_t /*size*/) override {
    ++depth_;
    if (metadata_ != Top::kOther) return add(json::object(), true);
    if (depth_ == 2 && top_is_metadata()) return begin_metadata(json::object());
    if (depth_ == 3 && top_ == Top::kEvents) event_ = {};
    in_arguments_ = in_arguments_ || (depth_ == 4 && top_ == Top::kEvents && key_ == Key::kArguments);
    return true;
  }
  bool end_object() override {
    if (metadata_ != Top::kOther) {
      close();
    } else if (depth_ == 3 && top_ == Top::kEvents) {
      finish_event();
    } else if (depth_ == 4) {
      in_arguments_ = false;
    }
    --depth_;
    return true;
  }
  bool start_array(size_t /*size*/) override {
    // A bare list of events: Chrome's format has it, and the first profiler wrote it.
    if (depth_ == 0) {
      ++depth_;
      top_ = Top::kEvents;
      is_list_ = true;
    }
    ++depth_;
    if (metadata_ != Top::kOther) return add(json::array(), true);
    if (depth_ == 2 && top_is_metadata()) return begin_metadata(json::array());
    if (depth_ == 2 && top_ == Top::kEvents) has_events_ = true;
    if (in_arguments_) begin_list();
    return true;
  }
  bool end_array() override {
    if (metadata_ != Top::kOther) {
      close();
    } else if (in_arguments_) {
      end_list();
    }
    --depth_;
    if (depth_ == 1 && is_list_) --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (metadata_ != Top::kOther) {
      builder_.key(name);
    } else if (depth_ == 1) {
      top_ = top_of(name);
    } else if (depth_ == 3 || (depth_ == 4 && in_arguments_)) {
      key_ = key_of(name);
    }
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (text_.position() == 0) throw Error(fmt::format("'{}' is empty", text_.name()), kAdvice);
    if (text_.ended()) {
      throw Error(fmt::format("'{}' is cut off after {} bytes: JSON that does not end", text_.name(),
                              text_.position()),
                  "Copy it again; a profiler that was ended while it wrote leaves such a file.");
    }
    throw Error(fmt::format("'{}' is damaged at byte {}: {}", text_.name(), text_.position(),
                            error.id == 406 ? "a number that is too large to be one" : "no JSON"),
                kAdvice);
  }

 private:
  enum class Top { kOther, kEvents, kDistributed, kDevices, kBase };
  struct RawEvent {
    std::string phase, category, name, type;
    int64_t process = 0, thread = 0;
    std::optional<double> begin_us;
    /// Microseconds without a fraction, which a double might round.
    int64_t begin_whole_us = -1;
    double duration_us = 0;
    int64_t correlation = -1;
    Details details;
    int64_t product = -1;
    int argument = -1;
    /// Of the first two arguments: the size of the first tensor, -1: none; the elements of all.
    std::array<int64_t, 2> first_sizes = {-1, -1};
    std::array<int64_t, 2> elements = {0, 0};
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(fmt::format("'{}' {}", text_.name(), what), kAdvice);
  }

  static Top top_of(std::string_view name) {
    if (name == "traceEvents") return Top::kEvents;
    if (name == "distributedInfo") return Top::kDistributed;
    if (name == "deviceProperties") return Top::kDevices;
    return name == "baseTimeNanoseconds" ? Top::kBase : Top::kOther;
  }

  bool top_is_metadata() const { return top_ == Top::kDistributed || top_ == Top::kDevices; }
  bool begin_metadata(json value) {
    metadata_ = top_;
    builder_.begin();
    return add(std::move(value), true);
  }
  bool add(json value, bool container) {
    if (!builder_.add(std::move(value), container)) refuse("has too many metadata to be a trace");
    return true;
  }
  void close() {
    if (!builder_.close()) return;
    if (metadata_ == Top::kDistributed) read_distributed(builder_.value(), trace_);
    if (metadata_ == Top::kDevices) read_devices(builder_.value(), trace_);
    metadata_ = Top::kOther;
  }

  template <typename Value, typename Use>
  bool scalar(const Value& value, const Use& use) {
    if (metadata_ != Top::kOther) return add(json(value), false);
    if (depth_ == 0) refuse("is a single value, not a trace of PyTorch's profiler");
    use();
    return true;
  }

  void number(double value, int64_t whole) {
    if (depth_ == 1 && top_ == Top::kBase) base_ns_ = base_of(value, whole);
    if (top_ != Top::kEvents) return;
    if (depth_ == 3) {
      if (key_ == Key::kBegin) {
        event_.begin_us = value;
        event_.begin_whole_us = whole;
      }
      if (key_ == Key::kDuration) event_.duration_us = value;
      if (key_ == Key::kProcess) event_.process = whole;
      if (key_ == Key::kThread) event_.thread = whole;
    } else if (in_arguments_) {
      argument_number(whole);
    }
  }
  void argument_number(int64_t whole) {
    if (key_ == Key::kDimensions && (event_.argument == 0 || event_.argument == 1) && depth_ > 5) {
      const int64_t size = std::max<int64_t>(whole, 0);
      int64_t& first_size = event_.first_sizes[static_cast<size_t>(event_.argument)];
      if (first_size < 0) first_size = size;
      if (__builtin_mul_overflow(std::abs(event_.product), size, &event_.product)) event_.product = 0;
    }
    if (depth_ > 4) return;
    if (key_ == Key::kCorrelation) event_.correlation = whole;
    if (key_ == Key::kElements) event_.details.elements = std::max<int64_t>(whole, 0);
  }

  void text(const std::string& value) {
    if (top_ != Top::kEvents) return;
    if (depth_ == 3) {
      if (key_ == Key::kPhase) event_.phase = value;
      if (key_ == Key::kCategory) event_.category = value;
      if (key_ == Key::kName) event_.name = value;
      // Old versions wrote numbers as text; threads of the profiler's own events have names.
      if (key_ == Key::kThread) event_.thread = thread_in(value);
    } else if (in_arguments_) {
      if (key_ == Key::kType && event_.type.empty()) event_.type = value;
      if (key_ == Key::kElementType) event_.details.element_bytes = bytes_of_type(value);
      if (key_ == Key::kCollective) event_.details.collective = plain_text(value);
      if (key_ == Key::kGroup) event_.details.group = plain_text(value);
      if (key_ == Key::kGroupRanks) event_.details.group_ranks = plain_text(value);
    }
  }

  /// 7 in "7" and "stream 7"; -1 in a name.
  static int64_t thread_in(const std::string& value) {
    int64_t thread = -1;
    const size_t at = value.find_first_of("0123456789");
    if (at != std::string::npos) std::from_chars(value.data() + at, value.data() + value.size(), thread);
    return thread;
  }

  // Dimensions are a list of arguments, each a list of sizes, or for a list of tensors of lists of sizes.
  void begin_list() {
    if (key_ != Key::kDimensions) return;
    if (depth_ == 6) ++event_.argument;
    if (depth_ >= 6) event_.product = -1;
  }
  void end_list() {
    if (key_ != Key::kDimensions || depth_ < 6 || event_.argument > 1 || event_.product < 0) return;
    int64_t& elements = event_.elements[static_cast<size_t>(event_.argument)];
    if (__builtin_add_overflow(elements, event_.product, &elements)) elements = 0;
    event_.product = -1;
  }

  int64_t base_of(double value, int64_t whole) const {
    if (!(value >= 0) || value > 1e3 * kMostMicroseconds || whole < 0) refuse("has a base time that is none");
    return whole;
  }
  [[noreturn]] void refuse_time(double microseconds) const {
    throw Error(fmt::format("'{}' is damaged before byte {}: an event at {} us", text_.name(),
                            text_.position(), microseconds),
                kAdvice);
  }
  int64_t nanoseconds(double microseconds, int64_t whole) const {
    if (!(std::abs(microseconds) <= kMostMicroseconds)) refuse_time(microseconds);
    return whole >= 0 ? whole * 1000 : std::llround(microseconds * 1000);
  }

  void finish_event() {
    if (event_.phase != "X" || !event_.begin_us) return;
    const int64_t begin_ns = nanoseconds(*event_.begin_us, event_.begin_whole_us);
    // Old versions wrote -1 for what had not ended.
    int64_t end_ns = 0;
    if (__builtin_add_overflow(begin_ns, nanoseconds(std::max(0.0, event_.duration_us), -1), &end_ns))
      refuse_time(event_.duration_us);
    const auto kind = kind_of(event_.category, event_.name);
    if (!kind) {
      if (!explains_nothing(event_.category) && trace_.unknown_categories.size() < kMostUnknown)
        trace_.unknown_categories.insert(plain_text(event_.category));
      return;
    }
    const auto [name, is_new] = names_.try_emplace(event_.name, static_cast<uint32_t>(trace_.names.size()));
    kept_bytes_ += sizeof(Event);
    if (is_new) {
      trace_.names.push_back(plain_text(event_.name));
      kept_bytes_ += 2 * (event_.name.size() + kName);
      const std::string_view library = unknown_library(event_.name);
      if (!library.empty() && trace_.unknown_libraries.size() < kMostUnknown)
        trace_.unknown_libraries.emplace(library);
    }
    const auto track = static_cast<uint32_t>(
        tracks_.try_emplace({event_.process, event_.thread}, static_cast<uint32_t>(tracks_.size()))
            .first->second);
    Event event{begin_ns, end_ns, event_.correlation,         name->second, track,
                -1,       *kind,  role_of(*kind, event_.name)};
    // An embedding's first argument are its weights.
    const size_t input = event_.name == "aten::embedding" ? 1 : 0;
    event_.details.batch = std::max<int64_t>(0, event_.first_sizes[input]);
    if (event_.details.elements == 0) event_.details.elements = event_.elements[input];
    if (event_.details.element_bytes == 0) event_.details.element_bytes = bytes_of_type(event_.type);
    const bool wanted = event.role != EventRole::kPlain && event.role != EventRole::kBackward &&
                        event.role != EventRole::kSynchronize;
    if (wanted && (event_.details.elements > 0 || !event_.details.collective.empty())) {
      event.details = static_cast<int32_t>(trace_.details.size());
      kept_bytes_ += sizeof(Details) + event_.details.group_ranks.size();
      trace_.details.push_back(std::move(event_.details));
    }
    trace_.events.push_back(event);
    if (kept_bytes_ < kMostKept) return;
    const int percent = std::max(1, static_cast<int>(100 * text_.share_read()));
    throw Error(
        fmt::format("'{}' has more events than fit into {} MiB: {} are in the first {} % of it", text_.name(),
                    kMostKept >> 20, trace_.events.size(), percent),
        fmt::format("Record at most {} % as many steps: lockstep record --steps FIRST:LAST.", percent));
  }

  /// Of a name in two tables, roughly.
  static constexpr size_t kName = 80;

  TraceText& text_;
  KinetoTrace trace_;
  size_t kept_bytes_ = 0;
  int depth_ = 0;
  Top top_ = Top::kOther;
  /// The metadata that are being built.
  Top metadata_ = Top::kOther;
  Key key_ = Key::kOther;
  bool in_arguments_ = false;
  bool has_events_ = false;
  bool is_list_ = false;
  int64_t base_ns_ = 0;
  RawEvent event_;
  ValueBuilder builder_;
  std::unordered_map<std::string, uint32_t> names_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> tracks_;
};

KinetoTrace parse(TraceText text) {
  Handler handler(text);
  json::sax_parse(text.begin(), text.end(), &handler);
  return handler.take();
}

}  // namespace

KinetoTrace read_kineto_trace(const std::filesystem::path& path, const std::string& inside) {
  return parse(TraceText::open(path, inside));
}

KinetoTrace parse_kineto_trace(std::string_view text, const std::string& name) {
  return parse(TraceText(text, name));
}

void check_readable(const KinetoTrace& trace) {
  const auto has = [&](auto&& is) { return std::ranges::any_of(trace.events, is); };
  const bool kernels = has([](const Event& each) { return each.kind == EventKind::kKernel; });
  std::set<std::string> unknown = trace.unknown_libraries;
  for (const std::string& category : trace.unknown_categories) {
    // Kernels may have their usual category, and be launched by what is not read.
    if (!kernels || category.ends_with("_runtime") || category.ends_with("_driver")) unknown.insert(category);
  }
  if (!unknown.empty()) {
    throw Error(
        fmt::format("'{}' is of a device or a library of collectives that is not read ({}), so its "
                    "times would be the host's only",
                    trace.file, fmt::join(unknown, ", ")),
        "Traces of CPUs and of NVIDIA's and AMD's GPUs are read, with Gloo, MPI, UCC, NCCL and RCCL.");
  }
  const bool launches = has([&](const Event& each) {
    const std::string& name = trace.name_of(each);
    return (each.kind == EventKind::kLaunch && name.find("Launch") != std::string::npos) ||
           (each.role == EventRole::kCollective && name.starts_with("nccl:"));
  });
  if (!kernels && (launches || trace.backend == "nccl")) {
    throw Error(
        fmt::format("'{}' is of a job on GPUs and was recorded without CUDA activity: its times are the "
                    "host's, and its communication is not known",
                    trace.file),
        "Record with ProfilerActivity.CUDA, too.");
  }
  if (kernels && !has([](const Event& each) { return each.kind == EventKind::kOperator; })) {
    throw Error(fmt::format("'{}' has kernels, but no operators of the host", trace.file),
                "Record with ProfilerActivity.CPU, too.");
  }
}

}  // namespace lockstep::recordings
