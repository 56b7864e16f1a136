#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/rank_steps.h"

namespace lockstep::recordings {
namespace {

/// Events in order of begin with a position, for questions about stretches of time.
using Events = std::vector<const Event*>;

/// Those that begin in [begin_ns, end_ns).
std::pair<Events::const_iterator, Events::const_iterator> beginning_in(const Events& events, int64_t begin_ns,
                                                                       int64_t end_ns) {
  const auto begin_of = [](const Event* event) { return event->begin_ns; };
  const auto first = std::ranges::lower_bound(events, begin_ns, {}, begin_of);
  return {first, std::ranges::lower_bound(first, events.end(), end_ns, {}, begin_of)};
}

bool any_in(const Events& events, int64_t begin_ns, int64_t end_ns) {
  const auto [first, last] = beginning_in(events, begin_ns, end_ns);
  return first != last;
}

int64_t number_of(const std::string& profiler_step) {
  int64_t number = -1;
  const size_t at = profiler_step.find('#') + 1;
  std::from_chars(profiler_step.data() + at, profiler_step.data() + profiler_step.size(), number);
  return number;
}

/// Events of a role on the thread that trains, without those inside another of the same role.
Events outermost(const KinetoTrace& trace, EventRole role, std::optional<uint32_t> track) {
  Events all;
  for (const Event& event : trace.events) {
    if (event.role != role || (track && event.track != *track)) continue;
    if (all.empty() || event.begin_ns >= all.back()->end_ns) all.push_back(&event);
  }
  return all;
}

class StepFinder {
 public:
  StepFinder(const KinetoTrace& trace, int64_t origin_ns) : trace_(trace), origin_ns_(origin_ns) {
    for (const EventRole role : {EventRole::kStepEnd, EventRole::kOptimizer, EventRole::kProfilerStep}) {
      const Events all = outermost(trace, role, {});
      if (!all.empty() && !track_) track_ = all.front()->track;
    }
    if (!track_) {
      throw Error(
          fmt::format("'{}' has no steps: neither Optimizer.step nor ProfilerStep occurs in it", trace.file),
          "Record with torch.profiler while a torch.optim optimizer steps, or call the profiler's step().");
    }
    ends_ = outermost(trace, EventRole::kStepEnd, track_);
    updates_ = outermost(trace, EventRole::kOptimizer, track_);
    numbered_ = outermost(trace, EventRole::kProfilerStep, track_);
    loaders_ = outermost(trace, EventRole::kLoader, track_);
    int64_t outside_ns = INT64_MIN;
    for (const Event& event : trace.events) {
      const bool backward = event.role == EventRole::kBackward || event.role == EventRole::kGradient;
      if (backward) backward_.push_back(&event);
      if (event.track != *track_) continue;
      const bool operation = event.kind == EventKind::kOperator && !backward;
      if (operation || event.role == EventRole::kForward) operations_.push_back(&event);
      // Backward may repeat layers, and what is compiled may call others, as an optimizer does.
      const bool compiled = event.role == EventRole::kCompiled;
      const bool forward = compiled || event.role == EventRole::kLayer || event.role == EventRole::kForward;
      if (forward && event.begin_ns >= outside_ns) forwards_.push_back(&event);
      if (backward || compiled) outside_ns = std::max(outside_ns, event.end_ns);
    }
  }

  TraceMarks find() {
    // A loader that is asked now and then says nothing about batches.
    marks_.has_loader = 3 * loaders_.size() >= std::max({ends_.size(), updates_.size(), numbered_.size()}) &&
                        !loaders_.empty();
    mark_batches();
    if (!ends_.empty()) {
      add_marked();
    } else if (!updates_.empty()) {
      add_updates();
    } else {
      for (const Event* step : numbered_) add_step(step->begin_ns, step->end_ns, {}, true);
    }
    end_last();
    if (marks_.steps.empty()) {
      throw Error(fmt::format("'{}' has no complete step: {} incomplete, {} of evaluation", trace_.file,
                              marks_.incomplete_steps, marks_.evaluation_steps),
                  "Record a window of several steps of training.");
    }
    return std::move(marks_);
  }

 private:
  double seconds(int64_t time_ns) const { return seconds_since(origin_ns_, time_ns); }

  /// Whether two updates are of one step: of one backward pass, or of one batch.
  bool same_step(const Event& before, const Event& after) const {
    // An update with a closure, as Lightning's, has its backward pass within.
    if (!any_in(backward_, before.end_ns, after.end_ns)) return true;
    if (marks_.has_loader) return !any_in(loaders_, before.end_ns, after.begin_ns);
    const auto [first, last] = beginning_in(numbered_, before.begin_ns, after.begin_ns);
    return !numbered_.empty() && first == last;
  }

  int64_t first_ns() const {
    int64_t begin_ns = INT64_MAX;
    for (const Events* marks : {&ends_, &updates_, &numbered_, &loaders_, &operations_}) {
      if (!marks->empty()) begin_ns = std::min(begin_ns, marks->front()->begin_ns);
    }
    return begin_ns;
  }

  /// An update's own work: it may call a closure with forward and backward. Where it calls it several times,
  /// as LBFGS does, all of the call is its own.
  Stretch work_of(const Event& update) const {
    int64_t begin_ns = update.begin_ns;
    const auto [first, last] = beginning_in(backward_, update.begin_ns, update.end_ns);
    if (passes_in(update.begin_ns, update.end_ns).size() < 2) {
      for (auto node = first; node != last; ++node) begin_ns = std::max(begin_ns, (*node)->end_ns);
    }
    return {seconds(std::min(begin_ns, update.end_ns)), seconds(update.end_ns)};
  }

  /// The recorder's marks lie in the last update of a step or, of an optimizer that is not traced, behind it.
  void add_marked() {
    int64_t begin_ns = first_ns();
    auto update = updates_.cbegin();
    for (const Event* mark : ends_) {
      int64_t end_ns = mark->end_ns;
      std::vector<Stretch> calls;
      for (; update != updates_.cend() && (*update)->begin_ns < mark->begin_ns; ++update) {
        calls.push_back(work_of(**update));
        end_ns = std::max(end_ns, (*update)->end_ns);
      }
      add_step(begin_ns, end_ns, std::move(calls), mark != ends_.front());
      begin_ns = end_ns;
    }
    count_torn(begin_ns);
  }

  void add_updates() {
    int64_t begin_ns = first_ns();
    bool certain = false;
    if (!numbered_.empty() && numbered_.front()->begin_ns < updates_.front()->begin_ns) {
      begin_ns = numbered_.front()->begin_ns;
      certain = true;
    }
    std::vector<Stretch> calls;
    for (size_t i = 0; i < updates_.size(); ++i) {
      const Event& update = *updates_[i];
      calls.push_back(work_of(update));
      if (i + 1 < updates_.size() && same_step(update, *updates_[i + 1])) continue;
      add_step(begin_ns, update.end_ns, std::exchange(calls, {}), certain);
      certain = true;
      begin_ns = update.end_ns;
    }
    count_torn(begin_ns);
  }

  /// Counts a step that begins and does not end in the trace.
  void count_torn(int64_t begin_ns) {
    const bool more = any_in(backward_, begin_ns, INT64_MAX) ||
                      (any_in(forwards_, begin_ns, INT64_MAX) && !evaluated(begin_ns));
    if (more) ++marks_.incomplete_steps;
  }

  /// Counts what follows the last update as evaluation where it is more than one batch without backward.
  bool evaluated(int64_t begin_ns) {
    const auto [first, last] = beginning_in(loaders_, begin_ns, INT64_MAX);
    if (last - first < 2) return false;
    marks_.evaluation_steps += static_cast<int>(last - first);
    return true;
  }

  /// Finds what batches may begin with: forward passes, and where a loader is in use, its nexts.
  void mark_batches() {
    const Events modules = outermost(trace_, EventRole::kForward, track_);
    if (marks_.has_loader) batch_marks_ = loaders_;
    const Events& forwards = marks_.has_loader || modules.empty() ? forwards_ : modules;
    batch_marks_.insert(batch_marks_.end(), forwards.begin(), forwards.end());
    std::ranges::stable_sort(batch_marks_, {}, &Event::begin_ns);
  }

  /// Begins of passes, and which of them begin a batch: at every next of a loader that follows a forward
  /// pass, at a forward pass that follows a backward one, and at the begin of the step. A batch begins with
  /// every next, or with a forward pass where there is no loader or it was asked for several batches before.
  std::vector<std::pair<int64_t, bool>> begins_in(int64_t begin_ns, int64_t end_ns) const {
    const auto [first, last] = beginning_in(batch_marks_, begin_ns, end_ns);
    std::vector<std::pair<int64_t, bool>> begins{{begin_ns, true}};
    int64_t fetched = 0, batch_ns = begin_ns;
    bool has_forward = false;
    for (auto mark = first; mark != last; ++mark) {
      const int64_t at_ns = (*mark)->begin_ns;
      const bool loads = (*mark)->role == EventRole::kLoader;
      // What precedes the first batch belongs to it, as do loaders that are asked one after the other.
      const bool next = loads ? has_forward : worked_before(**mark, batch_ns, fetched);
      if (next || (!loads && any_in(backward_, begins.back().first, at_ns))) begins.emplace_back(at_ns, next);
      if (next) batch_ns = at_ns;
      if (loads) {
        ++fetched;
      } else if (fetched > 0 && (next || !has_forward)) {
        --fetched;
      }
      has_forward = !loads;
    }
    return begins;
  }

  /// The passes in a stretch of time; where a loader is in use, those before the first count as evaluation in
  /// `evaluated`.
  std::vector<Pass> passes_in(int64_t begin_ns, int64_t end_ns, int* evaluated = nullptr) const {
    std::vector<Pass> passes;
    std::vector<std::pair<int64_t, bool>> begins = begins_in(begin_ns, end_ns);
    begins.emplace_back(end_ns, true);
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      const int64_t from_ns = begins[i].first, to_ns = begins[i + 1].first;
      if (auto pass = pass_of(from_ns, to_ns)) {
        pass->begins_batch = begins[i].second;
        passes.push_back(*pass);
      } else if (evaluated != nullptr && marks_.has_loader && passes.empty() &&
                 any_in(forwards_, from_ns, to_ns)) {
        ++*evaluated;
      }
    }
    return passes;
  }

  /// Whether the batch that began at `begin_ns` was through its backward pass before a forward pass.
  bool worked_before(const Event& forward, int64_t begin_ns, int64_t fetched) const {
    if (!any_in(backward_, begin_ns, forward.begin_ns)) return false;
    if (!marks_.has_loader && forward.role == EventRole::kForward) return true;
    // An update in between is that of another network, which has the same batch.
    const auto [update, last] = beginning_in(updates_, begin_ns, forward.begin_ns);
    const bool updated = update != last && (*update)->end_ns <= forward.begin_ns;
    return !updated && (fetched > 0 || !marks_.has_loader);
  }

  /// When the first batch of a step is asked for, or without a loader its ProfilerStep begins; what a script
  /// does before (averages of weights, metrics, checkpoints) is of the step before, and no wait for its
  /// batch.
  int64_t asked_ns(int64_t begin_ns, int64_t end_ns) {
    const Events& asks = marks_.has_loader ? loaders_ : numbered_;
    const auto [next, last] = beginning_in(asks, begin_ns, end_ns);
    const int64_t asked_ns = next == last ? begin_ns : (*next)->begin_ns;
    if (works_in(begin_ns, asked_ns)) return begin_ns;
    if (!marks_.steps.empty() && marks_.steps.back().index + 1 == ended_)
      marks_.steps.back().end_s = seconds(asked_ns);
    return asked_ns;
  }

  bool works_in(int64_t begin_ns, int64_t end_ns) const {
    return any_in(forwards_, begin_ns, end_ns) || any_in(backward_, begin_ns, end_ns);
  }

  /// The last step ends with its ProfilerStep, as far as others go on behind their updates: the profiler's
  /// stop is none of the training's.
  void end_last() {
    if (marks_.steps.empty() || updates_.empty()) return;
    double longest_s = marks_.steps.size() == 1 ? INFINITY : 0;
    for (const StepMarks& step : marks_.steps) longest_s = std::max(longest_s, step.end_s - step.updated_s);
    StepMarks& last = marks_.steps.back();
    const int64_t updated_ns = updates_.back()->end_ns;
    for (const Event* step : numbered_) {
      const bool holds = step->begin_ns < updated_ns && step->end_ns > updated_ns;
      if (!holds || last.updated_s != seconds(updated_ns) || works_in(updated_ns, step->end_ns)) continue;
      last.end_s = std::min(seconds(step->end_ns), last.updated_s + longest_s);
      // Of a single step, no other has what comes before its batch.
      if (marks_.steps.size() == 1) last.begin_s = std::min(last.begin_s, seconds(step->begin_ns));
    }
  }

  /// `certain`: its begin is in the trace.
  void add_step(int64_t begin_ns, int64_t end_ns, std::vector<Stretch> updates, bool certain) {
    begin_ns = asked_ns(begin_ns, end_ns);
    StepMarks step{.begin_s = seconds(begin_ns),
                   .updated_s = seconds(end_ns),
                   .end_s = seconds(end_ns),
                   .updates = std::move(updates),
                   .index = ended_++};
    step.passes = passes_in(begin_ns, end_ns, &marks_.evaluation_steps);
    if (step.passes.empty()) {
      if (step.updates.empty() && !marks_.has_loader) ++marks_.evaluation_steps;
      if (!step.updates.empty()) ++marks_.incomplete_steps;
      return;
    }
    step.begin_s = step.passes.front().begin_s;
    for (const Pass& pass : step.passes) {
      if (!pass.begins_batch) continue;
      ++step.batches;
      step.samples += pass.batch;
      step.input_elements += pass.input_elements;
    }
    const bool loaded = marks_.has_loader && any_in(loaders_, begin_ns, end_ns);
    const Pass& first = step.passes.front();
    if (!certain && (marks_.has_loader != loaded || first.forward_s <= first.input_s)) {
      ++marks_.incomplete_steps;
      return;
    }
    // The recorder begins its trace where a step begins.
    if (!certain && !loaded && ends_.empty()) marks_.first_is_certain = false;
    if (!step.updates.empty() && step.updates.back().begin_s < first.forward_s) step.passes.clear();
    const auto [one, past] = beginning_in(ends_.empty() ? numbered_ : ends_, INT64_MIN, end_ns);
    if (one != past) step.number = number_of(trace_.name_of(**(past - 1)));
    marks_.steps.push_back(std::move(step));
  }

  /// Empty without a backward pass.
  std::optional<Pass> pass_of(int64_t begin_ns, int64_t end_ns) const {
    const auto [first, last] = beginning_in(backward_, begin_ns, end_ns);
    if (first == last) return std::nullopt;
    int64_t gradient_ns = -1, node_ns = -1;
    for (auto node = first; node != last; ++node) {
      auto& until_ns = (*node)->role == EventRole::kGradient ? gradient_ns : node_ns;
      until_ns = std::max(until_ns, (*node)->end_ns);
    }
    int64_t loaded_ns = begin_ns;
    const auto [next, end] = beginning_in(loaders_, begin_ns, (*first)->begin_ns);
    if (marks_.has_loader && next != end) loaded_ns = (*(end - 1))->end_ns;
    const int64_t forward_ns = (*first)->begin_ns;
    const auto [operation, past] = beginning_in(operations_, loaded_ns, forward_ns);
    Pass pass{.begin_s = seconds(begin_ns),
              .input_s = seconds(operation == past ? loaded_ns : (*operation)->begin_ns),
              .forward_s = seconds(forward_ns),
              .backward_s = seconds(gradient_ns >= 0 ? gradient_ns : node_ns)};
    for (auto layer = operation; layer != past && pass.batch == 0; ++layer) {
      const Details* details = (*layer)->role == EventRole::kLayer ? trace_.details_of(**layer) : nullptr;
      if (details == nullptr) continue;
      pass.batch = details->batch;
      pass.input_elements = details->elements;
    }
    return pass;
  }

  const KinetoTrace& trace_;
  int64_t origin_ns_;
  std::optional<uint32_t> track_;
  Events ends_, updates_, numbered_, loaders_, backward_, operations_, forwards_, batch_marks_;
  TraceMarks marks_;
  int64_t ended_ = 0;
};

}  // namespace

TraceMarks find_steps(const KinetoTrace& trace, int64_t origin_ns) {
  return StepFinder(trace, origin_ns).find();
}

}  // namespace lockstep::recordings
