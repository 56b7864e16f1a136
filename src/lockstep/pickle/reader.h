#pragma once

#include <string_view>

#include "lockstep/pickle/value.h"

namespace lockstep::pickle {

/// Reads the pickle (protocol 2) of a torch.save file: dictionaries, OrderedDicts (as dictionaries, without
/// their attributes), lists, tuples (as lists), tensors, texts, numbers, truth values and None. Whatever else
/// it asks for is refused, as torch.load(weights_only=True) does, and nothing is executed. Takes memory in
/// proportion to the text. Throws Error naming what is wrong.
Pickle read(std::string_view text);

}  // namespace lockstep::pickle
