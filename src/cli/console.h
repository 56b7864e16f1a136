#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::cli {

// Results go to stdout, everything else to stderr. Colors only on a terminal, and not when NO_COLOR is set.

/// Throws Error if standard output cannot be written, as on a full disk.
void print_result(std::string_view text);
void print_note(std::string_view text);
/// Draws a line on the terminal of stderr, cut to its width; the next output overwrites it. Call only where
/// stderr_is_terminal().
void draw_progress(std::string_view text);
void print_warning(std::string_view text, std::string_view advice);
/// Prints each text as a warning with the same advice.
void print_warnings(const std::vector<std::string>& texts, std::string_view advice);
void print_error(std::string_view text, std::string_view advice);

/// Prints the reason for which a job ended early, if there is one.
void print_departure(const Trouble& reason);

/// Writes to the file `path`, or for "-" to stdout; a note says what was written.
void write_result(const std::string& path, const std::string& text);

/// Prints the error and returns its exit code.
int report(const std::exception& error);

/// Runs a command that each rank of a launcher runs too. A rank that fails before the ranks have met prints
/// its error and ends the job for all; an error that all have in common is printed by rank 0 alone.
int report_once(const std::function<int()>& command);

/// --quiet: suppresses notes and progress.
void set_quiet(bool quiet);
bool is_quiet();

bool stderr_is_terminal();
/// The form of texts on stdout: of a terminal's width and with colors, where it is one and they are not
/// Markdown.
results::TextForm stdout_form(bool markdown = false);
/// Lines that fit a terminal on stdout; what does not continues below its column.
std::string fitted(const std::string& text);

}  // namespace lockstep::cli
