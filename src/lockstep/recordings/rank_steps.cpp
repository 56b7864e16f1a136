#include "lockstep/recordings/rank_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "lockstep/measure/stretches.h"

namespace lockstep::recordings {
namespace {

/// On a CPU, Python's time between two operations is no waiting.
constexpr double kBetweenOperations = 1e-4;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Kernels that compute, by the time of their launch on the host.
class DeviceTimeline {
 public:
  DeviceTimeline(const KinetoTrace& trace, int64_t origin_ns) {
    const Launches launches(trace);
    for (const Event& event : trace.events) {
      if (event.kind != EventKind::kKernel && event.kind != EventKind::kCopy) continue;
      if (event.role == EventRole::kCommunication) continue;
      const Event* launch = launches.of(event);
      const double begin_s = seconds_since(origin_ns, event.begin_ns);
      kernels_.push_back({launch == nullptr ? begin_s : seconds_since(origin_ns, launch->begin_ns), begin_s,
                          seconds_since(origin_ns, event.end_ns)});
    }
    std::ranges::sort(kernels_, {}, &Kernel::launched_s);
    double end_s = kNever;
    for (Kernel& kernel : kernels_) kernel.all_end_s = end_s = std::max(end_s, kernel.end_s);
  }

  bool empty() const { return kernels_.empty(); }

  /// The last end of the kernels that were launched in [from_s, to_s) on the host; kNever: there is none.
  double last_end_s(double from_s, double to_s) const {
    double last_s = kNever;
    for (auto kernel = first_from(from_s); kernel != kernels_.end() && kernel->launched_s < to_s; ++kernel)
      last_s = std::max(last_s, kernel->end_s);
    return last_s;
  }
  /// The same of all that were launched before `host_s`.
  double last_end_before_s(double host_s) const {
    const auto after = first_from(host_s);
    return after == kernels_.begin() ? kNever : (after - 1)->all_end_s;
  }
  /// The first begin of those; infinity: there is none.
  double first_begin_s(double from_s, double to_s) const {
    double first_s = -kNever;
    for (auto kernel = first_from(from_s); kernel != kernels_.end() && kernel->launched_s < to_s; ++kernel)
      first_s = std::min(first_s, kernel->begin_s);
    return first_s;
  }

 private:
  struct Kernel {
    double launched_s, begin_s, end_s;
    /// The last end of this one and all that were launched before.
    double all_end_s = kNever;
  };
  std::vector<Kernel>::const_iterator first_from(double host_s) const {
    return std::ranges::lower_bound(kernels_, host_s, {}, &Kernel::launched_s);
  }
  std::vector<Kernel> kernels_;
};

/// Whether an event is an operation of the training's own, and no collective's.
bool is_work(const Event& event) {
  return event.kind == EventKind::kOperator && event.role != EventRole::kIssue &&
         event.role != EventRole::kNote && event.role != EventRole::kCollective;
}

/// When the rank computes: kernels on a device, else operations on the threads that are no backend's.
std::vector<Stretch> computing(const KinetoTrace& trace, int64_t origin_ns, bool on_device) {
  std::set<uint32_t> backends;
  for (const Event& event : trace.events) {
    if (event.role == EventRole::kCollective) backends.insert(event.track);
  }
  std::vector<Stretch> stretches;
  for (const Event& event : trace.events) {
    const bool works = is_work(event) && !backends.contains(event.track);
    const bool kernel = event.kind == EventKind::kKernel && event.role != EventRole::kCommunication;
    if (on_device ? kernel : works)
      stretches.push_back({seconds_since(origin_ns, event.begin_ns), seconds_since(origin_ns, event.end_ns)});
  }
  return merged(std::move(stretches), on_device ? 0 : kBetweenOperations);
}

void append(std::vector<Stretch>& to, const std::vector<Stretch>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

class Stamper {
 public:
  Stamper(const KinetoTrace& trace, int64_t origin_ns)
      : trace_(trace),
        origin_ns_(origin_ns),
        device_(trace, origin_ns),
        collectives_(collectives_of(trace, origin_ns)) {
    busy_ = computing(trace, origin_ns, on_device());
    std::vector<Stretch> communication;
    for (Collective& each : collectives_) {
      communication.push_back({each.begin_s, each.ended_s});
      // A kernel of NCCL waits for what was launched before it, then for its stream.
      const double ready_s = std::max(each.host_s, device_.last_end_before_s(each.host_s));
      if (on_device()) each.issued_s = std::min(each.begin_s, ready_s);
    }
    communication_ = merged(std::move(communication));
    exposed_ = without(communication_, busy_);
    if (!on_device())
      std::erase_if(exposed_,
                    [](const Stretch& each) { return each.end_s - each.begin_s < kBetweenOperations; });
  }

  RankSteps stamp(int64_t past) {
    const TraceMarks marks = find_steps(trace_, origin_ns_);
    result_.evaluation_steps = marks.evaluation_steps;
    result_.incomplete_steps = marks.incomplete_steps;
    result_.work = work();
    std::map<size_t, int> passes;
    for (const StepMarks& step : marks.steps) {
      if (step.index >= past) continue;
      ++passes[step.passes.size()];
      result_.batch = std::max(result_.batch, batch_of(step));
      add(step);
    }
    result_.passes = static_cast<int>(
        std::ranges::max_element(passes, {}, [](const auto& each) { return each.second; })->first);
    add_gradients(marks);
    return std::move(result_);
  }

 private:
  bool on_device() const { return !device_.empty(); }

  static int64_t batch_of(const StepMarks& step) {
    int64_t sum = 0;
    for (const Pass& pass : step.passes) sum += pass.batch;
    return sum;
  }

  results::RecordedWork work() const {
    results::RecordedWork work{.on_device = on_device()};
    work.window_s = seconds_since(trace_.events.front().begin_ns, last_end_ns());
    work.communication_s = total_s(communication_);
    work.exposed_s = total_s(exposed_);
    work.compute_s = total_s(busy_);
    std::set<uint32_t> threads;
    for (const Event& event : trace_.events) {
      if (is_work(event)) threads.insert(event.track);
      work.kernels += event.kind == EventKind::kKernel ? 1 : 0;
    }
    for (const Event& event : trace_.events) {
      if (event.role != EventRole::kSynchronize || !threads.contains(event.track)) continue;
      ++work.synchronizations;
      work.synchronized_s += seconds_since(event.begin_ns, event.end_ns);
    }
    return work;
  }
  int64_t last_end_ns() const { return std::ranges::max(trace_.events, {}, &Event::end_ns).end_ns; }

  void add(const StepMarks& marks) {
    measure::StepStamps step;
    step.begin_s = marks.begin_s;
    if (on_device()) {
      const double idle_s = device_.last_end_s(ended_host_s_, marks.begin_s);
      if (const double from_s = std::max(idle_s, ended_s_); from_s != kNever) step.begin_s = from_s;
    }
    double began_s = step.begin_s;
    const double update_s = marks.updates.empty() ? marks.updated_s : marks.updates.front().begin_s;
    for (const Pass& pass : marks.passes) {
      if (&pass != &marks.passes.front()) {
        // All-reduces of an earlier micro-batch, which no_sync() would leave out.
        const double all_s = last_collective_end_s(began_host_s_, pass.begin_s);
        step.backward_s = std::max(step.backward_s, on_device() ? all_s : std::min(all_s, pass.begin_s));
        append(step.communicating, within(exposed_, step.input_s, step.backward_s));
        step.add_earlier_micro_batch(began_s);
        began_s = step.backward_s;
      }
      set_pass(step, pass, began_s);
      began_host_s_ = pass.begin_s;
    }
    const double ended_s =
        last_collective_end_s(began_host_s_, marks.updates.size() == 1 ? update_s : marks.updated_s);
    const double applied_s =
        on_device() ? device_end_s(began_host_s_, marks.updated_s, step.backward_s) : marks.updated_s;
    step.applied_s = std::max(applied_s, step.backward_s);
    const double last_update_s = marks.updates.empty() ? marks.updated_s : marks.updates.back().begin_s;
    const double waits_until_s = on_device() ? step.applied_s : last_update_s;
    step.combined_s = std::clamp(ended_s, step.backward_s, std::max(step.backward_s, waits_until_s));
    if (!on_device()) {
      for (size_t i = 0; i + 1 < marks.updates.size(); ++i) step.applying.push_back(marks.updates[i]);
    }
    step.end_s = on_device() ? device_end_s(marks.updated_s, marks.end_s, step.applied_s)
                             : std::max(marks.end_s, step.applied_s);
    append(step.communicating, within(exposed_, began_s, step.backward_s));
    append(step.communicating, within(exposed_, step.combined_s, step.end_s));
    ended_s_ = step.end_s;
    ended_host_s_ = marks.end_s;
    add_collectives(step, marks);
  }

  /// Phases of one micro-batch that began at `began_s`.
  void set_pass(measure::StepStamps& step, const Pass& pass, double began_s) {
    if (!on_device()) {
      step.input_s = std::max(pass.input_s, began_s);
      step.forward_s = std::max(pass.forward_s, step.input_s);
      step.backward_s = std::max(pass.backward_s, step.forward_s);
      return;
    }
    // The device waits for the batch only where it has nothing left to do.
    const double first_s = device_.first_begin_s(pass.input_s, pass.backward_s);
    step.input_s = std::clamp(pass.input_s, began_s, std::max(began_s, first_s));
    step.forward_s = device_end_s(pass.input_s, pass.forward_s, step.input_s);
    step.backward_s = device_end_s(pass.forward_s, pass.backward_s, step.forward_s);
  }

  /// End of what was launched in [from_s, to_s) on the host, at least `least_s`.
  double device_end_s(double from_s, double to_s, double least_s) const {
    return std::max(least_s, device_.last_end_s(from_s, to_s));
  }

  /// Of the collectives that were issued in [from_s, to_s) on the host.
  double last_collective_end_s(double from_s, double to_s) const {
    double last_s = kNever;
    const auto first = std::ranges::lower_bound(collectives_, from_s, {}, &Collective::host_s);
    for (auto each = first; each != collectives_.end() && each->host_s < to_s; ++each)
      last_s = std::max(last_s, each->ended_s);
    return last_s;
  }

  void add_collectives(measure::StepStamps step, const StepMarks& marks) {
    std::vector<Collective>& own = result_.collectives.emplace_back();
    const auto first = std::ranges::lower_bound(collectives_, marks.begin_s, {}, &Collective::host_s);
    for (auto each = first; each != collectives_.end() && each->host_s < marks.end_s; ++each)
      own.push_back(*each);
    result_.numbers.push_back(marks.number);
    result_.indexes.push_back(marks.index);
    result_.stamps.steps.push_back(std::move(step));
  }

  /// Means over the steps with the most common number of gradients, of their last passes.
  void add_gradients(const TraceMarks& marks) {
    std::vector<const Event*> all;
    for (const Event& event : trace_.events) {
      if (event.role == EventRole::kGradient && event.details >= 0) all.push_back(&event);
    }
    std::vector<std::vector<results::RecordedGradient>> by_step;
    std::map<size_t, int> counts;
    for (const StepMarks& step : marks.steps) {
      auto& gradients = by_step.emplace_back();
      const Pass& pass = step.passes.back();
      measure::StepStamps stamps;
      set_pass(stamps, pass, kNever);
      const double forward_s = on_device() ? stamps.forward_s : pass.forward_s;
      double from_host_s = pass.forward_s, ended_s = forward_s;
      const auto seconds = [&](int64_t time_ns) { return seconds_since(origin_ns_, time_ns); };
      const auto first = std::ranges::lower_bound(
          all, pass.forward_s, {}, [&](const Event* event) { return seconds(event->begin_ns); });
      for (auto event = first; event != all.end() && seconds((*event)->end_ns) <= pass.backward_s; ++event) {
        const double host_s = seconds((*event)->end_ns);
        ended_s = on_device() ? device_end_s(std::exchange(from_host_s, host_s), host_s, ended_s) : host_s;
        gradients.push_back({trace_.details_of(**event)->elements, ended_s - forward_s});
      }
      ++counts[gradients.size()];
    }
    const size_t usual =
        std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
    result_.gradients.resize(usual);
    for (const auto& gradients : by_step) {
      if (gradients.size() != usual) continue;
      for (size_t i = 0; i < usual; ++i) {
        result_.gradients[i].elements = gradients[i].elements;
        result_.gradients[i].after_backward_s += gradients[i].after_backward_s / counts[usual];
      }
    }
  }

  const KinetoTrace& trace_;
  int64_t origin_ns_;
  DeviceTimeline device_;
  std::vector<Collective> collectives_;
  std::vector<Stretch> busy_, communication_, exposed_;
  /// Begin of the micro-batch on the host; the end of the step before, and that on the host.
  double began_host_s_ = kNever;
  double ended_s_ = kNever;
  double ended_host_s_ = kNever;
  RankSteps result_;
};

}  // namespace

RankSteps stamp_steps(const KinetoTrace& trace, int64_t origin_ns, int64_t past) {
  return Stamper(trace, origin_ns).stamp(past);
}

std::vector<measure::KernelSpan> events_within(const std::vector<measure::StepStamps>& steps,
                                               const KinetoTrace& trace, int64_t origin_ns, size_t most) {
  std::vector<measure::KernelSpan> spans;
  for (const Event& event : trace.events) {
    const double begin_s = seconds_since(origin_ns, event.begin_ns);
    if (begin_s < steps.front().begin_s) continue;
    if (begin_s >= steps.back().end_s || spans.size() == most) break;
    spans.push_back({trace.name_of(event), begin_s, seconds_since(origin_ns, event.end_ns), event.track});
  }
  return spans;
}

}  // namespace lockstep::recordings
