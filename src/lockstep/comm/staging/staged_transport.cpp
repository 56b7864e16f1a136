#include "lockstep/comm/staging/staged_transport.h"

#include <deque>
#include <mutex>
#include <utility>

#include "lockstep/comm/staging/open_copy_engine.h"
#include "lockstep/comm/staging/staged_messages.h"
#include "lockstep/comm/staging/staging_pipeline.h"

namespace lockstep::comm {
namespace {

bool on_device(const Buffer& buffer) {
  return buffer.device == DeviceKind::kCuda;
}

class StagedTransport final : public Transport {
 public:
  StagedTransport(std::shared_ptr<Transport> host, std::shared_ptr<CopyEngine> engine, size_t piece_bytes)
      : host_(std::move(host)),
        engine_(std::move(engine)),
        piece_bytes_(piece_bytes),
        pipeline_(engine_, piece_bytes),
        messages_(*host_, engine_) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string backend() const override { return host_->backend(); }
  Capabilities capabilities() const override {
    Capabilities capabilities = host_->capabilities();
    capabilities.cuda_buffers = true;
    return capabilities;
  }

  void issuing(const Buffer& input, const Buffer& output) override {
    if (!on_device(input)) return;
    Marks marks{engine_->mark_stream(input.stream)};
    if (output.stream != input.stream) marks.push_back(engine_->mark_stream(output.stream));
    const std::lock_guard lock(mutex_);
    issued_.push_back(std::move(marks));
  }

  void all_reduce(const Buffer& buffer, ReduceOp op, Deadline by) override {
    if (!on_device(buffer)) return host_->all_reduce(buffer, op, by);
    run(one_row(buffer), [&](const Buffer& piece, const Buffer&) { host_->all_reduce(piece, op, by); });
  }

  void reduce(const Buffer& buffer, ReduceOp op, int root, Deadline by) override {
    if (!on_device(buffer)) return host_->reduce(buffer, op, root, by);
    StagedTables tables = one_row(buffer);
    tables.wants_output = rank() == root;
    run(tables, [&](const Buffer& piece, const Buffer&) { host_->reduce(piece, op, root, by); });
  }

  void broadcast(const Buffer& buffer, int root, Deadline by) override {
    if (!on_device(buffer)) return host_->broadcast(buffer, root, by);
    StagedTables tables = one_row(buffer);
    tables.reads_input = rank() == root;
    tables.wants_output = rank() != root;
    run(tables, [&](const Buffer& piece, const Buffer&) { host_->broadcast(piece, root, by); });
  }

  void all_gather(const Buffer& input, const Buffer& output, Deadline by) override {
    if (!on_device(input)) return host_->all_gather(input, output, by);
    run({.input = input, .output = output, .output_rows = size_t(size()), .columns = input.count},
        [&](const Buffer& from, const Buffer& to) { host_->all_gather(from, to, by); });
  }

  void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op, Deadline by) override {
    if (!on_device(input)) return host_->reduce_scatter(input, output, op, by);
    run({.input = input, .output = output, .input_rows = size_t(size()), .columns = output.count},
        [&](const Buffer& from, const Buffer& to) { host_->reduce_scatter(from, to, op, by); });
  }

  void all_to_all(const Buffer& input, const Buffer& output, Deadline by) override {
    if (!on_device(input)) return host_->all_to_all(input, output, by);
    const auto rows = size_t(size());
    run({.input = input,
         .output = output,
         .input_rows = rows,
         .output_rows = rows,
         .columns = input.count / rows},
        [&](const Buffer& from, const Buffer& to) { host_->all_to_all(from, to, by); });
  }

  void barrier(Deadline by) override { host_->barrier(by); }

  std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline by) override {
    std::shared_ptr<Transport> part = host_->split(ranks, by);
    if (!part) return nullptr;
    return make_staged_transport(std::move(part), engine_, piece_bytes_);
  }

  std::shared_ptr<CopyEngine> copy_engine() const override { return engine_; }

  std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline by) override {
    return on_device(buffer) ? messages_.send(buffer, peer, tag, by) : host_->send(buffer, peer, tag, by);
  }
  std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline by) override {
    return on_device(buffer) ? messages_.receive(buffer, peer, tag, by)
                             : host_->receive(buffer, peer, tag, by);
  }
  std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline by) override {
    return on_device(buffer) ? messages_.receive_any(buffer, tag, by) : host_->receive_any(buffer, tag, by);
  }

  bool messages_idle() override { return messages_.idle() && host_->messages_idle(); }

  void abort(const Failure& why) noexcept override {
    messages_.fail(why);
    host_->abort(why);
  }

  void close() noexcept override {
    messages_.stop();
    host_->close();
  }

  double helper_cpu_s() const override { return host_->helper_cpu_s() + messages_.cpu_s(); }

 private:
  using Marks = std::vector<CopyEngine::MarkPtr>;

  static StagedTables one_row(const Buffer& buffer) {
    return {.input = buffer, .output = buffer, .columns = buffer.count, .in_place = true};
  }

  void run(const StagedTables& tables, const StagingPipeline::HostCall& call) {
    Marks marks;
    {
      // Collectives are carried out in the order in which they were issued.
      const std::lock_guard lock(mutex_);
      marks = std::move(issued_.front());
      issued_.pop_front();
    }
    pipeline_.run(tables, marks, call);
  }

  const std::shared_ptr<Transport> host_;
  const std::shared_ptr<CopyEngine> engine_;
  const size_t piece_bytes_;
  StagingPipeline pipeline_;
  StagedMessages messages_;
  std::mutex mutex_;
  std::deque<Marks> issued_;
};

}  // namespace

std::shared_ptr<Transport> make_staged_transport(std::shared_ptr<Transport> host,
                                                 std::shared_ptr<CopyEngine> engine, size_t piece_bytes) {
  return std::make_shared<StagedTransport>(std::move(host), std::move(engine), piece_bytes);
}

std::shared_ptr<Transport> connect_staged(
    std::shared_ptr<Transport> (*connect)(const ConnectOptions& options), const ConnectOptions& options) {
  if (options.cuda_device < 0) return connect(options);
  std::shared_ptr<CopyEngine> engine = open_copy_engine(options.cuda_device);
  return make_staged_transport(connect(options), std::move(engine));
}

}  // namespace lockstep::comm
