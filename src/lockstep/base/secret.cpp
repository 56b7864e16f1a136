#include "lockstep/base/secret.h"

#include <cstdlib>

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plain_text.h"

namespace lockstep {
namespace {

constexpr size_t kSecretBytes = 16;
constexpr size_t kLeastCharacters = 2 * kSecretBytes;
constexpr const char* kHowToMake = "Make one with: (umask 077; openssl rand -hex 16 > FILE)";

void start_sodium() {
  if (::sodium_init() < 0) throw Error("the system gives no random numbers");
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string checked(std::string secret, const std::string& where) {
  if (secret.size() >= kLeastCharacters) return secret;
  throw ConfigError(fmt::format("the token in {} has {} characters, and {} is the least", where,
                                secret.size(), kLeastCharacters),
                    kHowToMake);
}

std::string read_private_file(const char* name) {
  struct stat status {};
  if (::stat(name, &status) == 0 && (status.st_mode & 0077) != 0) {
    throw ConfigError(fmt::format("LOCKSTEP_TOKEN_FILE={}: other users may read it", name),
                      fmt::format("Take that right away (chmod 600 {}), and make a new token.", name));
  }
  return std::string(trimmed(read_file(name)));
}

}  // namespace

std::string to_hexadecimal(std::string_view bytes) {
  std::string digits(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(digits.data(), digits.size(), bytes_of(bytes), bytes.size());
  digits.pop_back();
  return digits;
}

std::string from_hexadecimal(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  size_t count = 0;
  const bool whole =
      digits.size() % 2 == 0 && ::sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                                 digits.data(), digits.size(), nullptr, &count, nullptr) == 0;
  if (!whole || count != bytes.size()) throw Error("these are no hexadecimal digits");
  return bytes;
}

std::string random_secret() {
  start_sodium();
  std::string bytes(kSecretBytes, '\0');
  ::randombytes_buf(bytes.data(), bytes.size());
  return to_hexadecimal(bytes);
}

std::string key_from(std::string_view secret) {
  start_sodium();
  std::string key(crypto_hash_sha256_BYTES, '\0');
  ::crypto_hash_sha256(reinterpret_cast<unsigned char*>(key.data()), bytes_of(secret), secret.size());
  return key;
}

std::string answer_to(std::string_view question, std::string_view secret) {
  const std::string key = key_from(secret);
  static_assert(crypto_auth_KEYBYTES == crypto_hash_sha256_BYTES);
  std::string answer(crypto_auth_BYTES, '\0');
  ::crypto_auth(reinterpret_cast<unsigned char*>(answer.data()), bytes_of(question), question.size(),
                bytes_of(key));
  return to_hexadecimal(answer);
}

bool is_same_answer(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string secret_of_user(const VariableLookup& lookup) {
  const char* text = lookup("LOCKSTEP_TOKEN");
  if (text != nullptr && *text != '\0') return checked(text, "LOCKSTEP_TOKEN");
  const char* file = lookup("LOCKSTEP_TOKEN_FILE");
  if (file != nullptr && *file != '\0') return checked(read_private_file(file), file);
  return "";
}

std::string secret_of_user() {
  return secret_of_user([](const char* name) { return std::getenv(name); });
}

}  // namespace lockstep
