#include "recordings/made_traces.h"

#include <algorithm>
#include <cmath>

namespace lockstep::recordings {
namespace {

using nlohmann::json;

constexpr int kHost = 11, kBackendThread = 12, kCompute = 7, kCommunication = 20;
constexpr double kStart = 5e6;
constexpr const char* kCompiledFunction = "Torch-Compiled Region: 0/0";

/// Writes the events of one rank.
class Rank {
 public:
  Rank(const MadeJob& job, int rank) : job_(job), rank_(rank) {}

  void event(const char* category, const std::string& name, int thread, double begin_us, double end_us,
             json arguments = json::object()) {
    const double shift = rank_ == 0 ? 0 : job_.clock_offset_us;
    json made{{"ph", "X"},          {"cat", category}, {"name", name},
              {"pid", 100 + rank_}, {"tid", thread},   {"args", std::move(arguments)}};
    if (job_.old_format) {
      made["ts"] = static_cast<int64_t>(begin_us + shift);
      made["dur"] = static_cast<int64_t>(end_us) - static_cast<int64_t>(begin_us);
    } else {
      made["ts"] = begin_us + shift;
      made["dur"] = end_us - begin_us;
    }
    events_.push_back(std::move(made));
  }

  /// Work on the host, or a kernel that the host launches earlier.
  void work(const std::string& name, double begin_us, double end_us, json arguments = json::object()) {
    event("cpu_op", name, kHost, host(begin_us), host(end_us), std::move(arguments));
    if (job_.device) kernel("gemm", kCompute, begin_us, end_us, host(begin_us), {});
  }
  void kernel(const std::string& name, int stream, double begin_us, double end_us, double launched_us,
              json arguments) {
    ++correlation_;
    event("cuda_runtime", "cudaLaunchKernel", kHost, launched_us, launched_us + 1,
          {{"correlation", correlation_}});
    arguments["correlation"] = correlation_;
    arguments["stream"] = stream;
    event("kernel", name, stream, begin_us, end_us, std::move(arguments));
  }
  void note(const std::string& name, double begin_us, double end_us) {
    event("user_annotation", name, kHost, host(begin_us), host(end_us));
  }

  void collective(double issued_us, double begin_us, double end_us, int64_t elements,
                  const std::string& kind) {
    const json dimensions{{"Input Dims", {{elements}}}, {"Input type", {"float"}}};
    const std::string issue = kind == "all_reduce" ? "c10d::allreduce_" : "c10d::" + kind + "_";
    event("cpu_op", issue, kHost, host(issued_us), host(issued_us) + 1,
          {{"Input Dims", {{{elements}}, json::array()}}, {"Input type", {"TensorList", ""}}});
    if (!job_.device) {
      event(job_.old_format ? "cpu_op" : "user_annotation", "gloo:" + kind, kBackendThread, begin_us, end_us,
            dimensions);
      return;
    }
    event("user_annotation", "nccl:" + kind, kHost, host(issued_us), host(issued_us) + 2, dimensions);
    json arguments;
    if (!job_.old_format)
      arguments = {{"Collective name", kind == "all_reduce" ? "allreduce" : kind},
                   {"In msg nelems", elements},
                   {"dtype", "Float"},
                   {"Process Group Name", job_.group},
                   {"Process Group Ranks", job_.group_ranks},
                   {"Group size", job_.world}};
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", kCommunication,
           begin_us, end_us, host(issued_us) + 0.5, std::move(arguments));
  }

  /// On a device the host is ahead, and takes a tenth of the time.
  double host(double time_us) const { return job_.device ? kStart + (time_us - kStart) / 10 : time_us; }

  json trace() {
    if (job_.torn) {
      double first = INFINITY, last = 0;
      for (const json& each : events_) {
        first = std::min(first, each["ts"].get<double>());
        last = std::max(last, each["ts"].get<double>());
      }
      std::erase_if(events_,
                    [&](const json& each) { return each["ts"] < first + 6000 || each["ts"] > last - 3000; });
    }
    json distributed{{"backend", job_.device ? "nccl" : "gloo"}, {"rank", rank_}, {"world_size", job_.world}};
    if (!job_.old_format)
      distributed["pg_config"] = {{{"pg_name", "0"}, {"pg_desc", "default_pg"}, {"ranks", {0, 1}}}};
    json root{{"schemaVersion", 1}, {"distributedInfo", distributed}, {"deviceProperties", json::array()}};
    if (job_.device) root["deviceProperties"].push_back({{"id", 0}, {"name", "NVIDIA A100"}});
    if (!job_.old_format) root["baseTimeNanoseconds"] = 1'700'000'000'000'000'000;
    root["traceEvents"] = std::move(events_);
    return root;
  }

 private:
  const MadeJob& job_;
  int rank_;
  int64_t correlation_ = 0;
  std::vector<json> events_;
};

/// Lets all ranks of a job train step by step.
class Training {
 public:
  explicit Training(const MadeJob& job) : job_(job) {
    for (int rank = 0; rank < job.world; ++rank) ranks_.emplace_back(job, rank);
  }

  std::vector<json> train() {
    for (int step = 0; step < job_.steps; ++step) {
      const double begin_us = at_us_;
      for (int batch = 0; job_.fetch_first && batch < job_.passes; ++batch) {
        for (Rank& rank : ranks_) load(rank, at_us_);
        at_us_ += job_.input_us;
      }
      for (int pass = 0; pass < job_.passes; ++pass) {
        const bool last = pass + 1 == job_.passes;
        train_pass(job_.reduce_each_pass || last);
        if (last || job_.update_each_pass) update(begin_us);
      }
      for (Rank& rank : ranks_) {
        if (job_.marked) rank.note("lockstep.step#" + std::to_string(step + 40), at_us_ - 3, at_us_ - 2);
        if (job_.after_us > 0) rank.work("aten::lerp_", at_us_, at_us_ + job_.after_us);
      }
      at_us_ += job_.after_us;
      for (Rank& rank : ranks_) {
        if (job_.profiler_steps) rank.note("ProfilerStep#" + std::to_string(step + 3), begin_us, at_us_);
      }
      if (job_.evaluate_every > 0 && (step + 1) % job_.evaluate_every == 0) evaluate();
    }
    std::vector<json> traces;
    for (Rank& rank : ranks_) traces.push_back(rank.trace());
    return traces;
  }

 private:
  void update(double begin_us) {
    for (Rank& rank : ranks_) {
      if (job_.optimizer)
        rank.note("Optimizer.step#SGD.step", job_.closure ? begin_us + job_.input_us : at_us_,
                  at_us_ + job_.optimizer_us);
      rank.work("aten::_foreach_add_", at_us_, at_us_ + job_.optimizer_us);
      if (!job_.compiled || job_.optimizer) continue;
      rank.work(kCompiledFunction, at_us_, at_us_ + job_.optimizer_us);
      // It goes on behind the hook of the optimizer.
      rank.work(kCompiledFunction, at_us_ + job_.optimizer_us - 1, at_us_ + job_.optimizer_us);
    }
    at_us_ += job_.optimizer_us;
  }
  void load(Rank& rank, double begin_us) const {
    if (job_.loader)
      rank.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin_us,
                begin_us + job_.input_us);
  }
  void forward(Rank& rank, double begin_us) const {
    if (job_.module) rank.note("DistributedDataParallel.forward", begin_us, begin_us + job_.forward_us);
    const double from_us = begin_us + job_.broadcast_us;
    if (job_.broadcast_us > 0) rank.collective(begin_us, begin_us + 1, from_us, 100, "broadcast");
    const json image{job_.batch, 3, 8, 8}, weights{4, 3, 3, 3}, tokens{job_.batch, 16}, rows{500, 8};
    const char* const layer = job_.embedding ? "aten::embedding" : "aten::conv2d";
    rank.work(!job_.compiled    ? layer
              : job_.old_format ? "CompiledFunction"
                                : kCompiledFunction,
              from_us, begin_us + job_.forward_us,
              {{"Input Dims", job_.embedding ? json{rows, tokens} : json{image, weights}},
               {"Input type", {"float", job_.embedding ? "long int" : "float"}}});
  }

  void train_pass(bool reduces) {
    const double per_gradient = job_.backward_us / job_.gradients;
    std::vector<double> backward_us;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (!job_.fetch_first) load(ranks_[r], at_us_);
      const double forward_us = at_us_ + (job_.fetch_first ? 0 : job_.input_us) + job_.late_us[r];
      forward(ranks_[r], forward_us);
      backward_us.push_back(forward_us + job_.forward_us);
      for (int i = 0; i < job_.gradients; ++i) {
        const double node_us = backward_us[r] + i * per_gradient;
        ranks_[r].work("autograd::engine::evaluate_function: ConvolutionBackward0", node_us,
                       node_us + 0.9 * per_gradient);
        ranks_[r].work("torch::autograd::AccumulateGrad", node_us + 0.9 * per_gradient,
                       node_us + per_gradient, {{"Input Dims", {{500}}}, {"Input type", {"float"}}});
      }
    }
    double ended_us = *std::ranges::max_element(backward_us) + job_.backward_us;
    if (!reduces) {
      at_us_ = ended_us;
      return;
    }
    double free_us = 0;
    for (int bucket = 0; bucket < job_.buckets; ++bucket) {
      const double ready_us = (bucket + 1) * job_.backward_us / job_.buckets - (job_.device ? 0 : 1);
      const double all_us = std::max(free_us, *std::ranges::max_element(backward_us) + ready_us);
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const double issued_us = backward_us[r] + ready_us;
        ranks_[r].collective(issued_us, std::max(free_us, issued_us), all_us + job_.transfer_us,
                             job_.bucket_elements, job_.kind);
      }
      free_us = all_us + job_.transfer_us;
    }
    at_us_ = std::max(ended_us, free_us);
  }

  void evaluate() {
    for (int batch = 0; batch < 3; ++batch) {
      for (Rank& rank : ranks_) {
        load(rank, at_us_);
        forward(rank, at_us_ + job_.input_us);
      }
      at_us_ += job_.input_us + job_.forward_us;
    }
  }

  const MadeJob& job_;
  double at_us_ = kStart;
  std::vector<Rank> ranks_;
};

}  // namespace

std::vector<json> made_traces(const MadeJob& job) {
  return Training(job).train();
}

}  // namespace lockstep::recordings
