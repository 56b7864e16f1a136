#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {
namespace {

/// Far beyond any machine; larger numbers are mistakes.
constexpr size_t kMostNodes = 1 << 20;
constexpr size_t kMostDigits = 6;

/// Reads a list from front to back. Anything unexpected is a ConfigError that names the variable.
class ListReader {
 public:
  ListReader(const std::string& variable, const std::string& text)
      : variable_(variable), text_(text), rest_(text_) {}

  bool at_end() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }

  bool skip(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  void require(std::string_view expected) {
    if (!skip(expected)) refuse();
  }

  /// The longest run of such characters; refuses an empty one.
  template <typename Predicate>
  std::string_view take(const Predicate& wanted) {
    size_t length = 0;
    while (length < rest_.size() && wanted(static_cast<unsigned char>(rest_[length]))) ++length;
    if (length == 0) refuse();
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  int number() {
    const std::string_view digits = take([](unsigned char c) { return std::isdigit(c) != 0; });
    if (digits.size() > kMostDigits) refuse();
    return std::stoi(std::string(digits));
  }

  [[noreturn]] void refuse() const {
    throw ConfigError(fmt::format("{}='{}' cannot be understood", variable_, text_),
                      "srun sets it; or set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT.");
  }

 private:
  const std::string variable_;
  const std::string text_;
  std::string_view rest_;
};

bool is_name_character(unsigned char c) {
  return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
}

}  // namespace

std::vector<int> expand_slurm_tasks(const std::string& variable, const std::string& text) {
  ListReader reader(variable, text);
  std::vector<int> tasks;
  do {
    const int count = reader.number();
    size_t nodes = 1;
    if (reader.skip("(x")) {
      nodes = static_cast<size_t>(reader.number());
      reader.require(")");
    }
    // Checked before anything is made: a broken variable must not take all memory.
    if (tasks.size() + nodes > kMostNodes) reader.refuse();
    tasks.insert(tasks.end(), nodes, count);
  } while (reader.skip(","));
  if (!reader.at_end()) reader.refuse();
  return tasks;
}

std::string first_slurm_host(const std::string& variable, const std::string& text) {
  ListReader reader(variable, text);
  std::string host;
  // A name may have several ranges, rack[1-2]node[01-16]: the first value of each makes the first host.
  while (!reader.at_end() && reader.peek() != ',') {
    if (reader.skip("[")) {
      host += reader.take([](unsigned char c) { return std::isdigit(c) != 0; });
      while (reader.peek() != ']') {
        reader.take([](unsigned char c) { return std::isdigit(c) != 0 || c == '-' || c == ','; });
      }
      reader.require("]");
    } else {
      host += reader.take(is_name_character);
    }
  }
  if (host.empty()) reader.refuse();
  return host;
}

}  // namespace lockstep::launch
