#pragma once

#include <string>

namespace lockstep::feed {

// Keys of ZeroMQ's CURVE mechanism that follow from the user's token (base/secret.h), as docs/inputs.md
// describes for authors of producers: the secret key of the ranks is the SHA-256 of the token. A producer has
// to know the public key that belongs to it, which is never sent; so only producers that know the token get
// in, and messages are encrypted.

struct CurveKeys {
  /// As ZeroMQ writes them: 40 characters of Z85.
  std::string secret_key;
  std::string public_key;
};

/// The keys of the ranks.
CurveKeys keys_of_ranks(const std::string& token);

/// New keys, as every producer has its own.
CurveKeys new_keys();

/// Whether processes of other users can reach `address`, unless they are asked for a token: all but paths of
/// the file system, which have permissions.
bool is_open_to_others(const std::string& address);

}  // namespace lockstep::feed
