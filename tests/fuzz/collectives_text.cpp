#include <cmath>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/collectives/record.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads_collectives_text(std::string_view text) {
  try {
    const collectives::ImportedText imported = collectives::import_text(text, "all_reduce.txt", {});
    for (const collectives::Row& row : imported.rows) {
      if (row.ranks < 1 || row.bytes < 1 || !std::isfinite(row.bus_gb_per_s) || !(row.median_s > 0))
        throw std::logic_error("a row without size, ranks, time or rate");
    }
    // The file of --json.
    collectives::Record record;
    record.rows = imported.rows;
    record.notes = imported.notes;
    if (collectives::from_json(collectives::to_json(record), "a.json").rows.size() != imported.rows.size())
      throw std::logic_error("rows that the file loses");
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace lockstep::fuzz
