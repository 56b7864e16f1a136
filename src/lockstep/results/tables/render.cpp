#include "lockstep/results/tables/render.h"

#include "lockstep/results/tables/tables.h"

namespace lockstep::results {
namespace {

Document ddp_style(const RunRecord& record, const RenderOptions&) {
  return ddp_tables(record);
}

Document lockstep_style(const RunRecord& record, const RenderOptions&) {
  Document document;
  for (const auto part :
       {ddp_tables, scaling_tables, phases_tables, factors_tables, limit_tables, layers_tables, input_tables,
        measures_tables, memory_tables, gpu_tables, tuning_remarks, replica_checks_remark}) {
    document.append(part(record));
  }
  return document;
}

}  // namespace

const Registry<Style>& styles() {
  static const Registry<Style> kAll(
      "style", "lockstep show --help",
      {{"lockstep", {"step times, scaling, phases and what efficiency is made of", lockstep_style}},
       {"ddp", {"step times, as PyTorch's DDP benchmark", ddp_style}},
       {"throughput",
        {"forward, backward and overall images/s, as pytorch_throughput", throughput_style, true}},
       {"theano", {"seconds per 5120 images, and hours per epoch, as Theano-MPI", theano_style, true}},
       {"tensorpack", {"ranks by strategies, inputs in one field, as tensorpack", tensorpack_style}}});
  return kAll;
}

std::string render(const RunRecord& record, const RenderOptions& options) {
  const Style& style = styles().get(options.style);
  return record.runs.empty() ? "Nothing was measured.\n"
                             : to_text(style.tables(record, options), options.form());
}

}  // namespace lockstep::results
