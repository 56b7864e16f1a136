#include "lockstep/train/training/checkpoint.h"

#include <fmt/format.h>

#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/train/rows/gather.h"

namespace lockstep::train {
namespace {

// The layout of a checkpoint, a .safetensors file with a checksum:
//
//   metadata "lockstep"     CheckpointHead as JSON, with the version of this layout
//   model/NAME              parameters and rank 0's buffers, as in a state_dict of torchvision
//   rank/R/buffers/NAME     the running statistics of rank R
//   rank/R/strategy/NAME    the state of its strategy; only rank 0's where it is the same on all ranks
constexpr int kVersion = 2;
constexpr const char* kHead = "lockstep";

std::string buffers_of(int rank) {
  return fmt::format("rank/{}/buffers/", rank);
}

std::string strategy_of(int rank) {
  return fmt::format("rank/{}/strategy/", rank);
}

void add(std::vector<replica::NamedTensor>& all, const std::string& prefix,
         const std::vector<replica::NamedTensor>& tensors) {
  for (const auto& [name, value] : tensors) all.push_back({prefix + name, value});
}

/// A tensor that a rank is about to send.
struct Announced {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;

  LOCKSTEP_DESCRIBE(kOptional, name, type, shape)
};

comm::Buffer buffer_of(const at::Tensor& tensor) {
  return comm::host_buffer(static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes());
}

/// The tensors of all ranks on rank 0, the own ones elsewhere. Collective.
std::vector<replica::NamedTensor> gather_tensors(const RankState& own, comm::Communicator* group) {
  const int rank = group == nullptr ? 0 : group->rank();
  std::vector<replica::NamedTensor> tensors;
  add(tensors, buffers_of(rank), own.buffers.tensors);
  if (rank == 0 || !own.strategy.same_on_all_ranks) add(tensors, strategy_of(rank), own.strategy.tensors);
  if (group == nullptr) return tensors;
  std::vector<Announced> announced;
  if (rank != 0) {
    for (const auto& [name, value] : tensors)
      announced.push_back({name, type_name(value), value.sizes().vec()});
  }
  const std::vector<std::vector<Announced>> by_rank = gather_records(announced, group);
  constexpr int kTag = 1;
  if (rank != 0) {
    for (const auto& [name, value] : tensors) {
      if (value.nbytes() > 0) group->send(buffer_of(value), 0, kTag)->wait();
    }
    return tensors;
  }
  for (int other = 1; other < group->size(); ++other) {
    for (const Announced& tensor : by_rank[static_cast<size_t>(other)]) {
      const at::Tensor value = at::empty(tensor.shape, type_named(tensor.type));
      if (value.nbytes() > 0) group->receive(buffer_of(value), other, kTag)->wait();
      tensors.push_back({tensor.name, value});
    }
  }
  return tensors;
}

CheckpointHead head_in(const TensorFile& file) {
  const std::string text = file.metadata(kHead);
  if (text.empty()) {
    throw ConfigError(fmt::format("'{}' is not a checkpoint of lockstep", file.path()),
                      "--init takes the values of other files; --resume continues where lockstep stopped.");
  }
  try {
    const nlohmann::json document = parse_json(text, file.path());
    const JsonNode node(document, file.path());
    if (const int version = node["version"].count(0); version != kVersion) {
      throw Error(fmt::format("'{}' has version {} of the format, and this lockstep reads {}", file.path(),
                              version, kVersion));
    }
    CheckpointHead head;
    decode(node, head);
    return head;
  } catch (const Error& error) {
    throw ConfigError(error.what(), error.advice());
  }
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path) : file_(path), head_(head_in(file_)) {}

std::vector<replica::NamedTensor> Checkpoint::model() const {
  return file_.tensors(kModel);
}

RankState Checkpoint::rank(int rank) const {
  RankState state;
  state.buffers.tensors = file_.tensors(buffers_of(rank));
  state.strategy.tensors = file_.tensors(strategy_of(file_.has(strategy_of(rank)) ? rank : 0));
  state.epoch = head_.ranks.at(static_cast<size_t>(rank));
  return state;
}

void write_checkpoint(const std::string& path, CheckpointHead head, const replica::Parameters& parameters,
                      const RankState& own, comm::Communicator* group) {
  std::vector<replica::NamedTensor> tensors = gather_tensors(own, group);
  head.ranks = gather_records(own.epoch, group);
  if (group != nullptr && group->rank() != 0) return;
  add(tensors, kModel, parameters.trainable());
  add(tensors, kModel, parameters.buffers());
  // A rate is not what a resumed training would repeat.
  for (results::EpochRecord& epoch : head.epochs) epoch.images_per_s.reset();
  const Json json = encode_after({{"version", kVersion}}, head);
  write_tensors(path, tensors, {{kHead, json.dump(-1, ' ', false, Json::error_handler_t::replace)}});
}

}  // namespace lockstep::train
