#include "lockstep/base/hexadecimal.h"

#include <sodium.h>

#include "lockstep/base/error.h"

namespace lockstep {

std::string to_hexadecimal(std::string_view bytes) {
  std::string digits(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(digits.data(), digits.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                   bytes.size());
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

}  // namespace lockstep
