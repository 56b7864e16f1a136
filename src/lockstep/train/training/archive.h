#pragma once

#include <istream>
#include <string>

#include <ATen/core/ivalue.h>

namespace lockstep::train {

/// Dictionaries of texts to whatever, and lists of whatever: what a file in the format of torch.save is made
/// of here, beside tensors, texts and numbers.
using Dict = c10::impl::GenericDict;
using List = c10::impl::GenericList;

Dict make_dict();
List make_list();

/// The format of torch.save, such that torch.load(weights_only=True) reads it: the same bytes for the same
/// content.
std::string to_archive(const at::IValue& content);

/// Reads what torch.save or to_archive has written: dictionaries (an OrderedDict is one), lists, tuples,
/// tensors, texts and numbers, as torch.load(weights_only=True) would; nothing in the file is executed.
/// `what` names it in messages. Throws ConfigError where it is cut off, damaged, something else, or holds
/// other objects.
at::IValue from_archive(std::istream& stream, const std::string& what);
at::IValue from_archive(const std::string& bytes, const std::string& what);
at::IValue read_archive(const std::string& path);

}  // namespace lockstep::train
