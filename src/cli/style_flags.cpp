#include "style_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/results/tables/notices.h"

#include "console.h"

namespace lockstep::cli {

void add_style_flags(CLI::App& command, results::RenderOptions& how, const std::string& group) {
  std::string styles;
  for (const auto& [name, style] : results::styles().entries()) {
    styles += fmt::format("\n  {}: {}", name, style.what);
  }
  command.add_option("--style", how.style, "how the tables are written:" + styles)
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--markdown", how.markdown, "write GitHub's Markdown")->group(group);
  command.add_option("--epoch-size", how.epoch_size, "images per epoch, for the style theano")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
}

void print_record(const results::RunRecord& record, const results::RenderOptions& how, bool with_header) {
  if (with_header) print_header(record, how);
  print_result("\n" + results::render(record, how));
  const std::string closing = results::closing_text(record);
  if (!closing.empty()) print_result("\n" + results::to_text(results::Preformatted{closing}, how.form()));
}

void print_header(const results::RunRecord& record, const results::RenderOptions& how) {
  print_result(results::to_text(results::Preformatted{results::header_text(record)}, how.form()));
}

}  // namespace lockstep::cli
