#include "lockstep/collectives/measure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/collectives/compute_load.h"
#include "lockstep/collectives/operations.h"
#include "lockstep/collectives/test_values.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/measure/series.h"

namespace lockstep::collectives {
namespace {

using comm::Buffer;
using comm::Collective;

constexpr int kFewestIterations = 10;
constexpr int kMostIterations = 1000;

/// Memory of one rank, from a page's beginning on.
class Memory {
 public:
  Memory(size_t count, comm::DType dtype)
      : data_(::operator new(std::max<size_t>(1, count* comm::element_bytes(dtype)), kPage)),
        buffer_{data_.get(), count, dtype} {}

  const Buffer& whole() const { return buffer_; }
  /// `count` elements from `first` on.
  Buffer part(size_t first, size_t count) const {
    return {static_cast<char*>(buffer_.data) + first * comm::element_bytes(buffer_.dtype), count,
            buffer_.dtype};
  }

 private:
  static constexpr std::align_val_t kPage{4096};
  struct Free {
    void operator()(void* data) const { ::operator delete(data, kPage); }
  };
  std::unique_ptr<void, Free> data_;
  Buffer buffer_;
};

/// One of the collectives that run at the same time: its communicator and buffers.
class Lane {
 public:
  Lane(const Row& row, comm::Communicator& comm)
      : comm_(comm),
        operation_(operations().get(row.collective)),
        part_(size_t(row.count)),
        // In place, everything is in the larger buffer.
        in_(out_of_place(row) ? in_elements(row) : 0, dtype_named(row.dtype)),
        out_(out_of_place(row) ? out_elements(row) : std::max(in_elements(row), out_elements(row)),
             dtype_named(row.dtype)) {
    const Buffer all = out_.whole();
    input_ = output_ = all;
    const size_t own = size_t(comm.rank()) * part_;
    if (out_of_place(row)) {
      input_ = in_.whole();
    } else if (operation_.kind == Collective::Kind::kAllGather) {
      input_ = out_.part(own, part_);
    } else if (operation_.kind == Collective::Kind::kReduceScatter) {
      output_ = out_.part(own, part_);
    }
  }

  static bool out_of_place(const Row& row) { return row.place == kOutOfPlace; }
  static size_t in_elements(const Row& row) { return elements(row, &comm::CollectiveTraits::input_parts); }
  static size_t out_elements(const Row& row) { return elements(row, &comm::CollectiveTraits::output_parts); }

  /// A collective that one call carries out, from beginning to end.
  bool is_one_call() const { return operation_.kind.has_value(); }
  /// Right after a barrier.
  void run() {
    Collective all_ready = collective();
    all_ready.arrived = true;
    comm_.run(all_ready);
  }

  void start(std::vector<comm::WorkPtr>& works) {
    if (is_one_call()) {
      works.push_back(comm_.issue(collective()));
      return;
    }
    constexpr int kTag = 0;
    works.push_back(comm_.receive(output_, previous(), kTag));
    works.push_back(comm_.send(input_, (comm_.rank() + 1) % comm_.size(), kTag));
  }

  /// Puts this rank's contribution into its place.
  void fill() const {
    const int rank = comm_.rank();
    // Elements that the operation is to overwrite are no result of an earlier one.
    std::fill_n(static_cast<char*>(output_.data), output_.bytes(), '\x7b');
    TestValues(input_.dtype, comm_.size(), rank).fill(input_.data, 0, input_.count);
  }

  /// Elements of this rank's result that are wrong.
  int64_t count_wrong() const {
    const int rank = comm_.rank(), ranks = comm_.size();
    const auto of = [&](int which) { return TestValues(output_.dtype, ranks, which); };
    constexpr int kSum = -1;
    if (!operation_.kind) return of(previous()).count_wrong(output_.data, 0, output_.count);
    switch (*operation_.kind) {
      case Collective::Kind::kAllReduce:
        return of(kSum).count_wrong(output_.data, 0, output_.count);
      case Collective::Kind::kReduce:
        return rank == 0 ? of(kSum).count_wrong(output_.data, 0, output_.count) : 0;
      case Collective::Kind::kReduceScatter:
        return of(kSum).count_wrong(output_.data, size_t(rank) * part_, output_.count);
      case Collective::Kind::kBroadcast:
        return of(0).count_wrong(output_.data, 0, output_.count);
      default:
        break;
    }
    int64_t wrong = 0;
    const size_t first = operation_.kind == Collective::Kind::kAllToAll ? size_t(rank) * part_ : 0;
    for (int from = 0; from < ranks; ++from)
      wrong += of(from).count_wrong(out_.part(size_t(from) * part_, part_).data, first, part_);
    return wrong;
  }

 private:
  static size_t elements(const Row& row, bool comm::CollectiveTraits::*in_parts) {
    const Operation& operation = operations().get(row.collective);
    const bool parts = operation.kind && Collective{.kind = *operation.kind}.traits().*in_parts;
    return size_t(row.count) * size_t(parts ? row.ranks : 1);
  }
  int previous() const { return (comm_.rank() + comm_.size() - 1) % comm_.size(); }
  Collective collective() const { return {.kind = *operation_.kind, .input = input_, .output = output_}; }

  comm::Communicator& comm_;
  const Operation& operation_;
  size_t part_;
  Memory in_, out_;
  Buffer input_, output_;
};

/// The iterations of one row on one rank.
class RowMeasurement {
 public:
  RowMeasurement(const Row& row, std::span<comm::Communicator* const> lanes, const Pacing& pacing)
      : comm_(*lanes[0]), pacing_(pacing) {
    for (int i = 0; i < row.at_a_time; ++i) lanes_.emplace_back(row, *lanes[size_t(i)]);
    for (Lane& lane : lanes_) lane.fill();
    if (!row.computing) return;
    load_ = std::make_unique<ComputeLoad>(pacing.compute_threads);
    // All ranks at once, as in the iterations.
    meet();
    load_->time_alone();
  }

  void meet() { comm_.run({.kind = Collective::Kind::kBarrier}); }

  /// Seconds of one iteration on this rank.
  double iterate() {
    meet();
    const double begin_s = now_s();
    if (!load_ && lanes_.size() == 1 && lanes_[0].is_one_call()) {
      lanes_[0].run();
      return now_s() - begin_s;
    }
    std::vector<comm::WorkPtr> works;
    for (Lane& lane : lanes_) lane.start(works);
    double end_s = 0;
    if (load_) end_s = load_->until_complete(works, begin_s);
    for (const comm::WorkPtr& work : works) work->wait();
    return (load_ ? end_s : now_s()) - begin_s;
  }

  /// Elements that are wrong after one iteration, over all ranks.
  int64_t check() {
    if (!pacing_.check) return 0;
    for (Lane& lane : lanes_) lane.fill();
    iterate();
    int64_t wrong = 0;
    for (const Lane& lane : lanes_) wrong += lane.count_wrong();
    return total(wrong);
  }

  /// The number of iterations, from times of the warm-up; the same on all ranks.
  int iterations(const std::vector<double>& warmup_s) {
    if (pacing_.iterations) return *pacing_.iterations;
    int64_t count = std::clamp<int64_t>(
        std::llround(std::min(1e6, pacing_.min_time_s / std::max(1e-7, measure::median_of(warmup_s)))),
        kFewestIterations, kMostIterations);
    comm_.run(collective(Collective::Kind::kBroadcast, &count, 1));
    return int(count);
  }

  /// The longest over the ranks of each iteration.
  std::vector<double> longest(std::vector<double> own_s) {
    Collective most = collective(Collective::Kind::kAllReduce, own_s.data(), own_s.size());
    most.op = comm::ReduceOp::kMax;
    comm_.run(most);
    return own_s;
  }

  /// See Row::phi_c: over all ranks and iterations so far. Empty where next to nothing was computed.
  std::optional<double> phi_c() {
    if (!load_) return std::nullopt;
    const double lost_s = std::max(0.0, total(load_->lost_s())), busy_s = total(load_->busy_s());
    constexpr double kMostLost = 0.95;
    return lost_s < kMostLost * busy_s ? std::optional(lost_s / (busy_s - lost_s)) : std::nullopt;
  }

  void forget_load() {
    if (load_) load_->forget();
  }

 private:
  template <typename T>
  static Collective collective(Collective::Kind kind, T* data, size_t count) {
    const Buffer buffer = comm::host_buffer(data, count);
    return {.kind = kind, .input = buffer, .output = buffer};
  }
  template <typename T>
  T total(T own) {
    comm_.run(collective(Collective::Kind::kAllReduce, &own, 1));
    return own;
  }

  /// For Lane::run.
  const comm::SigpipeBlock no_sigpipe_;
  comm::Communicator& comm_;
  const Pacing& pacing_;
  std::vector<Lane> lanes_;
  std::unique_ptr<ComputeLoad> load_;
};

}  // namespace

void settle(Row& row) {
  const Operation& operation = operations().get(row.collective);
  const auto width = int64_t(comm::element_bytes(dtype_named(row.dtype)));
  if (row.place != kInPlace && row.place != kOutOfPlace)
    throw ConfigError(fmt::format("--place takes in or out, not '{}'", row.place));
  if (!operation.kind && row.ranks < 2)
    throw ConfigError("send_recv needs two ranks or more", "Add 2 to --ranks.");
  const int64_t parts = operation.parts ? row.ranks : 1;
  row.count = std::max<int64_t>(1, row.bytes / (parts * width));
  row.bytes = row.count * parts * width;
  using Kind = Collective::Kind;
  const bool sums = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce ||
                    operation.kind == Kind::kReduceScatter;
  row.op = sums ? "sum" : "none";
}

int64_t buffer_bytes(const Row& row) {
  const size_t in = Lane::in_elements(row), out = Lane::out_elements(row);
  const size_t elements = Lane::out_of_place(row) ? in + out : std::max(in, out);
  return int64_t(elements * comm::element_bytes(dtype_named(row.dtype))) * row.at_a_time;
}

void measure_row(Row& row, std::span<comm::Communicator* const> lanes, const Pacing& pacing,
                 const std::function<void(int64_t)>& finished) {
  RowMeasurement rank(row, lanes, pacing);
  int64_t wrong = rank.check();
  std::vector<double> times_s;
  for (int i = 0; i < pacing.warmup; ++i) times_s.push_back(rank.iterate());
  const int iterations = rank.iterations(times_s);
  times_s.clear();
  rank.forget_load();
  for (int i = 1; i <= iterations; ++i) {
    times_s.push_back(rank.iterate());
    finished(i);
  }
  row.iteration_s = rank.longest(std::move(times_s));
  row.phi_c = rank.phi_c();
  wrong += rank.check();
  if (pacing.check) row.wrong = wrong;
}

}  // namespace lockstep::collectives
