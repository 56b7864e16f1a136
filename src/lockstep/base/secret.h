#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

// The secrets that the processes of a job share, and proofs of holding them; bytes as text. Thread-safe.

/// Two digits for every byte.
std::string to_hexadecimal(std::string_view bytes);

/// Throws Error unless `digits` is an even number of hexadecimal digits.
std::string from_hexadecimal(std::string_view digits);

/// 128 random bits as 32 hexadecimal digits.
std::string random_secret();

/// The answer of a holder of `secret` to `question` (HMAC-SHA-512/256, in hexadecimal digits). It reveals
/// neither the secret nor the answer to another question.
std::string answer_to(std::string_view question, std::string_view secret);

/// Compares in constant time.
bool is_same_answer(std::string_view one, std::string_view other);

/// 32 bytes that follow from `secret` (SHA-256), for libraries that want a key of this size.
std::string key_from(std::string_view secret);

/// The value of an environment variable, null if it is not set.
using VariableLookup = std::function<const char*(const char* name)>;

/// The secret that the user gives all processes of a job: LOCKSTEP_TOKEN, or the content of the file that
/// LOCKSTEP_TOKEN_FILE names; empty without either. Throws ConfigError for one under 32 characters, and for a
/// file that cannot be read or that other users may read.
std::string secret_of_user(const VariableLookup& lookup);
/// From this process's environment.
std::string secret_of_user();

}  // namespace lockstep
