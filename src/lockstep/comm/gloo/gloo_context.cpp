#include "lockstep/comm/gloo/gloo_context.h"

#include <algorithm>

#include <gloo/rendezvous/store.h>

#include "lockstep/comm/gloo/gloo_device.h"
#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

class StoreForGloo final : public gloo::rendezvous::Store {
 public:
  StoreForGloo(comm::Store& store, std::string prefix, Deadline deadline)
      : store_(store), prefix_(std::move(prefix)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + "/" + key, std::string(data.begin(), data.end()));
  }

  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(prefix_ + "/" + key, time_left(deadline_));
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  comm::Store& store_;
  const std::string prefix_;
  const Deadline deadline_;
};

}  // namespace

std::chrono::milliseconds milliseconds_left(Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time_left(deadline));
}

std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size,
                                                    std::shared_ptr<gloo::transport::Device>& device,
                                                    Deadline deadline) {
  const SigpipeBlock deaf;
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  // Gloo gives a first connection five times the context's time-out; operations bring their own.
  context->setTimeout(std::max(std::chrono::milliseconds(1), milliseconds_left(deadline) / 5));
  StoreForGloo adapter(store, prefix, deadline);
  context->connectFullMesh(adapter, device);
  return context;
}

void break_gloo_connections(gloo::Context& context) noexcept {
  // Gloo has no call for it, but a time-out of any operation closes all connections and wakes all waiters:
  // wait for a message that nobody sends.
  try {
    const SigpipeBlock deaf;
    char nothing = 0;
    context.createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, std::chrono::milliseconds(1));
  } catch (...) {
  }
}

}  // namespace lockstep::comm
