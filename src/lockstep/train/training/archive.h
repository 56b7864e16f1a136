#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/ivalue.h>

namespace lockstep::train {

/// Dictionaries with strings as keys, and lists; the values are of any kind. Files in the format of
/// torch.save are made of these, tensors, strings and numbers.
using Dict = c10::impl::GenericDict;
using List = c10::impl::GenericList;

Dict make_dict();
List make_list();

/// The content in the format of torch.save, such that torch.load(weights_only=True) reads it. The same
/// content gives the same bytes.
std::string to_archive(const at::IValue& content);

/// Reads what torch.save or to_archive has written: dictionaries (an OrderedDict is one), lists, tuples,
/// tensors, strings and numbers, as torch.load(weights_only=True) would; nothing in the file is executed.
/// `what` names the file in messages. Throws ConfigError for a file that is cut off or damaged, has another
/// format or holds other objects.
at::IValue from_archive(const std::string& bytes, const std::string& what);
at::IValue read_archive(const std::string& path);

/// A hash of every bit of the content, in order; unchanged by writing and reading. LibTorch's reader of
/// archives does not compare checksums.
uint64_t hash_of(const at::IValue& content);

}  // namespace lockstep::train
