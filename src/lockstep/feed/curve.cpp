#include "lockstep/feed/curve.h"

#include <zmq.h>

#include "lockstep/base/error.h"
#include "lockstep/base/secret.h"

namespace lockstep::feed {
namespace {

/// 40 characters and the zero byte behind them.
constexpr size_t kKeyCharacters = 41;

void require(bool works) {
  if (works) return;
  throw BackendMissing("this ZeroMQ was built without CURVE, which batches under a token need",
                       "Use Debian's libzmq5, or an address of the form ipc:///tmp/NAME without a token.");
}

}  // namespace

CurveKeys keys_of_ranks(const std::string& token) {
  require(::zmq_has("curve") == 1);
  const std::string key = key_from(token);
  char secret_key[kKeyCharacters] = {};
  char public_key[kKeyCharacters] = {};
  ::zmq_z85_encode(secret_key, reinterpret_cast<const uint8_t*>(key.data()), key.size());
  require(::zmq_curve_public(public_key, secret_key) == 0);
  return {secret_key, public_key};
}

CurveKeys new_keys() {
  char secret_key[kKeyCharacters] = {};
  char public_key[kKeyCharacters] = {};
  require(::zmq_curve_keypair(public_key, secret_key) == 0);
  return {secret_key, public_key};
}

bool is_open_to_others(const std::string& address) {
  return !address.starts_with("ipc://") || address.starts_with("ipc://@");
}

}  // namespace lockstep::feed
