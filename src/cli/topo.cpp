#include "topo.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/tables/system_text.h"
#include "lockstep/topology/inspect_system.h"

#include "console.h"
#include "plot_sources.h"

namespace lockstep::cli {

void add_topo_flags(CLI::App& command, TopoOptions& options) {
  command
      .add_option("--from", options.from,
                  "show a recorded machine: of `lockstep topo --json FILE`, or XML of hwloc's lstopo "
                  "[this machine]")
      ->type_name("FILE");
  command.add_option("--json", options.json, "write it to this file instead; - for stdout")
      ->type_name("FILE");
  command.add_flag("--markdown", options.markdown, "tables as GitHub's Markdown");
  command.footer(
      "Examples:\n"
      "  lockstep topo\n"
      "  lockstep topo --json node7.json\n"
      "  lockstep topo --from node7.json\n"
      "  lstopo node7.xml                    on a machine without lockstep\n"
      "  lockstep topo --from node7.xml      processors and the PCI bus; NVLinks are not in it\n");
}

int run_topo(const TopoOptions& options) {
  if (!options.json.empty() && options.json != "-") check_writable(options.json, "--json");
  const results::System system =
      options.from.empty() ? topology::inspect_system() : results::read_system(options.from);
  if (!options.json.empty()) {
    write_result(options.json, results::system_to_json(system));
    return kExitDone;
  }
  print_result(results::to_text(results::system_tables(system), options.markdown
                                                                    ? results::TextForm::kMarkdown
                                                                    : results::TextForm::kTerminal));
  return kExitDone;
}

}  // namespace lockstep::cli
