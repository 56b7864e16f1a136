#include "lockstep/results/tables/render.h"

#include "lockstep/results/tables/styles.h"
#include "lockstep/results/tables/text.h"

namespace lockstep::results {
namespace {

std::string ddp_style(const RunRecord& record, const RenderOptions& options) {
  return ddp_tables(record, options.form());
}

std::string lockstep_style(const RunRecord& record, const RenderOptions& options) {
  const TextForm form = options.form();
  std::string text = ddp_tables(record, form) + '\n' + scaling_tables(record, form);
  for (const std::string& part :
       {phases_tables(record, form), factors_tables(record, form), limit_tables(record, form),
        layers_tables(record, form), input_tables(record, form), measures_tables(record, form),
        memory_tables(record, form), gpu_tables(record, form), tuning_text(record, form),
        checks_text(record, form)}) {
    if (!part.empty()) text += '\n' + part;
  }
  return text;
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
  return record.runs.empty() ? "Nothing was measured.\n" : style.render(record, options);
}

}  // namespace lockstep::results
