#include "lockstep/comm/gloo/gloo_context.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>
#include <gloo/rendezvous/store.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo/gloo_device.h"
#include "lockstep/comm/helper_thread.h"

namespace lockstep::comm {
namespace {

/// lockstep's store as the one that Gloo expects.
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

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// Strips the place in Gloo's source that its messages begin with: "[.../pair.cc:598] Connection closed by
/// peer [127.0.0.1]:4242".
std::string without_source_place(std::string text) {
  if (text.empty() || text.front() != '[') return text;
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

std::chrono::milliseconds milliseconds_left(Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time_left(deadline));
}

std::shared_ptr<gloo::Context> connect_gloo_context(Store& store, const std::string& prefix, int rank,
                                                    int size,
                                                    std::shared_ptr<gloo::transport::Device>& device,
                                                    Deadline deadline) {
  const SigpipeBlock no_sigpipe;
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  // Gloo grants a first connection five times the context's time-out; operations set their own.
  context->setTimeout(std::max(std::chrono::milliseconds(1), milliseconds_left(deadline) / 5));
  StoreForGloo adapter(store, prefix, deadline);
  context->connectFullMesh(adapter, device);
  return context;
}

void break_gloo_connections(gloo::Context& context) noexcept {
  // Gloo has no call for this, but a time-out of any operation closes all connections and wakes all waiters:
  // wait for a message that no rank sends.
  try {
    const SigpipeBlock no_sigpipe;
    char nothing = 0;
    context.createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, std::chrono::milliseconds(1));
  } catch (...) {
  }
}

void rethrow_gloo_exception() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = "Gloo: " + without_source_place(error.what());
    if (contains_any(
            text, {"closed by peer", "reset by peer", "Broken pipe", "socket closed", "closed connection"})) {
      throw PeerLostError(text, "another rank ended or lost its network; its own output says why");
    }
    if (contains_any(text, {"imed out", "imeout"})) {
      throw TimeoutError(text, "check that every rank is alive and takes the same steps");
    }
    throw CommError(text);
  }
}

}  // namespace lockstep::comm
