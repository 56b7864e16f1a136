// Changes JSON as JSON: random bytes hardly ever pass the parser, and what is to be tested comes after it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using nlohmann::json;

void collect(json& node, std::vector<json*>& nodes) {
  nodes.push_back(&node);
  if (node.is_structured()) {
    for (json& child : node) collect(child, nodes);
  }
}

json strange_value(std::mt19937& dice) {
  static const std::vector<json> values{nullptr,
                                        true,
                                        "",
                                        "ddp",
                                        "single",
                                        "independent",
                                        "\xC3\xA4\x01",
                                        "<b>&\"'</b>",
                                        0,
                                        1,
                                        -1,
                                        2,
                                        10000,
                                        2147483647,
                                        -2147483648.,
                                        1e300,
                                        -1e300,
                                        5e-324,
                                        0.5,
                                        1e-9,
                                        INT64_MAX,
                                        INT64_MIN,
                                        UINT64_MAX,
                                        json::array(),
                                        json::object(),
                                        "1e999",
                                        1048576,
                                        json({0, 0}),
                                        json({0.5}),
                                        json({json({0.5, 0.25})})};
  return values[dice() % values.size()];
}

void change(json& node, std::mt19937& dice) {
  if (node.is_array() && !node.empty()) {
    const size_t at = dice() % node.size();
    switch (dice() % 4) {
      case 0:
        node.erase(at);
        return;
      case 1:
        node.push_back(json(node[at]));
        return;
      case 2:
        node.clear();
        return;
      default:
        node[at] = strange_value(dice);
        return;
    }
  }
  if (node.is_object() && !node.empty()) {
    auto member = node.begin();
    std::advance(member, dice() % node.size());
    if (dice() % 2 == 0) {
      node.erase(member);
    } else {
      *member = strange_value(dice);
    }
    return;
  }
  if (node.is_number() && dice() % 2 == 0) {
    constexpr double kFactors[] = {-1, 2, 1e-3, 1e6, 0};
    node = node.get<double>() * kFactors[dice() % std::size(kFactors)];
    return;
  }
  node = strange_value(dice);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 dice(seed);
  json document = json::parse(data, data + size, nullptr, false);
  if (document.is_discarded() || dice() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  const size_t changes = 1 + dice() % 3;
  for (size_t i = 0; i < changes; ++i) {
    std::vector<json*> nodes;
    collect(document, nodes);
    change(*nodes[dice() % nodes.size()], dice);
  }
  const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
// NOLINTEND(readability-identifier-naming)
