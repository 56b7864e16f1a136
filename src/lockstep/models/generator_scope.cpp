#include "lockstep/models/generator_scope.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace lockstep::models {
namespace {

/// A key of LibTorch's dispatcher that a thread can include, above autograd and all devices. LibTorch itself
/// uses it in tests only.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local const at::Generator* generator_of_thread = nullptr;

bool is_generator(const c10::Argument& argument) {
  const auto optional = argument.type()->cast<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

/// Gives the thread's generator to an operator that is called without one.
void with_generator(const c10::OperatorHandle& called, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = called.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    if (value.isNone() && is_generator(arguments[i])) value = *generator_of_thread;
  }
  called.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

/// Registers with_generator() for all operators that take a generator. The others do not see the key.
void register_operators() {
  // Never freed, and never unreachable, which would be a leak to the address sanitizer.
  [[gnu::used]] static const auto registered = [] {
    auto* others = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    others->fallback(torch::CppFunction::makeFallthrough());
    auto* drawing = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto found = c10::Dispatcher::singleton().findSchema(name);
      if (name.name.starts_with("aten::") && found &&
          std::ranges::any_of(found->schema().arguments(), is_generator)) {
        drawing->impl(c10::toString(name).c_str(),
                      torch::CppFunction::makeFromBoxedFunction<&with_generator>());
      }
    }
    return std::pair(others, drawing);
  }();
}

}  // namespace

GeneratorScope::GeneratorScope(at::Device device, uint64_t seed) {
  if (device.is_cpu()) {
    register_operators();
    generator_ = at::make_generator<at::CPUGeneratorImpl>(seed);
    generator_of_thread = &generator_;
    included_.emplace(kKey);
    return;
  }
  generator_ = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.set_current_seed(seed);
}

GeneratorScope::~GeneratorScope() {
  generator_of_thread = nullptr;
}

}  // namespace lockstep::models
