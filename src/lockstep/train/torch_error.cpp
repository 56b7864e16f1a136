#include "lockstep/train/torch_error.h"

#include <c10/util/Exception.h>

#include "lockstep/base/error.h"

namespace lockstep::train {

void with_plain_errors(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }
}

}  // namespace lockstep::train
