#include "lockstep/base/error.h"
#include "lockstep/plots/published.h"

#include "fuzz/pages.h"
#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads(std::string_view text) {
  plots::PublishedTable table;
  try {
    table = plots::parse_published(text, "table.csv");
  } catch (const Error&) {
    return false;
  }
  draw_all({{}, {table}});
  return true;
}

}  // namespace lockstep::fuzz
