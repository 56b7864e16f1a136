#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/tables.h"

#include "fuzz/pages.h"
#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads_result_file(std::string_view text) {
  results::RunRecord record;
  try {
    record = results::from_json(text, "result.json");
  } catch (const Error&) {
    return false;
  }
  results::header_text(record);
  for (const std::string& style : results::styles().names()) {
    for (const bool markdown : {false, true})
      results::render(record, {.style = style, .form = {.markdown = markdown}});
  }
  results::closing_text(record);
  results::to_csv(record);
  const std::string written = results::to_json(record);
  try {
    results::from_json(written, "written.json");
  } catch (const Error& error) {
    throw std::logic_error(std::string("what was written cannot be read again: ") + error.what());
  }
  draw_all({{{"run", record}}, {}});
  return true;
}

}  // namespace lockstep::fuzz
