#include "lockstep/train/unpickle.h"

#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using at::IValue;

/// Of one tensor; more is no shape.
constexpr size_t kMostDimensions = 64;

std::optional<at::ScalarType> type_of_storage(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types{
      {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};
  const auto found = types.find(name);
  if (found == types.end()) return std::nullopt;
  return found->second;
}

/// What lies on the stack: a value, or the name of something that only Python has.
struct Item {
  IValue value;
  std::string global;
};

class Reader {
 public:
  Reader(std::string_view pickle, const std::function<StorageBytes(const std::string&)>& read_storage)
      : rest_(pickle), read_storage_(read_storage) {}

  IValue read() {
    while (true) {
      const char opcode = take(1)[0];
      if (opcode == '.') return pop_value();
      step(opcode);
    }
  }

 private:
  void step(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        take(1);
        return;
      case 'c': {  // GLOBAL
        const std::string module(line());
        stack_.push_back({{}, module + "." + std::string(line())});
        return;
      }
      case 'q':  // BINPUT
        memo_[number<uint8_t>()] = top();
        return;
      case 'r':  // LONG_BINPUT
        memo_[number<uint32_t>()] = top();
        return;
      case 'h':  // BINGET
        return recall(number<uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<uint32_t>());
      case 'N':  // NONE
        return push({});
      case '\x88':  // NEWTRUE
        return push(true);
      case '\x89':  // NEWFALSE
        return push(false);
      case 'K':  // BININT1
        return push(int64_t{number<uint8_t>()});
      case 'M':  // BININT2
        return push(int64_t{number<uint16_t>()});
      case 'J':  // BININT
        return push(int64_t{number<int32_t>()});
      case '\x8a':  // LONG1
        return push(long_number());
      case 'G':  // BINFLOAT
        return push(float_number());
      case 'X':  // BINUNICODE
        return push(std::string(take(number<uint32_t>())));
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return;
      case ')':  // EMPTY_TUPLE
      case ']':  // EMPTY_LIST
        return push(List(c10::AnyType::get()));
      case '}':  // EMPTY_DICT
        return push(Dict(c10::AnyType::get(), c10::AnyType::get()));
      default:
        step_on_aggregate(opcode);
    }
  }

  void step_on_aggregate(char opcode) {
    switch (opcode) {
      case 't':  // TUPLE
        return push_tuple(take_marked());
      case '\x85':  // TUPLE1
      case '\x86':  // TUPLE2
      case '\x87':  // TUPLE3
        return push_tuple(take_items(static_cast<size_t>(opcode - '\x84')));
      case 'a':  // APPEND
        return append(take_items(1));
      case 'e':  // APPENDS
        return append(take_marked());
      case 's':  // SETITEM
        return set_items(take_items(2));
      case 'u':  // SETITEMS
        return set_items(take_marked());
      case 'Q':  // BINPERSID: a storage, which its tensor reads
        if (!top().value.isList()) refuse("a storage without a description");
        return;
      case 'b':  // BUILD: an OrderedDict's attributes
        take_items(1);
        if (!top().value.isGenericDict()) refuse("an object that is no dictionary");
        return;
      case 'R':  // REDUCE
        return reduce();
      default:
        refuse(fmt::format("the instruction {:#04x}", static_cast<unsigned char>(opcode)));
    }
  }

  void reduce() {
    const Item arguments = pop();
    const Item function = pop();
    if (!arguments.value.isList()) refuse("a call without arguments");
    if (function.global == "collections.OrderedDict" && arguments.value.toListRef().empty()) {
      return push(Dict(c10::AnyType::get(), c10::AnyType::get()));
    }
    if (function.global == "torch._utils._rebuild_tensor_v2") {
      return push(tensor(arguments.value.toListRef()));
    }
    if (function.global == "torch._utils._rebuild_parameter" && !arguments.value.toListRef().empty()) {
      return push(IValue(arguments.value.toListRef()[0]));
    }
    refuse("a " + (function.global.empty() ? "call" : function.global));
  }

  /// Of (storage, offset, sizes, strides, requires_grad, hooks).
  at::Tensor tensor(at::ArrayRef<IValue> arguments) {
    if (arguments.size() < 4 || !arguments[0].isList() || !arguments[1].isInt()) refuse("half a tensor");
    const at::Tensor storage = storage_of(arguments[0].toListRef());
    const std::vector<int64_t> sizes = integers(arguments[2]);
    const std::vector<int64_t> strides = integers(arguments[3]);
    const int64_t offset = arguments[1].toInt();
    // Where the last element lies, without the chance of an overflow.
    double last = static_cast<double>(offset);
    bool sound = offset >= 0 && sizes.size() == strides.size() && sizes.size() <= kMostDimensions;
    bool empty = false;
    for (size_t i = 0; sound && i < sizes.size(); ++i) {
      sound = sizes[i] >= 0 && strides[i] >= 0;
      empty = empty || sizes[i] == 0;
      last += static_cast<double>(sizes[i] - 1) * static_cast<double>(strides[i]);
    }
    if (!sound || (!empty && last >= static_cast<double>(storage.numel()))) {
      refuse("a tensor larger than its storage");
    }
    if (empty) return at::empty(sizes, storage.options());
    return storage.as_strided(sizes, strides, offset);
  }

  /// Of ("storage", type, key, location, number of elements).
  at::Tensor storage_of(at::ArrayRef<IValue> description) {
    if (description.size() != 5 || !description[1].isString() || !description[2].isString() ||
        !description[4].isInt()) {
      refuse("a storage of an unknown form");
    }
    const std::string& type_name = description[1].toStringRef();
    const std::optional<at::ScalarType> type = type_of_storage(type_name);
    if (!type) refuse("a " + type_name);
    const std::string& key = description[2].toStringRef();
    const int64_t count = description[4].toInt();
    const std::string name = type_name + " " + key;
    if (const auto known = storages_.find(name); known != storages_.end()) return known->second;
    const StorageBytes memory = read_storage_(key);
    const size_t element_bytes = c10::elementSize(*type);
    if (count < 0 || memory.bytes / element_bytes < static_cast<size_t>(count)) {
      refuse(fmt::format("a storage of {} elements in {} bytes", count, memory.bytes));
    }
    const at::Tensor storage = at::empty({count}, *type);
    if (count > 0) {
      std::memcpy(storage.mutable_data_ptr(), memory.data.get(), static_cast<size_t>(count) * element_bytes);
    }
    storages_[name] = storage;
    return storage;
  }

  std::vector<int64_t> integers(const IValue& list) const {
    std::vector<int64_t> found;
    if (!list.isList()) refuse("a shape that is no list");
    for (const IValue& value : list.toListRef()) {
      if (!value.isInt()) refuse("a shape that is not of whole numbers");
      found.push_back(value.toInt());
    }
    return found;
  }

  void push(IValue value) { stack_.push_back({std::move(value), ""}); }

  /// A class stands in a tuple by its name.
  void push_tuple(std::vector<Item> items) {
    List list(c10::AnyType::get());
    for (Item& item : items) list.push_back(item.global.empty() ? item.value : IValue(item.global));
    push(std::move(list));
  }

  void append(std::vector<Item> items) {
    if (!top().value.isList()) refuse("an addition to what is no list");
    List list = top().value.toList();
    for (Item& item : items) list.push_back(value_of(item));
  }

  void set_items(std::vector<Item> items) {
    if (!top().value.isGenericDict() || items.size() % 2 != 0) refuse("entries of what is no dictionary");
    Dict dict = top().value.toGenericDict();
    for (size_t i = 0; i < items.size(); i += 2) {
      const IValue key = value_of(items[i]);
      if (!key.isString() && !key.isInt()) refuse("a key that is neither text nor number");
      dict.insert_or_assign(key, value_of(items[i + 1]));
    }
  }

  void recall(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("something that it does not hold");
    stack_.push_back(found->second);
  }

  Item& top() {
    if (stack_.size() <= floor()) refuse("more than it holds");
    return stack_.back();
  }

  Item pop() {
    Item item = std::move(top());
    stack_.pop_back();
    return item;
  }

  const IValue& value_of(const Item& item) const {
    if (!item.global.empty()) refuse("a " + item.global);
    return item.value;
  }

  IValue pop_value() { return value_of(pop()); }

  std::vector<Item> take_items(size_t count) {
    if (stack_.size() - floor() < count) refuse("more than it holds");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Item> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  std::vector<Item> take_marked() {
    if (marks_.empty()) refuse("an end without a beginning");
    const size_t count = stack_.size() - marks_.back();
    std::vector<Item> items = take_items(count);
    marks_.pop_back();
    return items;
  }

  /// What lies below belongs to something that is not complete.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::string_view take(size_t count) {
    if (rest_.size() < count) throw Error("it ends in the middle");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) throw Error("it ends in the middle");
    const std::string_view taken = take(end);
    take(1);
    return taken;
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  int64_t long_number() {
    const std::string_view bytes = take(number<uint8_t>());
    if (bytes.size() > sizeof(int64_t)) refuse("a number of more than 64 bits");
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
    return static_cast<int64_t>(value);
  }

  /// Most significant byte first.
  double float_number() {
    uint64_t bits = 0;
    for (const char byte : take(sizeof(bits))) bits = bits << 8U | static_cast<unsigned char>(byte);
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("it asks for " + what,
                "Files of dictionaries, lists, tensors, texts and numbers can be read: a state_dict, for "
                "example, saved as torch.save(model.state_dict(), FILE).");
  }

  using Dict = c10::impl::GenericDict;
  using List = c10::impl::GenericList;

  std::string_view rest_;
  const std::function<StorageBytes(const std::string&)>& read_storage_;
  std::vector<Item> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, Item> memo_;
  /// By type and key.
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace

at::IValue unpickle(std::string_view pickle,
                    const std::function<StorageBytes(const std::string& key)>& read_storage) {
  return Reader(pickle, read_storage).read();
}

}  // namespace lockstep::train
