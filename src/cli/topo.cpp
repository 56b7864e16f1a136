#include "lockstep/base/error.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/topology/inspect.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTopoExamples = R"(Examples:
  lockstep topo
  lockstep topo --json node7.json
  lockstep topo --from node7.json
  lstopo node7.xml                    on a machine without lockstep
  lockstep topo --from node7.xml      processors and the PCI bus; hwloc's file has no NVLinks
)";

struct TopoOptions {
  /// A recorded system; empty: this machine.
  std::string from;
  /// File for JSON in place of tables; "-" for stdout, empty: tables.
  std::string json;
  bool force = false;
  bool markdown = false;
};

int run_topo(const TopoOptions& options) {
  // Checked up front: inspecting the machine takes a while.
  check_output_files({{"--json", options.json}}, {{"--from", options.from}}, options.force);
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

}  // namespace

RunCommand add_topo(Flags& flags) {
  const auto options = std::make_shared<TopoOptions>();
  flags.set_examples(kTopoExamples);
  flags.add("--from", options->from,
            "show a recorded machine: a file of 'lockstep topo --json FILE', or XML of hwloc's lstopo [this "
            "machine]",
            {.value = "FILE"});
  flags.add("--json", options->json, "write JSON to this file in place of tables; - for stdout",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  return [options](const Arguments& /*arguments*/) { return run_topo(*options); };
}

}  // namespace lockstep::cli
