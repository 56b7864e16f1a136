#include <array>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

struct Part {
  const char* name;
  ByteRange ReplicaMemory::*range;
};

constexpr std::array<Part, 5> kParts{{{"parameters", &ReplicaMemory::parameters},
                                      {"gradients", &ReplicaMemory::gradients},
                                      {"momenta", &ReplicaMemory::momenta},
                                      {"buffers", &ReplicaMemory::buffers},
                                      {"together", &ReplicaMemory::total}}};

std::string range_text(const ByteRange& range) {
  const std::string least = format_bytes(range.least);
  const std::string most = format_bytes(range.most);
  return least == most ? most : fmt::format("{} to {}", least, most);
}

}  // namespace

std::string memory_tables(const RunRecord& record, TextForm form) {
  std::string text;
  for (RowTable& rows : row_tables(record)) {
    std::erase_if(rows.rows, [](const Run* run) { return !run->memory || !run->breakdown; });
    if (rows.rows.empty()) continue;
    TextTable table;
    table.add_column("ranks");
    table.add_column("strategy", TextTable::Align::kLeft);
    for (const Part& part : kParts) table.add_column(part.name);
    for (const Run* run : rows.rows) {
      std::vector<std::string> fields{fmt::format("{}", run->ranks), strategy_text(*run)};
      for (const Part& part : kParts) fields.push_back(range_text((*run->memory).*part.range));
      table.add_row(std::move(fields));
    }
    if (!text.empty()) text += '\n';
    text += heading("Memory per rank: " + rows.title, form) + (form == TextForm::kTerminal ? "\n" : "") +
            table.text(form);
  }
  if (text.empty()) return text;
  return text +
         remark("", "What a replica keeps from step to step; activations and input come on top.", form);
}

}  // namespace lockstep::results
