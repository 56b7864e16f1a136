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

/// Reads the pickle (protocol 2) of a torch.save file: dictionaries, OrderedDicts (as dictionaries, without
/// their attributes), lists, tuples (as lists), tensors, texts, numbers, truth values and None. LibTorch's
/// own Unpickler knows no OrderedDict, which is what Python's state_dict() is. Whatever else the pickle asks
/// for is refused, as torch.load(weights_only=True) does, and nothing is executed. `read_storage` gives a
/// storage by its key. Throws Error naming what is wrong.
at::IValue unpickle(std::string_view pickle,
                    const std::function<StorageBytes(const std::string& key)>& read_storage);

}  // namespace lockstep::train
