#pragma once

#include <string>
#include <vector>

namespace lockstep::replica {

/// fp32: everything in single precision. bf16: autocast, so convolutions and linear layers compute in
/// bfloat16 from fp32 parameters.
enum class Precision { kFp32, kBf16 };

std::vector<std::string> precision_names();
/// Throws ConfigError with the nearest names.
Precision parse_precision(const std::string& name);

/// Autocast state of this thread for one forward pass and its loss; the previous state comes back at the end.
class AutocastScope {
 public:
  explicit AutocastScope(Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool active_;
  bool was_enabled_ = false;
};

}  // namespace lockstep::replica
