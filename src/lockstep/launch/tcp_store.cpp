#include "lockstep/launch/tcp_store.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

/// Clamped, since c10d passes it to poll() as an int.
milliseconds to_milliseconds(Seconds time) {
  constexpr Seconds kLongest = std::chrono::days(20);
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(std::min(time, kLongest)));
}

/// The first line only: c10's messages continue with a stack trace.
std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

class AgentStore final : public comm::Store {
 public:
  AgentStore(std::string host, const c10d::TCPStoreOptions& options)
      : host_(std::move(host)), client_(c10::make_intrusive<c10d::TCPStore>(host_, options)) {}

  void set(const std::string& key, const std::string& value) override {
    call(key, [&] { client_->set(key, std::vector<uint8_t>(value.begin(), value.end())); });
  }

  std::string get(const std::string& key, Seconds timeout) override {
    std::vector<uint8_t> value;
    call(key, [&] {
      client_->wait({key}, to_milliseconds(timeout));
      value = client_->get(key);
    });
    return {value.begin(), value.end()};
  }

  int64_t add(const std::string& key, int64_t amount) override {
    int64_t sum = 0;
    call(key, [&] { sum = client_->add(key, amount); });
    return sum;
  }

 private:
  template <typename Work>
  void call(const std::string& key, const Work& work) {
    try {
      work();
    } catch (const c10::DistStoreError&) {
      throw TimeoutError(
          fmt::format("nobody set '{}' in the launcher's store at {}:{}", key, host_, client_->getPort()),
          "Look for messages of rank 0.");
    } catch (const c10::Error& error) {
      throw PeerLostError(fmt::format("the launcher's store at {}:{} is gone: {}", host_, client_->getPort(),
                                      first_line(error)),
                          "torchrun's agent has ended: look for its messages.");
    }
  }

  const std::string host_;
  const c10::intrusive_ptr<c10d::TCPStore> client_;
};

/// Silences c10d's warnings with stack traces, which are thrown here as errors, unless the user has set a
/// level.
void quiet_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;
}

}  // namespace

std::unique_ptr<comm::Store> open_agent_store(const std::string& host, int port, Seconds timeout) {
  quiet_c10d();
  c10d::TCPStoreOptions options;
  options.waitWorkers = false;
  options.timeout = to_milliseconds(timeout);
  options.port = static_cast<uint16_t>(port);
  try {
    return std::make_unique<AgentStore>(host, options);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("no store at {}:{}: {}", host, port, first_line(error)),
                       "Check that rank 0 is running, and MASTER_ADDR and MASTER_PORT.");
  }
}

}  // namespace lockstep::launch
