#include "lockstep/recordings/rank_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/measure/phases.h"
#include "lockstep/measure/series.h"
#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {
namespace {

using measure::StepPhase;

/// An event and those of its details that another event may have in its place.
struct Described {
  std::string kind, group, group_ranks;
  int64_t bytes = 0;
  int element_bytes = 0;
};

bool is_sparse(const KinetoTrace& trace, const Event& event) {
  return trace.name_of(event).find("sparse") != std::string::npos;
}

Described described(const KinetoTrace& trace, const Event& event) {
  Described found{.kind = collective_kind(trace.name_of(event)), .group = {}, .group_ranks = {}};
  const Details* details = trace.details_of(event);
  if (details == nullptr) return found;
  if (!details->collective.empty()) found.kind = collective_kind(details->collective);
  found.group = details->group;
  found.group_ranks = details->group_ranks;
  found.element_bytes = details->element_bytes;
  // The sizes of a sparse tensor are those of the dense one that it stands for.
  if (is_sparse(trace, event)) return found;
  int64_t bytes = 0;
  if (!__builtin_mul_overflow(details->elements, static_cast<int64_t>(details->element_bytes), &bytes))
    found.bytes = bytes;
  return found;
}

/// A lone send or receive kernel is also how NCCL exchanges between all.
bool says_less(const std::string& kind) {
  return kind == "other" || kind == "send-receive";
}

/// The innermost event of `events`, in order of begin, that holds `time_ns` on the track.
const Event* holder(const std::vector<const Event*>& events, uint32_t track, int64_t time_ns) {
  auto after =
      std::ranges::upper_bound(events, time_ns, {}, [](const Event* event) { return event->begin_ns; });
  // Annotations nest a few deep at most.
  for (int looked = 0; after != events.begin() && looked < 16; ++looked) {
    const Event* event = *--after;
    if (event->track == track && event->end_ns >= time_ns) return event;
  }
  return nullptr;
}

/// The first issue that has no collective yet, of the same kind and size, and is not later than its begin.
const Event* take_issue(const KinetoTrace& trace, std::vector<const Event*>& issues,
                        const Event& collective) {
  const Described wanted = described(trace, collective);
  for (const Event*& issue : issues) {
    if (issue == nullptr) continue;
    if (issue->begin_ns > collective.end_ns) break;
    const Described found = described(trace, *issue);
    if (found.kind != wanted.kind) continue;
    if (found.bytes > 0 && wanted.bytes > 0 &&
        trace.details_of(*issue)->elements != trace.details_of(collective)->elements)
      continue;
    return std::exchange(issue, nullptr);
  }
  return nullptr;
}

class Lanes {
 public:
  int of(uint32_t track) {
    return numbers_.try_emplace(track, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<uint32_t, int> numbers_;
};

/// On a CPU, Python's time between two operations is no waiting.
constexpr double kBetweenOperations = 1e-4;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Kernels that compute and copies, by the time of their launch on the host.
class DeviceTimeline {
 public:
  DeviceTimeline(const KinetoTrace& trace, const Launches& launches, int64_t origin_ns) {
    for (const Event& event : trace.events) {
      if (event.kind != EventKind::kKernel && event.kind != EventKind::kCopy) continue;
      if (event.role == EventRole::kCommunication) continue;
      kernels_.push_back({seconds_since(origin_ns, launches.time_ns(event)),
                          seconds_since(origin_ns, event.begin_ns), seconds_since(origin_ns, event.end_ns)});
    }
    std::ranges::stable_sort(kernels_, {}, &Kernel::launched_s);
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
  /// The same of all that were launched before `host_s`, even before the trace.
  double last_end_before_s(double host_s) const {
    const auto after = first_from(host_s);
    return after == kernels_.begin() ? kNever : (after - 1)->all_end_s;
  }
  /// The first begin of those that were launched in [from_s, to_s) on the host; infinity: there is none.
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

/// Operations in which a collective is issued. They may wait for it, so they are no computing; what they call
/// is.
std::set<const Event*> issuing(const KinetoTrace& trace) {
  std::map<uint32_t, std::vector<const Event*>> open;
  std::set<const Event*> found;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::kOperator) continue;
    std::vector<const Event*>& around = open[event.track];
    while (!around.empty() && around.back()->end_ns <= event.begin_ns) around.pop_back();
    if (event.role == EventRole::kIssue) found.insert(around.begin(), around.end());
    around.push_back(&event);
  }
  return found;
}

/// When the rank computes: kernels on a device, else operations on the threads that are no backend's.
std::vector<Stretch> computing(const KinetoTrace& trace, int64_t origin_ns, bool on_device) {
  std::set<uint32_t> backends;
  for (const Event& event : trace.events) {
    if (event.role == EventRole::kCollective) backends.insert(event.track);
  }
  const std::set<const Event*> waiting = on_device ? std::set<const Event*>() : issuing(trace);
  std::vector<Stretch> stretches;
  for (const Event& event : trace.events) {
    const bool works = is_work(event) && !backends.contains(event.track) && !waiting.contains(&event);
    const bool kernel = event.kind == EventKind::kKernel && event.role != EventRole::kCommunication;
    if (on_device ? kernel : works)
      stretches.push_back({seconds_since(origin_ns, event.begin_ns), seconds_since(origin_ns, event.end_ns)});
  }
  return merged(std::move(stretches));
}

/// Without gaps that are Python's between two operations: short ones in which no collective ends.
std::vector<Stretch> bridged(const std::vector<Stretch>& busy, const std::vector<Collective>& collectives) {
  std::vector<double> ends_s;
  for (const Collective& each : collectives) ends_s.push_back(each.ended_s);
  std::ranges::sort(ends_s);
  std::vector<Stretch> all;
  for (const Stretch& each : busy) {
    const bool near = !all.empty() && each.begin_s <= all.back().end_s + kBetweenOperations;
    const auto ended = near ? std::ranges::lower_bound(ends_s, all.back().end_s) : ends_s.end();
    if (near && (ended == ends_s.end() || *ended > each.begin_s)) {
      all.back().end_s = each.end_s;
    } else {
      all.push_back(each);
    }
  }
  return all;
}

/// When threads that compute wait for the device: in calls that synchronize, and in copies that do not return
/// before they are done, until these begin.
std::vector<Stretch> synchronizing(const KinetoTrace& trace, const Launches& launches, int64_t origin_ns) {
  std::set<uint32_t> threads;
  std::vector<Stretch> calls;
  for (const Event& event : trace.events) {
    if (is_work(event)) threads.insert(event.track);
  }
  const auto add = [&](const Event& call, int64_t end_ns) {
    if (threads.contains(call.track) && end_ns > call.begin_ns)
      calls.push_back({seconds_since(origin_ns, call.begin_ns), seconds_since(origin_ns, end_ns)});
  };
  for (const Event& event : trace.events) {
    if (event.role == EventRole::kSynchronize) add(event, event.end_ns);
    const Event* call = event.kind == EventKind::kCopy ? launches.of(event) : nullptr;
    if (call != nullptr && call->end_ns >= event.end_ns) add(*call, event.begin_ns);
  }
  std::ranges::sort(calls, {}, &Stretch::begin_s);
  return calls;
}

/// A phase of a step until the host was through it.
struct HostPhase {
  StepPhase phase = StepPhase::kOther;
  double end_s = 0;
};

std::vector<HostPhase> host_phases(const StepMarks& step) {
  std::vector<HostPhase> phases;
  double at_s = step.begin_s;
  const auto add = [&](StepPhase phase, double end_s) {
    if (end_s > at_s) phases.push_back({phase, at_s = end_s});
  };
  auto update = step.updates.begin();
  const auto add_updates = [&](double before_s) {
    for (; update != step.updates.end() && update->begin_s < before_s; ++update) {
      add(step.passes.empty() ? StepPhase::kInput : StepPhase::kOther, update->begin_s);
      add(StepPhase::kOptimizer, update->end_s);
    }
  };
  for (const Pass& pass : step.passes) {
    add_updates(pass.input_s);
    add(StepPhase::kOther, pass.begin_s);
    add(StepPhase::kInput, pass.input_s);
    add(StepPhase::kForward, pass.forward_s);
    add(StepPhase::kBackward, pass.backward_s);
  }
  const bool updates = update != step.updates.end();
  if (updates) add(step.passes.empty() ? StepPhase::kInput : StepPhase::kOther, update->begin_s);
  // An optimizer that the trace does not name is all that follows.
  add(updates || step.updates.empty() ? StepPhase::kOptimizer : StepPhase::kOther, step.updated_s);
  add(StepPhase::kOther, step.end_s);
  return phases;
}

class Stamper {
 public:
  Stamper(const KinetoTrace& trace, int64_t origin_ns)
      : trace_(trace),
        origin_ns_(origin_ns),
        launches_(trace),
        device_(trace, launches_, origin_ns),
        collectives_(collectives_of(trace, launches_, origin_ns)),
        synchronizing_(synchronizing(trace, launches_, origin_ns)) {
    busy_ = computing(trace, origin_ns, on_device());
    std::vector<Stretch> communication;
    for (Collective& each : collectives_) {
      if (each.host_s != kNever) communication.push_back({each.begin_s, each.ended_s});
      // A kernel of NCCL waits for what was launched before it, then for its stream.
      const double ready_s = std::max(each.host_s, device_.last_end_before_s(each.host_s));
      if (on_device()) each.issued_s = std::min(each.begin_s, ready_s);
    }
    communication_ = merged(std::move(communication));
    exposed_ = without(communication_, on_device() ? busy_ : bridged(busy_, collectives_));
    for (const Event& event : trace.events) {
      if (event.kind == EventKind::kKernel)
        kernels_s_.push_back(seconds_since(origin_ns, launches_.time_ns(event)));
    }
    std::ranges::sort(kernels_s_);
  }

  RankSteps stamp(int64_t past) {
    const TraceMarks marks = find_steps(trace_, origin_ns_);
    result_.evaluation_steps = marks.evaluation_steps;
    result_.incomplete_steps = marks.incomplete_steps;
    result_.has_loader = marks.has_loader;
    std::map<int, int> passes;
    std::map<int64_t, int> samples;
    double ended_host_s = kNever;
    for (const StepMarks& step : marks.steps) {
      if (step.index >= past) continue;
      ++passes[step.batches];
      ++samples[step.samples];
      add(step, step.begin_s == ended_host_s);
      ended_host_s = step.end_s;
    }
    const auto most = [](const auto& counts) {
      return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
    };
    if (!passes.empty()) {
      result_.passes = most(passes);
      result_.batch = most(samples);
      double sum = 0, steps = 0;
      for (const auto& [of_step, count] : samples) {
        sum += static_cast<double>(of_step) * count;
        steps += count;
      }
      result_.mean_samples = samples.contains(0) ? 0 : sum / steps;
    }
    leave_out_first(marks.first_is_certain);
    add_gradients(marks);
    return std::move(result_);
  }

 private:
  bool on_device() const { return !device_.empty(); }

  /// `follows`: it begins where the step before it ended.
  void add(const StepMarks& marks, bool follows) {
    RankStep added{.number = marks.number, .index = marks.index, .input_elements = marks.input_elements};
    measure::StepStamps& step = added.stamps;
    step.begin_s = marks.begin_s;
    if (follows) {
      step.begin_s = ended_s_;
    } else {
      step.begin_s = std::max(marks.begin_s, device_.last_end_before_s(marks.begin_s));
    }
    std::vector<measure::PhaseStretch> phases;
    double at_s = step.begin_s, host_s = marks.begin_s;
    for (const HostPhase& each : host_phases(marks)) {
      // It ends when the host is through it, and the device with what was launched in it; clocks of host and
      // device may differ, but what follows has not begun.
      const double through_s = std::min(each.end_s, device_.first_begin_s(each.end_s, marks.end_s));
      const double end_s = std::max({at_s, through_s, device_.last_end_s(host_s, each.end_s)});
      if (end_s > at_s) phases.push_back({each.phase, at_s, end_s});
      at_s = end_s;
      host_s = each.end_s;
    }
    step.end_s = ended_s_ = at_s;
    for (const measure::PhaseStretch& each : phases) add_cut(step.phases, each);
    if (step.phases.empty()) return;
    added.work = work_of(step, marks);
    const auto first = std::ranges::lower_bound(collectives_, marks.begin_s, {}, &Collective::host_s);
    for (auto each = first; each != collectives_.end() && each->host_s < marks.end_s; ++each) {
      added.collectives.push_back(*each);
      // The thread of Gloo may write the end when the update that waits for it has begun.
      const double update_s = marks.updates.empty() ? marks.updated_s : marks.updates.back().begin_s;
      if (!on_device() && each->kind == "all-reduce" && each->host_s < update_s)
        added.collectives.back().ended_s = std::max(each->begin_s, std::min(each->ended_s, update_s));
    }
    result_.steps.push_back(std::move(added));
  }

  /// Adds a phase without the stretches of exposed communication in it, and those.
  void add_cut(std::vector<measure::PhaseStretch>& to, const measure::PhaseStretch& phase) const {
    double at_s = phase.begin_s;
    for (const Stretch& exposed : within(exposed_, phase.begin_s, phase.end_s)) {
      if (exposed.begin_s > at_s) to.push_back({phase.phase, at_s, exposed.begin_s});
      to.push_back({StepPhase::kExposed, exposed.begin_s, at_s = exposed.end_s});
    }
    if (phase.end_s > at_s) to.push_back({phase.phase, at_s, phase.end_s});
  }

  results::RecordedWork work_of(const measure::StepStamps& step, const StepMarks& marks) const {
    const auto in_step_s = [&](const std::vector<Stretch>& all) {
      return total_s(within(all, step.begin_s, step.end_s));
    };
    results::RecordedWork work{.on_device = on_device()};
    work.window_s = step.end_s - step.begin_s;
    work.communication_s = in_step_s(communication_);
    work.exposed_s = in_step_s(exposed_);
    work.compute_s = in_step_s(busy_);
    work.kernels = static_cast<int>(std::ranges::lower_bound(kernels_s_, marks.end_s) -
                                    std::ranges::lower_bound(kernels_s_, marks.begin_s));
    // What waits for a collective is that collective's.
    const auto first = std::ranges::lower_bound(synchronizing_, marks.begin_s, {}, &Stretch::begin_s);
    for (auto call = first; call != synchronizing_.end() && call->begin_s < marks.end_s; ++call) {
      ++work.synchronizations;
      work.synchronized_s += total_s(without({{call->begin_s, std::min(call->end_s, marks.end_s)}},
                                             within(communication_, call->begin_s, call->end_s)));
    }
    return work;
  }

  /// Leaves out a first step that began elsewhere, or that has the start of something in it.
  void leave_out_first(bool is_certain) {
    const std::vector<RankStep>& steps = result_.steps;
    if (steps.size() < 2) return;
    const auto time_s = [](const RankStep& step) { return step.stamps.end_s - step.stamps.begin_s; };
    std::vector<double> others_s;
    for (const RankStep& step : std::span(steps).subspan(1)) others_s.push_back(time_s(step));
    const double first_s = time_s(steps.front()), usual_s = measure::median_of(others_s);
    const auto [shortest_s, longest_s] = std::ranges::minmax(others_s);
    const double unusual_s = longest_s + std::max(0.1 * usual_s, longest_s - shortest_s);
    if (is_certain && (steps.size() < 4 || first_s <= unusual_s)) return;
    ++result_.incomplete_steps;
    result_.notes.push_back(
        is_certain ? fmt::format("The first step takes {:.4g} ms, the others {:.4g} ms: it has the start of "
                                 "something in it, and is left out.",
                                 1e3 * first_s, 1e3 * usual_s)
                   : "The first step is left out: nothing tells where it begins.");
    result_.steps.erase(result_.steps.begin());
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
      if (step.passes.empty()) continue;
      auto& gradients = by_step.emplace_back();
      const Pass& pass = step.passes.back();
      double from_host_s = pass.forward_s, ended_s = pass.forward_s;
      if (on_device()) ended_s = std::max(pass.input_s, device_.last_end_s(pass.input_s, pass.forward_s));
      const double forward_s = ended_s;
      const auto seconds = [&](int64_t time_ns) { return seconds_since(origin_ns_, time_ns); };
      const auto first = std::ranges::lower_bound(
          all, pass.forward_s, {}, [&](const Event* event) { return seconds(event->begin_ns); });
      for (auto event = first; event != all.end() && seconds((*event)->end_ns) <= pass.backward_s; ++event) {
        const double host_s = seconds((*event)->end_ns);
        const double from_s = std::exchange(from_host_s, host_s);
        ended_s = on_device() ? std::max(ended_s, device_.last_end_s(from_s, host_s)) : host_s;
        gradients.push_back({trace_.details_of(**event)->elements, ended_s - forward_s});
      }
      ++counts[gradients.size()];
    }
    if (counts.empty()) return;
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
  Launches launches_;
  DeviceTimeline device_;
  std::vector<Collective> collectives_;
  std::vector<Stretch> synchronizing_, busy_, communication_, exposed_;
  /// Launches of all kernels on the host, in order.
  std::vector<double> kernels_s_;
  /// The step before.
  double ended_s_ = kNever;
  RankSteps result_;
};

}  // namespace

Launches::Launches(const KinetoTrace& trace) : trace_(trace) {
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.kind == EventKind::kLaunch && event.correlation >= 0)
      by_correlation_.emplace_back(event.correlation, i);
  }
  std::ranges::sort(by_correlation_);

  time_ns_.resize(trace.events.size());
  const auto is_work = [](const Event& event) {
    return event.kind == EventKind::kKernel || event.kind == EventKind::kCopy;
  };
  std::set<uint32_t> launched;
  const Event* first = nullptr;
  for (const Event& event : trace.events) {
    if (!is_work(event) || of(event) == nullptr) continue;
    launched.insert(event.track);
    if (first == nullptr) first = &event;
  }
  std::map<uint32_t, int64_t> before_ns;
  for (const Event& event : trace.events) {
    if (!is_work(event)) continue;
    int64_t& time_ns = time_ns_[static_cast<size_t>(&event - trace.events.data())];
    const auto last = before_ns.find(event.track);
    if (const Event* launch = of(event)) {
      time_ns = before_ns[event.track] = launch->begin_ns;
    } else if (last != before_ns.end()) {
      time_ns = last->second;
    } else if (first != nullptr && (launched.contains(event.track) || event.begin_ns < first->begin_ns)) {
      time_ns = kBefore;
    } else {
      time_ns = event.begin_ns;
    }
  }
}

const Event* Launches::of(const Event& work) const {
  const auto found =
      std::ranges::lower_bound(by_correlation_, work.correlation, {}, &std::pair<int64_t, size_t>::first);
  if (work.correlation < 0 || found == by_correlation_.end() || found->first != work.correlation)
    return nullptr;
  return &trace_.events[found->second];
}

std::vector<Collective> collectives_of(const KinetoTrace& trace, const Launches& launches,
                                       int64_t origin_ns) {
  std::vector<const Event*> on_host, on_device, issues, launching;
  for (const Event& event : trace.events) {
    if (event.role == EventRole::kCommunication) on_device.push_back(&event);
    if (event.role == EventRole::kIssue) issues.push_back(&event);
    if (event.role != EventRole::kCollective) continue;
    // NCCL's events on the host are launches.
    (trace.name_of(event).starts_with("nccl:") ? launching : on_host).push_back(&event);
  }
  const auto seconds = [&](int64_t time_ns) { return seconds_since(origin_ns, time_ns); };
  std::vector<Collective> all;
  Lanes lanes;
  for (const Event* event : on_host) {
    const Event* issue = take_issue(trace, issues, *event);
    Described what = described(trace, *event);
    if (issue != nullptr && what.bytes == 0 && !is_sparse(trace, *event)) {
      const Described more = described(trace, *issue);
      what.bytes = more.bytes;
      what.element_bytes = more.element_bytes;
    }
    const double issued_s =
        seconds(issue == nullptr ? event->begin_ns : std::min(issue->begin_ns, event->begin_ns));
    all.push_back({what.kind, what.group, what.group_ranks, what.bytes, what.element_bytes, issued_s,
                   issued_s, seconds(event->begin_ns), seconds(event->end_ns), lanes.of(event->track)});
  }
  for (const Event* event : on_device) {
    Described what = described(trace, *event);
    const Event* launch = launches.of(*event);
    const Event* annotation =
        launch == nullptr ? nullptr : holder(launching, launch->track, launch->begin_ns);
    if (annotation != nullptr) {
      const Described more = described(trace, *annotation);
      if (says_less(what.kind)) what.kind = more.kind;
      if (what.bytes == 0) {
        what.bytes = more.bytes;
        what.element_bytes = more.element_bytes;
      }
    }
    const double begin_s = seconds(event->begin_ns);
    all.push_back({what.kind, what.group, what.group_ranks, what.bytes, what.element_bytes,
                   seconds(launches.time_ns(*event)), begin_s, begin_s, seconds(event->end_ns),
                   lanes.of(event->track)});
  }
  std::ranges::stable_sort(all, {}, &Collective::host_s);
  // Where a job has one group, no event needs to name it.
  if (trace.groups.size() == 1) {
    for (Collective& each : all) {
      if (each.group.empty()) each.group = trace.groups.front().name;
      if (each.group_ranks.empty())
        each.group_ranks = fmt::format("[{}]", fmt::join(trace.groups.front().ranks, ", "));
    }
  }
  return all;
}

RankSteps stamp_steps(const KinetoTrace& trace, int64_t origin_ns, int64_t past) {
  return Stamper(trace, origin_ns).stamp(past);
}

std::vector<measure::KernelSpan> events_within(const std::vector<RankStep>& steps, const KinetoTrace& trace,
                                               int64_t origin_ns, size_t most) {
  std::vector<measure::KernelSpan> spans;
  for (const Event& event : trace.events) {
    const double begin_s = seconds_since(origin_ns, event.begin_ns);
    if (begin_s < steps.front().stamps.begin_s) continue;
    if (begin_s >= steps.back().stamps.end_s || spans.size() == most) break;
    spans.push_back({trace.name_of(event), begin_s, seconds_since(origin_ns, event.end_ns), event.track});
  }
  return spans;
}

}  // namespace lockstep::recordings
