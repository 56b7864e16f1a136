#include "plot_sources.h"

#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/base/units.h"
#include "lockstep/results/files/json_reader.h"

#include "console.h"

namespace lockstep::cli {

plots::Sources read_sources(const std::vector<std::string>& runs, const std::vector<std::string>& published) {
  if (runs.empty() && published.empty()) {
    throw ConfigError("no file to draw",
                      "Name one or more files of `lockstep bench --json FILE`, or --published FILE.csv.");
  }
  plots::Sources sources;
  const std::vector<std::string> names = plots::display_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    sources.records.push_back({names[i], results::read_record(runs[i])});
  }
  for (const std::string& path : published) sources.published.push_back(plots::read_published(path));
  plots::complete(sources);
  return sources;
}

void write_result(const std::string& path, const std::string& text) {
  if (path == "-") {
    print_result(text);
    return;
  }
  write_file_atomically(path, text);
  print_note(fmt::format("wrote {} ({})", path, format_bytes(static_cast<int64_t>(text.size()))));
}

}  // namespace lockstep::cli
