#pragma once

#include <string_view>

namespace lockstep::fuzz {

/// Reads `text` as a user's file and does with it all that a user would: shows it, draws it, writes it again.
/// False when the reader refuses it (an lockstep::Error), which is as good. Throws whatever else is thrown,
/// and std::logic_error for a result that must not be; either is a mistake in lockstep.
///
/// One for every kind of file; each fuzzer and each replay is linked with one of them.
bool reads(std::string_view text);

}  // namespace lockstep::fuzz
