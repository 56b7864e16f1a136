#include "lockstep/launch/meeting.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/secret.h"
#include "lockstep/comm/operation.h"
#include "lockstep/launch/watch_message.h"

namespace lockstep::launch {
namespace {

using Seconds = std::chrono::duration<double>;

/// Time for the others to hear why the job ends, before the store may go away with rank 0.
constexpr Seconds kHearing{2};
/// Time for rank 0 to tell the user: launchers kill all ranks once one has ended.
constexpr Seconds kTelling{3};
/// Ranks that a message names.
constexpr size_t kNamedRanks = 8;

Seconds left_until(comm::Deadline deadline) {
  return std::max(Seconds(0), Seconds(deadline - Clock::now()));
}

/// The value, or nothing where nobody sets it in time.
std::optional<std::string> value_within(comm::Store& store, const std::string& key, Seconds time) {
  try {
    return store.get(key, time);
  } catch (const TimeoutError&) {
    return std::nullopt;
  }
}

/// "rank 1", "ranks 1, 3", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 56 others".
std::string ranks_text(const std::vector<int>& ranks) {
  const std::vector<int> named(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kNamedRanks)));
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "));
  if (ranks.size() > named.size()) text += fmt::format(" and {} others", ranks.size() - named.size());
  return text;
}

/// The outcome of a meeting.
struct Verdict {
  /// Empty: all are here.
  std::string reason;
  std::string advice;
  int exit_code = 0;

  bool failed() const { return !reason.empty(); }
  [[noreturn]] void raise() const { throw MeetingFailed(reason, advice, exit_code); }
};

Verdict verdict_of(const LostRank& lost) {
  return {describe(lost), lost.advice, std::max(1, lost.exit_code)};
}

std::string to_text(const Verdict& verdict) {
  const json message{
      {"reason", verdict.reason}, {"advice", verdict.advice}, {"exit_code", verdict.exit_code}};
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

Verdict verdict_from(const std::string& text) {
  const json message = json::parse(text, nullptr, false);
  if (!message.is_object()) return {"rank 0 sent no verdict", "", kExitFailed};
  return {printable(message.value("reason", "")), printable(message.value("advice", "")),
          failure_code(message.value("exit_code", int{kExitFailed}))};
}

/// The keys of one meeting.
class StorePart final : public comm::Store {
 public:
  StorePart(std::shared_ptr<comm::Store> all, int64_t generation)
      : all_(std::move(all)), prefix_(fmt::format("{}/", generation)) {}

  void set(const std::string& key, const std::string& value) override { all_->set(prefix_ + key, value); }
  std::string get(const std::string& key, Seconds timeout) override {
    return all_->get(prefix_ + key, timeout);
  }
  int64_t add(const std::string& key, int64_t amount) override { return all_->add(prefix_ + key, amount); }

 private:
  const std::shared_ptr<comm::Store> all_;
  const std::string prefix_;
};

std::string met_key(int64_t generation) {
  return fmt::format("{}/met", generation);
}

/// Rank 0's side: reads the log.
class Host {
 public:
  Host(comm::Store& store, int world)
      : store_(store), world_(world), generation_(store.add("generation", 1)), read_(store.add("read", 0)) {}

  int64_t generation() const { return generation_; }

  Verdict receive_all(const Patience& patience) {
    const bool done = wait_patiently(
        patience, true,
        [&](Seconds time) {
          read_one(time);
          return failure_.has_value() || static_cast<int>(here_.size()) == world_ - 1;
        },
        [&] { return fmt::format("{} of {}", ranks_text(missing()), world_); });
    if (failure_) return verdict_of(*failure_);
    if (done) return {};
    return {fmt::format("only {} of {} ranks came within {:g} s: {} did not", here_.size() + 1, world_,
                        patience.limit.count(), ranks_text(missing())),
            "Start the missing ranks or look for their messages; --join-timeout gives them more time.",
            kExitFailed};
  }

  void tell(const Verdict& verdict) {
    store_.set(met_key(generation_), to_text(verdict));
    if (!verdict.failed()) return;
    const auto deadline = comm::deadline_after(kHearing);
    while (static_cast<int>(heard_.size()) < world_ - 1 && Clock::now() < deadline)
      read_one(left_until(deadline));
  }

 private:
  /// Reads the next entry, if one comes in time. Ignores what no rank of this job writes.
  void read_one(Seconds time) {
    const auto text = value_within(store_, fmt::format("arrival/{}", read_ + 1), time);
    if (!text) return;
    ++read_;
    store_.add("read", 1);
    try {
      take(json::parse(*text));
    } catch (const json::exception&) {
      return;
    }
  }

  void take(const json& entry) {
    const int rank = entry.at("rank");
    const std::string token = entry.at("token");
    const std::string is = entry.at("is");
    if (rank < 1 || rank >= world_) return;
    if (is == "arrived" || is == "failed") {
      if (is == "failed") {
        LostRank lost = lost_rank_from(entry.at("lost"));
        lost.rank = rank;
        cannot_come_[token] = lost;
      }
      store_.set("welcome/" + token, std::to_string(generation_));
    } else if (is == "here") {
      const auto cannot = cannot_come_.find(token);
      cannot == cannot_come_.end() ? void(here_.insert(rank)) : void(failure_ = cannot->second);
    } else if (is == "heard") {
      heard_.insert(rank);
    }
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < world_; ++rank) {
      if (!here_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  comm::Store& store_;
  const int world_;
  const int64_t generation_;
  int64_t read_;
  std::set<int> here_;
  std::set<int> heard_;
  /// By token, of ranks that may be dead by now.
  std::map<std::string, LostRank> cannot_come_;
  std::optional<LostRank> failure_;
};

/// The side of every other rank: writes into the log.
class Guest {
 public:
  Guest(comm::Store& store, const RankEnvironment& environment)
      : store_(store), environment_(environment), token_(random_secret()) {}

  /// Writes `entry`, waits for rank 0's answer, and says that this rank is here. Returns the number of the
  /// meeting. Throws TimeoutError.
  int64_t announce(json entry, const Patience& patience) {
    write(std::move(entry));
    std::optional<std::string> welcome;
    wait_patiently(
        patience, environment_.speaks_for_host(),
        [&](Seconds time) {
          welcome = value_within(store_, "welcome/" + token_, time);
          return welcome.has_value();
        },
        [] { return "rank 0"; });
    if (!welcome) {
      throw TimeoutError(fmt::format("rank 0 did not come within {:g} s", patience.limit.count()),
                         "Start it or look for its messages; --join-timeout gives it more time.");
    }
    write({{"is", "here"}});
    return std::stoll(*welcome);
  }

  Verdict hear(int64_t generation, Seconds time) {
    const Verdict verdict = verdict_from(store_.get(met_key(generation), time));
    if (!verdict.failed()) return verdict;
    // Until the store goes away with rank 0, which has told the user then.
    try {
      write({{"is", "heard"}});
      store_.get(fmt::format("{}/never", generation), kTelling);
    } catch (const CommError&) {
      return verdict;
    }
    return verdict;
  }

 private:
  void write(json entry) {
    entry["rank"] = environment_.rank;
    entry["token"] = token_;
    const int64_t number = store_.add("arrivals", 1);
    store_.set(fmt::format("arrival/{}", number), entry.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  comm::Store& store_;
  const RankEnvironment& environment_;
  const std::string token_;
};

}  // namespace

bool wait_patiently(const Patience& patience, bool speaks, const std::function<bool(Seconds)>& attempt,
                    const std::function<std::string()>& who_is_missing) {
  const auto begin = Clock::now();
  const auto deadline = comm::deadline_after(patience.limit);
  const auto period = std::chrono::duration_cast<Clock::duration>(patience.say_every);
  auto next_line = begin + period;
  do {
    if (attempt(std::min(left_until(deadline), left_until(next_line)))) return true;
    if (Clock::now() < next_line) continue;
    next_line += period;
    if (!speaks || !patience.on_waiting) continue;
    patience.on_waiting(fmt::format("waiting for {} since {:.0f} s, for {:g} s at most (--join-timeout)",
                                    who_is_missing(), Seconds(Clock::now() - begin).count(),
                                    patience.limit.count()));
  } while (Clock::now() < deadline);
  return false;
}

std::shared_ptr<comm::Store> meet(std::shared_ptr<comm::Store> store, const RankEnvironment& environment,
                                  const Patience& patience) {
  int64_t generation = 0;
  Verdict verdict;
  if (environment.rank == 0) {
    Host host(*store, environment.world);
    verdict = host.receive_all(patience);
    host.tell(verdict);
    generation = host.generation();
  } else {
    Guest guest(*store, environment);
    generation = guest.announce({{"is", "arrived"}}, patience);
    // Rank 0 decides in time; its own limit began later if it came later.
    verdict = guest.hear(generation, patience.limit + kHearing);
  }
  if (verdict.failed()) verdict.raise();
  return std::make_shared<StorePart>(std::move(store), generation);
}

std::string decline(comm::Store& store, const RankEnvironment& environment, const LostRank& why,
                    Seconds limit) {
  if (environment.rank == 0) {
    // Others that failed alike recognize their own error in this text.
    Host(store, environment.world).tell({why.detail, why.advice, why.exit_code});
    return why.detail;
  }
  Guest guest(store, environment);
  const int64_t generation = guest.announce({{"is", "failed"}, {"lost", to_message(why)}}, {.limit = limit});
  return guest.hear(generation, limit).reason;
}

}  // namespace lockstep::launch
