#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// `text` broken between words into lines of at most `width` characters; every line but the first begins with
/// `indent` spaces. The first begins with `head`, which counts as part of it. Ends with a newline.
std::string wrapped(std::string_view head, std::string_view text, size_t indent, size_t width = 100);

/// A warning and what to do about it, wrapped; a loud one between two lines that are hard to miss.
std::string warning_text(const Warning& warning);

/// The warnings of the record's rows; rows with the same advice in one: the first row's text, and which
/// others there are.
std::vector<Warning> warnings_of_rows(const RunRecord& record);

}  // namespace lockstep::results
