#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/results/files/csv.h"
#include "lockstep/results/files/json_reader.h"
#include "lockstep/results/files/json_writer.h"
#include "lockstep/results/tables/text.h"

#include "fuzz/pages.h"
#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads(std::string_view text) {
  results::RunRecord record;
  try {
    record = results::from_json(text, "result.json");
  } catch (const Error&) {
    return false;
  }
  results::header_text(record);
  results::ddp_tables(record);
  results::scaling_tables(record);
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
