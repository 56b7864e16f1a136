#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::cli {

/// What the user sees: results on stdout, everything else on stderr. Colours only on a terminal, and not when
/// NO_COLOR is set.
void print_result(std::string_view text);
void print_note(std::string_view text);
void print_warning(std::string_view text, std::string_view advice);
void print_error(std::string_view text, std::string_view advice);

/// The exit code that belongs to the kind of error.
int exit_code_of(const std::exception& error);

/// Prints the error and returns the exit code that belongs to its kind.
int report(const std::exception& error);

/// --quiet: notes and progress are not printed.
void set_quiet(bool quiet);
bool is_quiet();

bool stderr_is_terminal();
/// Columns of the terminal on stderr; 80 where unknown.
int terminal_width();

}  // namespace lockstep::cli
