#include "lockstep/collectives/measure.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/half_float.h"
#include "lockstep/collectives/record.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/measure/series.h"

namespace lockstep::collectives {
namespace {

using comm::Buffer;
using comm::Collective;

/// Computing beside communication: products of small matrices, and passes over memory that no
/// cache holds, some four fifths and one fifth of the time, as in a training step. The calling thread and
/// `threads` - 1 others, which inherit its processors, compute in blocks of some 30 us.
class ComputeLoad {
 public:
  explicit ComputeLoad(int threads);
  ~ComputeLoad();
  ComputeLoad(const ComputeLoad&) = delete;
  ComputeLoad& operator=(const ComputeLoad&) = delete;

  /// Times a block of the calling thread where nothing communicates.
  void time_alone();

  /// Computes until all works are complete, or have failed. Returns the time on the steady clock of the last
  /// one's completion. `begin_s`: when the first was issued.
  double until_complete(std::span<const comm::WorkPtr> works, double begin_s);

  /// Seconds since forget() in which works were in flight, and those of them in which nothing was computed.
  double busy_s() const { return busy_s_; }
  double lost_s() const { return lost_s_; }
  void forget() { busy_s_ = lost_s_ = 0; }

 private:
  class Blocks;

  std::unique_ptr<Blocks> own_;
  std::atomic<bool> computing_{false};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> others_;
  double alone_s_ = 0;
  double busy_s_ = 0;
  double lost_s_ = 0;
};

/// The work of one thread.
class ComputeLoad::Blocks {
 public:
  void compute() {
    multiply();
    pass_over_memory();
  }

 private:
  static constexpr size_t kSide = 64;
  using Matrix = std::array<float, kSide * kSide>;

  void multiply() {
    for (size_t row = 0; row < kSide; ++row) {
      for (size_t inner = 0; inner < kSide; ++inner) {
        const float factor = a_[row * kSide + inner];
        for (size_t column = 0; column < kSide; ++column)
          c_[row * kSide + column] += factor * b_[inner * kSide + column];
      }
    }
    for (float& value : c_) value *= 0.5F;
    // Without it, the compiler could leave the product out.
    result_ = c_[next_ % c_.size()];
  }

  void pass_over_memory() {
    constexpr size_t kFloats = 4096;
    float* const begin = memory_.data() + next_;
    for (size_t i = 0; i < kFloats; ++i) begin[i] = begin[i] * 0.5F + 1;
    next_ = (next_ + kFloats) % memory_.size();
  }

  static Matrix filled(float value) {
    Matrix matrix;
    matrix.fill(value);
    return matrix;
  }

  Matrix a_ = filled(0.5F), b_ = filled(0.01F), c_ = filled(0);
  volatile float result_ = 0;
  std::vector<float> memory_ = std::vector<float>(size_t{8} << 20, 1.F);
  size_t next_ = 0;
};

ComputeLoad::ComputeLoad(int threads) : own_(std::make_unique<Blocks>()) {
  for (int i = 1; i < threads; ++i) {
    others_.emplace_back([this] {
      Blocks blocks;
      while (!ending_) {
        if (!computing_) computing_.wait(false);
        if (!ending_) blocks.compute();
      }
    });
  }
}

ComputeLoad::~ComputeLoad() {
  ending_ = computing_ = true;
  computing_.notify_all();
  for (std::thread& other : others_) other.join();
}

void ComputeLoad::time_alone() {
  computing_ = true;
  computing_.notify_all();
  constexpr double kEnough_s = 0.03;
  std::vector<double> blocks_s;
  for (const double begin_s = now_s(); now_s() < begin_s + kEnough_s;) {
    const double block_s = now_s();
    own_->compute();
    blocks_s.push_back(now_s() - block_s);
  }
  computing_ = false;
  alone_s_ = measure::median_of(blocks_s);
}

double ComputeLoad::until_complete(std::span<const comm::WorkPtr> works, double begin_s) {
  struct Completion {
    std::mutex mutex;
    size_t left;
    double at_s = 0;
    std::atomic<bool> all{false};
  };
  // Shared with the callbacks, which may still run when this has returned.
  const auto completion = std::make_shared<Completion>();
  completion->left = works.size();
  for (const comm::WorkPtr& work : works) {
    work->on_complete([completion] {
      const std::lock_guard lock(completion->mutex);
      completion->at_s = now_s();
      if (--completion->left == 0) completion->all = true;
    });
  }
  computing_ = true;
  computing_.notify_all();
  double blocks = 0;
  for (; !completion->all; ++blocks) own_->compute();
  computing_ = false;
  busy_s_ += completion->at_s - begin_s;
  lost_s_ += now_s() - begin_s - blocks * alone_s_;
  return completion->at_s;
}

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

constexpr int kLargestPeriod = 113;
constexpr size_t kPeriods = 64;

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string element(comm::DType dtype, int value) {
  switch (dtype) {
    case comm::DType::kFloat64:
      return bytes_of(double(value));
    case comm::DType::kFloat16:
      return bytes_of(float_to_float16(float(value)));
    case comm::DType::kBFloat16:
      return bytes_of(float_to_bfloat16(float(value)));
    case comm::DType::kUInt8:
      return bytes_of(uint8_t(value));
    case comm::DType::kInt32:
      return bytes_of(int32_t(value));
    case comm::DType::kInt64:
      return bytes_of(int64_t(value));
    case comm::DType::kFloat32:
      break;
  }
  return bytes_of(float(value));
}

/// Time until a stream runs evenly, and in which it is measured.
constexpr double kStart_s = 0.05;
constexpr double kMeasured_s = 0.2;
constexpr size_t kChunkBytes = size_t{1} << 20;

void meet(comm::Communicator& group) {
  group.run({.kind = comm::Collective::Kind::kBarrier});
}

/// Collective.
double least(comm::Communicator& group, double own) {
  const comm::Buffer buffer = comm::host_buffer(&own, 1);
  group.run({.kind = comm::Collective::Kind::kAllReduce,
             .input = buffer,
             .output = buffer,
             .op = comm::ReduceOp::kMin});
  return own;
}

/// Bytes that were sent or received, 0 where that would block.
size_t moved(ssize_t result) {
  if (result > 0) return static_cast<size_t>(result);
  if (result < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  throw CommError(fmt::format("a connection for measuring the link broke: {}",
                              result == 0 ? "closed by the other rank" : std::strerror(errno)));
}

/// Median of half the round trips of 8 bytes.
double half_round_trip_s(int peer, bool first) {
  constexpr int kTrips = 200;
  std::vector<double> halves_s;
  char message[8] = "";
  const auto receive = [&] {
    for (size_t got = 0; got < sizeof message;)
      got += moved(::recv(peer, message + got, sizeof message - got, MSG_WAITALL));
  };
  for (int i = 0; i < kTrips; ++i) {
    const double begin_s = now_s();
    if (first) moved(::send(peer, message, sizeof message, MSG_NOSIGNAL));
    receive();
    if (!first) moved(::send(peer, message, sizeof message, MSG_NOSIGNAL));
    halves_s.push_back((now_s() - begin_s) / 2);
  }
  return measure::median_of(halves_s);
}

Link link_of(const comm::Communicator& group, const char* kind) {
  return {.backend = group.backend(), .ranks = group.size(), .kind = kind};
}

}  // namespace

void settle(Row& row) {
  const Operation& operation = operations().get(row.collective);
  const auto width = int64_t(comm::element_bytes(dtype_named(row.dtype)));
  if (row.place != kInPlace && row.place != kOutOfPlace)
    throw ConfigError(fmt::format("--place takes in or out, not '{}'", row.place));
  if (!operation.kind && row.ranks < 2)
    throw ConfigError("send_recv needs two ranks or more", "Add 2 to --ranks.");
  if (row.bytes < width)
    throw ConfigError(fmt::format("{} bytes are less than an element of {}", row.bytes, row.dtype),
                      "Give larger --sizes, or --dtype uint8.");
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

TestValues::TestValues(comm::DType dtype, int ranks, int rank)
    : width_(comm::element_bytes(dtype)), period_(size_t(std::clamp(255 / ranks, 2, kLargestPeriod))) {
  const auto value_of = [&](int of_rank, size_t i) { return int((size_t(of_rank) * 31 + i) % period_); };
  for (size_t i = 0; i < kPeriods * period_; ++i) {
    int value = rank < 0 ? 0 : value_of(rank, i);
    for (int each = 0; rank < 0 && each < ranks; ++each) value += value_of(each, i);
    tile_ += element(dtype, value);
  }
}

template <typename Visit>
void TestValues::in_runs(size_t first, size_t count, Visit visit) const {
  for (size_t done = 0; done < count;) {
    const size_t begin = (first + done) % period_;
    const size_t run = std::min(count - done, kPeriods * period_ - begin);
    visit(done * width_, begin * width_, run * width_);
    done += run;
  }
}

void TestValues::fill(void* data, size_t first, size_t count) const {
  in_runs(first, count, [&](size_t place, size_t in_tile, size_t bytes) {
    std::memcpy(static_cast<char*>(data) + place, tile_.data() + in_tile, bytes);
  });
}

int64_t TestValues::count_wrong(const void* data, size_t first, size_t count) const {
  int64_t wrong = 0;
  in_runs(first, count, [&](size_t place, size_t in_tile, size_t bytes) {
    const char* found = static_cast<const char*>(data) + place;
    const char* expected = tile_.data() + in_tile;
    if (std::memcmp(found, expected, bytes) == 0) return;
    for (size_t i = 0; i < bytes; i += width_) wrong += std::memcmp(found + i, expected + i, width_) != 0;
  });
  return wrong;
}

double stream(int to, int from) {
  std::vector<char> sent(kChunkBytes), received(kChunkBytes);
  const double begin_s = now_s() + kStart_s;
  double bytes = 0;
  // Goes on a little, so that all ranks have both directions in use as long as one measures.
  while (now_s() < begin_s + kMeasured_s + kStart_s) {
    pollfd wanted[] = {{to, POLLOUT, 0}, {from, POLLIN, 0}};
    ::poll(wanted, 2, 10);
    if ((wanted[0].revents & POLLOUT) != 0)
      moved(::send(to, sent.data(), sent.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    if (wanted[1].revents == 0) continue;
    const size_t got = moved(::recv(from, received.data(), received.size(), MSG_DONTWAIT));
    if (now_s() >= begin_s && now_s() < begin_s + kMeasured_s) bytes += static_cast<double>(got);
  }
  return bytes / kMeasured_s;
}

Link measure_memory(comm::Communicator& group) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<char> from(kBytes, 'a'), to(kBytes, 'b');
  meet(group);
  const double begin_s = now_s();
  double copies = 0;
  for (; now_s() < begin_s + kMeasured_s; ++copies) {
    // Another value each time, or the compiler could copy once.
    from[0] = static_cast<char>(copies);
    std::memcpy(to.data(), from.data(), kBytes);
  }
  Link link = link_of(group, "memory");
  link.gb_per_s = least(group, copies * double(kBytes) / (now_s() - begin_s)) / 1e9;
  return link;
}

Link measure_sockets(comm::Communicator& group, std::vector<UniqueFd> connections) {
  const int rank = group.rank(), ranks = group.size();
  const auto at = [&](int peer) { return connections[size_t(peer)].get(); };
  meet(group);
  Link link = link_of(group, "sockets");
  const double half_s = rank < 2 ? half_round_trip_s(at(1 - rank), rank == 0) : 1e9;
  link.latency_s = least(group, half_s);
  link.gb_per_s = least(group, stream(at((rank + 1) % ranks), at((rank + ranks - 1) % ranks))) / 1e9;
  return link;
}

}  // namespace lockstep::collectives
