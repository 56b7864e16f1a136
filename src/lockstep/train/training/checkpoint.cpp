#include "lockstep/train/training/checkpoint.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/training/archive.h"
#include "lockstep/train/training/state_dict.h"

namespace lockstep::train {
namespace {

// The layout of a checkpoint, a dictionary:
//
//   format, version   "lockstep checkpoint", 1
//   model             name -> tensor: parameters and rank 0's buffers, as a state_dict of torchvision
//   step, epoch       steps and epochs completed
//   settings          name -> text: what must be the same to resume
//   circumstances     name -> text: what decides rounding beside them
//   epochs            a dictionary per completed epoch: loss, accuracy, ...
//   ranks             a dictionary per rank: buffers, strategy (name -> tensor), epoch (sums so far)
//   hash              over all of the above, as 16 hexadecimal digits
//
// Only rank 0 has `strategy` where the strategy's state is the same on all ranks.
constexpr const char* kFormat = "lockstep checkpoint";
constexpr int64_t kVersion = 1;

constexpr const char* kHash = "hash";

std::string hash_text(const Dict& content) {
  return fmt::format("{:016x}", hash_of(content));
}

/// `entries`: pairs of name and value, of whatever kind.
template <typename Entries>
Dict to_dict(const Entries& entries) {
  Dict dict = make_dict();
  for (const auto& [name, value] : entries) dict.insert(name, value);
  return dict;
}

using NamedValues = std::initializer_list<std::pair<const char*, at::IValue>>;

Dict to_dict(const Tally& tally) {
  return to_dict(
      NamedValues{{"loss_sum", tally.loss_sum}, {"correct", tally.correct}, {"samples", tally.samples}});
}

Dict to_dict(const results::EpochRecord& epoch) {
  Dict dict = to_dict(NamedValues{{"epoch", int64_t{epoch.epoch}},
                                  {"steps", epoch.steps},
                                  {"learning_rate", epoch.learning_rate},
                                  {"loss", epoch.loss}});
  if (epoch.training_accuracy) dict.insert("training_accuracy", *epoch.training_accuracy);
  if (epoch.evaluation_loss) dict.insert("evaluation_loss", *epoch.evaluation_loss);
  if (epoch.evaluation_accuracy) dict.insert("evaluation_accuracy", *epoch.evaluation_accuracy);
  return dict;
}

Dict to_dict(const RankState& rank) {
  return to_dict(NamedValues{{"buffers", to_dict(rank.buffers.tensors)},
                             {"epoch", to_dict(rank.epoch)},
                             {"strategy", to_dict(rank.strategy.tensors)}});
}

/// A dictionary that was read, with access by name and kind. Throws Error where an entry is missing or of
/// another kind.
class Entries {
 public:
  explicit Entries(const at::IValue& value) {
    if (!value.isGenericDict()) throw Error("a part of it is not a dictionary");
    for (const auto& entry : value.toGenericDict()) {
      if (!entry.key().isString()) throw Error("a name in it is not text");
      entries_.emplace_back(entry.key().toStringRef(), entry.value());
    }
  }

  bool has(const std::string& name) const { return find(name) != entries_.end(); }

  const at::IValue& get(const std::string& name) const {
    const auto found = find(name);
    if (found == entries_.end()) throw Error(fmt::format("it has no '{}'", name));
    return found->second;
  }

  int64_t integer(const std::string& name) const {
    return get(name, &at::IValue::isInt, "a whole number").toInt();
  }
  double real(const std::string& name) const {
    return get(name, &at::IValue::isDouble, "a number").toDouble();
  }
  std::string text(const std::string& name) const {
    return get(name, &at::IValue::isString, "text").toStringRef();
  }
  at::ArrayRef<at::IValue> list(const std::string& name) const {
    return get(name, &at::IValue::isList, "a list").toListRef();
  }

  std::vector<replica::NamedTensor> tensors() const {
    std::vector<replica::NamedTensor> found;
    for (const auto& [name, value] : entries_) {
      if (!value.isTensor()) throw Error(fmt::format("'{}' is not a tensor", name));
      found.push_back({name, value.toTensor()});
    }
    return found;
  }

  const std::vector<std::pair<std::string, at::IValue>>& all() const { return entries_; }

 private:
  const at::IValue& get(const std::string& name, bool (at::IValue::*is_kind)() const,
                        const char* kind) const {
    const at::IValue& value = get(name);
    if (!(value.*is_kind)()) throw Error(fmt::format("'{}' is not {}", name, kind));
    return value;
  }

  std::vector<std::pair<std::string, at::IValue>>::const_iterator find(const std::string& name) const {
    return std::ranges::find(entries_, name, &std::pair<std::string, at::IValue>::first);
  }

  std::vector<std::pair<std::string, at::IValue>> entries_;
};

Fingerprint facts_in(const Entries& entries, const std::string& name) {
  Fingerprint facts;
  const Entries named(entries.get(name));
  for (const auto& [key, value] : named.all()) {
    if (!value.isString()) throw Error(fmt::format("'{}' in '{}' is not text", key, name));
    facts.push_back({key, value.toStringRef()});
  }
  return facts;
}

Tally tally_from(const Entries& entries) {
  return {entries.real("loss_sum"), entries.integer("correct"), entries.integer("samples")};
}

RankState rank_from(const at::IValue& value) {
  const Entries entries(value);
  RankState rank;
  rank.buffers.tensors = Entries(entries.get("buffers")).tensors();
  rank.strategy.tensors = Entries(entries.get("strategy")).tensors();
  rank.epoch = tally_from(Entries(entries.get("epoch")));
  return rank;
}

results::EpochRecord epoch_from(const at::IValue& value) {
  const Entries entries(value);
  results::EpochRecord epoch;
  epoch.epoch = static_cast<int>(entries.integer("epoch"));
  epoch.steps = entries.integer("steps");
  epoch.learning_rate = entries.real("learning_rate");
  epoch.loss = entries.real("loss");
  if (entries.has("training_accuracy")) epoch.training_accuracy = entries.real("training_accuracy");
  if (entries.has("evaluation_loss")) epoch.evaluation_loss = entries.real("evaluation_loss");
  if (entries.has("evaluation_accuracy")) epoch.evaluation_accuracy = entries.real("evaluation_accuracy");
  return epoch;
}

/// The states of all ranks on rank 0, an empty list elsewhere. Rank 0 receives one rank after the other, so
/// that messages in flight hold one state at a time. Collective.
List gather_ranks(const RankState& own, comm::Communicator* group) {
  List ranks = make_list();
  const int rank = group == nullptr ? 0 : group->rank();
  if (rank == 0) ranks.push_back(to_dict(own));
  if (group == nullptr) return ranks;
  std::string bytes;
  if (rank != 0) {
    RankState sent = own;
    if (sent.strategy.same_on_all_ranks) sent.strategy.tensors.clear();
    bytes = to_archive(to_dict(sent));
  }
  const std::vector<int64_t> sizes = gather_equal<int64_t>({static_cast<int64_t>(bytes.size())}, *group);
  constexpr int kTag = 1;
  if (rank != 0) {
    std::vector<uint8_t> message(bytes.begin(), bytes.end());
    group->send(comm::host_buffer(message.data(), message.size()), 0, kTag)->wait();
    return ranks;
  }
  for (int other = 1; other < group->size(); ++other) {
    std::vector<uint8_t> message(static_cast<size_t>(sizes[static_cast<size_t>(other)]));
    group->receive(comm::host_buffer(message.data(), message.size()), other, kTag)->wait();
    ranks.push_back(from_archive(std::string(message.begin(), message.end()), "the state that a rank sent"));
  }
  return ranks;
}

Checkpoint checkpoint_from(const at::IValue& content) {
  const Entries entries(content);
  if (!entries.has("format") || entries.text("format") != kFormat) {
    throw Error("it is not a checkpoint of lockstep",
                "--init takes the values of other files; --resume continues where lockstep stopped.");
  }
  if (const int64_t version = entries.integer("version"); version != kVersion) {
    throw Error(
        fmt::format("it has version {} of the format, and this lockstep reads {}", version, kVersion));
  }
  Dict without_hash = content.toGenericDict().copy();
  static_cast<void>(without_hash.erase(kHash));
  if (entries.text(kHash) != hash_text(without_hash)) {
    throw Error("it is damaged: its contents are not what was written",
                "Resume from another file; this one's disk or transfer may be at fault.");
  }
  Checkpoint checkpoint;
  checkpoint.step = entries.integer("step");
  checkpoint.model = Entries(entries.get("model")).tensors();
  checkpoint.settings = facts_in(entries, "settings");
  checkpoint.circumstances = facts_in(entries, "circumstances");
  for (const at::IValue& epoch : entries.list("epochs")) checkpoint.epochs.push_back(epoch_from(epoch));
  for (const at::IValue& rank : entries.list("ranks")) checkpoint.ranks.push_back(rank_from(rank));
  if (checkpoint.ranks.empty()) throw Error("it has no ranks");
  for (RankState& rank : checkpoint.ranks) {
    if (rank.strategy.tensors.empty()) rank.strategy = checkpoint.ranks.front().strategy;
  }
  return checkpoint;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& head, const replica::Parameters& parameters,
                      const RankState& own, comm::Communicator* group) {
  const List ranks = gather_ranks(own, group);
  if (group != nullptr && group->rank() != 0) return;
  List epochs = make_list();
  for (const results::EpochRecord& epoch : head.epochs) epochs.push_back(to_dict(epoch));
  Dict content = to_dict(NamedValues{{"format", kFormat},
                                     {"version", kVersion},
                                     {"model", to_dict(state_dict_of(parameters))},
                                     {"step", head.step},
                                     {"epoch", static_cast<int64_t>(head.epochs.size())},
                                     {"settings", to_dict(head.settings)},
                                     {"circumstances", to_dict(head.circumstances)},
                                     {"epochs", epochs},
                                     {"ranks", ranks}});
  content.insert(kHash, hash_text(content));
  write_file_atomically(path, to_archive(content));
}

Checkpoint read_checkpoint(const std::string& path) {
  const at::IValue content = read_archive(path);
  try {
    return checkpoint_from(content);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("'{}' cannot be used: {}", path, error.what()), error.advice());
  }
}

}  // namespace lockstep::train
