#include "lockstep/recordings/collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/recordings/event_names.h"

namespace lockstep::recordings {
namespace {

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

}  // namespace lockstep::recordings
