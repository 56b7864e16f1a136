#include "lockstep/network_file/network_file.h"

#include "lockstep/base/error.h"

#include "fuzz/reader.h"
#include "network_file/entries.h"

namespace lockstep::fuzz {

/// A description after "d", or a graph after "g", among entries that are whole but for that.
bool reads_network_file(std::string_view text) {
  static const std::map<std::string, std::string> good = network_file::small_entries();
  if (!text.starts_with('d') && !text.starts_with('g')) return false;
  std::map<std::string, std::string> entries = good;
  entries.at(text.front() == 'd' ? network_file::kAbout : network_file::kModel) = text.substr(1);
  try {
    network_file::read_description(network_file::MemoryEntries(entries));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::fuzz
