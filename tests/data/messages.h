#pragma once

#include <string>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// What `action` throws as Error: message and advice; a failure where it does not.
template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what() + std::string("; ") + error.advice();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace lockstep::data
