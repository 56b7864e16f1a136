#pragma once

#include <string>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// Message and advice of the Error that `action` throws; a test failure if it throws none.
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
