#pragma once

#include <functional>

namespace lockstep::train {

/// Runs `body` and turns LibTorch's own exceptions, whose text carries a stack trace, into Error with their
/// first lines.
void with_plain_errors(const std::function<void()>& body);

}  // namespace lockstep::train
