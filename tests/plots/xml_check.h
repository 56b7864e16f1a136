#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plots {

/// The first fault that keeps `text` from being well-formed XML, as far as lockstep writes XML: tags that
/// nest and close, attributes in double quotes and once each, known entities, unique ids, valid UTF-8 without
/// control characters. Empty: it is.
std::string xml_fault(std::string_view text);

/// The <svg> elements in a page.
std::vector<std::string> drawings_in(const std::string& page);

}  // namespace lockstep::plots
