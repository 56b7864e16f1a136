#include "lockstep/pickle/reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/pickle/levels.h"

namespace lockstep::pickle {
namespace {

/// The most dimensions of a tensor; a longer list is no shape.
constexpr size_t kMostDimensions = 64;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("it asks for " + what,
              "Files of dictionaries, lists, tensors, texts and numbers can be read: a state_dict, for "
              "example, saved as torch.save(model.state_dict(), FILE).");
}

template <typename T>
const T* as(const Value* value) {
  return std::get_if<T>(&value->content);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Pickle read() {
    while (true) {
      const char opcode = take(1)[0];
      if (opcode == '.') break;
      step(opcode);
    }
    pickle_.root = without_global(pop());
    check_levels(*pickle_.root);
    return std::move(pickle_);
  }

 private:
  /// Protocol 2 is a program for a stack machine. Instructions push values; MARK remembers the height of the
  /// stack, and the instructions for tuples, lists and dictionaries take everything above the last mark:
  ///
  ///   } q0 ( X "bias" ... tensor u .      {} memo 0 [mark] "bias" tensor  ->  {"bias": tensor}
  ///
  /// Numbers are little endian, except in BINFLOAT.
  void step(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        take(1);
        return;
      case 'c': {  // GLOBAL
        const std::string module(line());
        return push(Global{module + "." + std::string(line())});
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
        return push(std::monostate());
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
        return push(List());
      case '}':  // EMPTY_DICT
        return push(Dict());
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
      case 'Q':  // BINPERSID: a storage, which its tensor describes
        if (as<List>(top()) == nullptr) refuse("a storage without a description");
        return;
      case 'b':  // BUILD: an OrderedDict's attributes
        take_items(1);
        if (as<Dict>(top()) == nullptr) refuse("an object that is no dictionary");
        return;
      case 'R':  // REDUCE
        return reduce();
      default:
        refuse(fmt::format("the instruction {:#04x}", static_cast<unsigned char>(opcode)));
    }
  }

  void reduce() {
    const List* arguments = as<List>(pop());
    const Global* function = as<Global>(pop());
    if (arguments == nullptr) refuse("a call without arguments");
    if (function == nullptr) refuse("a call of what is no function");
    if (function->name == "collections.OrderedDict" && arguments->empty()) return push(Dict());
    if (function->name == "torch._utils._rebuild_tensor_v2") return push(tensor(*arguments));
    if (function->name == "torch._utils._rebuild_parameter" && !arguments->empty()) {
      const Tensor* data = as<Tensor>(arguments->front());
      if (data == nullptr) refuse("a parameter without a tensor");
      return push(*data);
    }
    refuse("a " + function->name);
  }

  /// The tensor that _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks) makes.
  static Tensor tensor(const List& arguments) {
    const List* storage = arguments.size() < 4 ? nullptr : as<List>(arguments[0]);
    const int64_t* offset = arguments.size() < 4 ? nullptr : as<int64_t>(arguments[1]);
    if (storage == nullptr || offset == nullptr) refuse("half a tensor");
    Tensor tensor = storage_of(*storage);
    tensor.offset = *offset;
    tensor.sizes = integers(arguments[2]);
    tensor.strides = integers(arguments[3]);
    // Checked here once, so that no reader of the tensor has to.
    // Place of the last element, in floating point so that no file can make it overflow.
    auto last = static_cast<double>(tensor.offset);
    bool sound = tensor.offset >= 0 && tensor.sizes.size() == tensor.strides.size();
    bool empty = false;
    // Product of the sizes without the zeros: an empty tensor's others must not overflow either.
    double most = 1;
    for (size_t i = 0; sound && i < tensor.sizes.size(); ++i) {
      sound = tensor.sizes[i] >= 0 && tensor.strides[i] >= 0;
      empty = empty || tensor.sizes[i] == 0;
      most *= static_cast<double>(std::max<int64_t>(1, tensor.sizes[i]));
      last += static_cast<double>(tensor.sizes[i] - 1) * static_cast<double>(tensor.strides[i]);
    }
    const double limit = static_cast<double>(int64_t{1} << 48U);
    if (!sound || most > limit || (!empty && last >= static_cast<double>(tensor.elements))) {
      refuse("a tensor larger than its storage");
    }
    return tensor;
  }

  /// A tensor without shape, from ("storage", type, key, location, number of elements).
  static Tensor storage_of(const List& description) {
    if (description.size() != 5) refuse("a storage of an unknown form");
    const Global* type = as<Global>(description[1]);
    const std::string* key = as<std::string>(description[2]);
    const int64_t* elements = as<int64_t>(description[4]);
    if (type == nullptr || key == nullptr || elements == nullptr || *elements < 0) {
      refuse("a storage of an unknown form");
    }
    Tensor tensor;
    tensor.type = type->name;
    tensor.key = *key;
    tensor.elements = *elements;
    return tensor;
  }

  static std::vector<int64_t> integers(const Value* value) {
    const List* list = as<List>(value);
    if (list == nullptr || list->size() > kMostDimensions) refuse("a shape that is no list of sizes");
    std::vector<int64_t> found;
    for (const Value* item : *list) {
      const int64_t* size = as<int64_t>(item);
      if (size == nullptr) refuse("a shape that is not of whole numbers");
      found.push_back(*size);
    }
    return found;
  }

  template <typename T>
  void push(T content) {
    pickle_.values.push_back({std::move(content)});
    stack_.push_back(&pickle_.values.back());
  }

  /// A class may stand in it: the type of a storage.
  void push_tuple(const std::vector<Value*>& items) { push(List(items.begin(), items.end())); }

  void append(const std::vector<Value*>& items) {
    List* list = std::get_if<List>(&top()->content);
    if (list == nullptr) refuse("an addition to what is no list");
    for (const Value* item : items) list->push_back(without_global(item));
  }

  void set_items(const std::vector<Value*>& items) {
    Dict* dict = std::get_if<Dict>(&top()->content);
    if (dict == nullptr || items.size() % 2 != 0) refuse("entries of what is no dictionary");
    for (size_t i = 0; i < items.size(); i += 2) {
      if (as<std::string>(items[i]) == nullptr && as<int64_t>(items[i]) == nullptr) {
        refuse("a key that is neither text nor number");
      }
      // A class may not be a value: only Python could make use of it.
      dict->emplace_back(items[i], without_global(items[i + 1]));
    }
  }

  void recall(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("something that it does not hold");
    stack_.push_back(found->second);
  }

  static const Value* without_global(const Value* value) {
    if (const Global* global = as<Global>(value)) refuse("a " + global->name);
    return value;
  }

  Value* top() const {
    if (stack_.size() <= floor()) refuse("more than it holds");
    return stack_.back();
  }

  Value* pop() {
    Value* value = top();
    stack_.pop_back();
    return value;
  }

  std::vector<Value*> take_items(size_t count) {
    if (stack_.size() - floor() < count) refuse("more than it holds");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Value*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  /// Items since the last mark, which is used up.
  std::vector<Value*> take_marked() {
    if (marks_.empty()) refuse("an end without a beginning");
    std::vector<Value*> items = take_items(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  /// Lowest place of the stack that may be taken; below it lies something that is not complete.
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

  std::string_view rest_;
  Pickle pickle_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, Value*> memo_;
};

}  // namespace

Pickle read(std::string_view text) {
  return Reader(text).read();
}

}  // namespace lockstep::pickle
