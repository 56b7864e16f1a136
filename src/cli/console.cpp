#include "console.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/train/job/run_job.h"

namespace lockstep::cli {
namespace {

/// The progress line's thread reads it, too.
std::atomic<bool> quiet{false};

/// The rules of no-color.org: any value but the empty one turns colors off.
bool colors_are_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

/// Columns of a terminal; 80 if unknown.
size_t terminal_width(int fd) {
  // The user may resize the terminal at any time. A pipe has an error or 0 columns.
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// One write, so that lines of several processes do not mix. On a terminal it overwrites the progress line.
/// Lost where nobody reads them: the command goes on.
void write_to_stderr(std::string text) {
  const comm::SigpipeBlock no_sigpipe;
  if (stderr_is_terminal()) text.insert(0, "\r\x1b[K");
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_marked(std::string_view mark, int color, std::string_view text, std::string_view advice) {
  // 1: bold; 31 red, 33 yellow.
  const std::string shown_mark = stderr_is_terminal() && colors_are_wanted()
                                     ? fmt::format("\x1b[1;{}m{}:\x1b[0m", color, mark)
                                     : fmt::format("{}:", mark);
  // Errors may hold texts of other ranks and of files.
  std::string line = fmt::format("lockstep: {} {}\n", shown_mark, printable(text));
  if (!advice.empty()) line += fmt::format("  {}\n", printable(advice));
  write_to_stderr(std::move(line));
}

}  // namespace

void print_result(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) return;
  throw Error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

void draw_progress(std::string_view text) {
  size_t end = 0;
  for (size_t left = std::max<size_t>(20, terminal_width(STDERR_FILENO) - 1); left > 0 && end < text.size();
       --left)
    next_code_point(text, end);
  write_to_stderr(std::string(text.substr(0, end)));
}

void print_note(std::string_view text) {
  if (!is_quiet()) write_to_stderr(fmt::format("{}\n", printable(text)));
}

void print_warning(std::string_view text, std::string_view advice) {
  print_marked("warning", 33, text, advice);
}

void print_warnings(const std::vector<std::string>& texts, std::string_view advice) {
  for (const std::string& text : texts) print_warning(text, advice);
}

void print_error(std::string_view text, std::string_view advice) {
  print_marked("error", 31, text, advice);
}

void print_departure(const Trouble& reason) {
  if (reason) print_error(reason.what, reason.advice);
}

void write_result(const std::string& path, const std::string& text) {
  if (path == "-") {
    print_result(text);
    return;
  }
  write_file_atomically(path, text);
  print_note(fmt::format("wrote {} ({})", path, format_bytes(static_cast<int64_t>(text.size()))));
}

int report(const std::exception& error) {
  const Trouble trouble = trouble_of(error);
  print_error(trouble.what, trouble.advice);
  return trouble.exit_code;
}

int report_once(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& error) {
    const auto environment = launch::detect_environment();
    if (!environment) throw;
    if (environment->rank == 0 && !environment->served_by_parent()) {
      const int code = report(error);
      train::reported_elsewhere(*environment, error);
      return code;
    }
    const Trouble trouble = trouble_of(error);
    if (!train::reported_elsewhere(*environment, error)) {
      print_error(fmt::format("rank {} (host {}): {}", environment->rank, host_name(), trouble.what),
                  trouble.advice);
    }
    return trouble.exit_code;
  }
}

void set_quiet(bool value) {
  quiet = value;
}
bool is_quiet() {
  return quiet;
}

bool stderr_is_terminal() {
  static const bool is = ::isatty(STDERR_FILENO) == 1;
  return is;
}

results::TextForm stdout_form(bool markdown) {
  // Open MPI gives its ranks a terminal, wherever their output goes in the end.
  const bool of_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (markdown || of_mpirun || ::isatty(STDOUT_FILENO) != 1) return {.markdown = markdown};
  // Longer lines are hard to read.
  constexpr size_t kWidest = 120;
  return {.width = std::min(kWidest, terminal_width(STDOUT_FILENO)),
          .screen = true,
          .colors = colors_are_wanted()};
}

std::string fitted(const std::string& text) {
  const results::TextForm form = stdout_form();
  if (!form.screen) return text;
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // Two spaces or more stand between columns.
    const size_t gap = line.rfind("  ", form.width / 2);
    const size_t column = gap == std::string::npos ? 0 : gap + 2;
    all += results::display_width(line) <= form.width
               ? line + '\n'
               : results::wrapped(line.substr(0, column), line.substr(column), column, form.width);
  }
  return all;
}

}  // namespace lockstep::cli
