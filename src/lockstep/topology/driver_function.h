#pragma once

#include <dlfcn.h>

namespace lockstep::topology {

/// A function of one of the libraries that come with NVIDIA's driver, which the installed version may lack.
template <typename Function>
struct DriverFunction {
  /// `library`: of dlopen(); null: there is none. `older_name`: of the same function in older drivers.
  DriverFunction(void* library, const char* name, const char* older_name = nullptr) {
    if (library != nullptr) pointer = reinterpret_cast<Function*>(::dlsym(library, name));
    if (library != nullptr && pointer == nullptr && older_name != nullptr)
      pointer = reinterpret_cast<Function*>(::dlsym(library, older_name));
  }

  /// Calls the function; whether it is there and returns 0, which is success in all of these libraries.
  template <typename... Arguments>
  bool succeeds(Arguments... arguments) const {
    return pointer != nullptr && pointer(arguments...) == 0;
  }

  Function* pointer = nullptr;
};

}  // namespace lockstep::topology
