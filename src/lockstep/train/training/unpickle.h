#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <ATen/core/ivalue.h>

namespace lockstep::train {

/// The memory of one storage, as a file has it.
struct StorageBytes {
  c10::DataPtr data;
  size_t bytes = 0;
};

/// Reads the pickle of a torch.save file, as pickle::read does, with its tensors, which share their storages
/// as there. LibTorch's own Unpickler knows no OrderedDict, which is what Python's state_dict() is.
/// `read_storage` gives a storage by its key. Throws Error naming what is wrong.
at::IValue unpickle(std::string_view text,
                    const std::function<StorageBytes(const std::string& key)>& read_storage);

}  // namespace lockstep::train
