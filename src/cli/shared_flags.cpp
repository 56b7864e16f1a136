#include "shared_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/strategies/strategy_options.h"

namespace lockstep::cli {
namespace {

/// Every flag that concerns strategies but --bucket-mb.
void add_strategy_flags(Flags& flags, std::vector<strategies::GivenOption>& given) {
  flags.begin_group("Strategy");
  for (const strategies::OptionInfo& option : strategies::option_infos()) {
    flags.add_callback(option.flag, option.is_switch,
                       [&given, flag = option.flag](const std::string& value) {
                         given.push_back({flag, value});
                       },
                       fmt::format("{} ({}) [{}]", option.description, fmt::join(option.strategies, ", "),
                                   option.default_value),
                       {.one_of = option.values, .numbers = option.numbers, .whole = option.whole});
  }
}

}  // namespace

void add_row_flags(Flags& flags, train::SweepOptions& sweep, Rows rows, const std::string& group,
                   const std::string& usual_ranks) {
  const bool single = rows == Rows::kOne;
  const FlagForm form{.single = single};
  const char* own_batch = sweep.batches.empty() ? " [each network's default]" : "";
  flags.begin_group(group);
  flags.add(
      "--model", sweep.models,
      "network to train: a name that 'lockstep info models' lists, or the file of one of your own (mine.pt2, "
      "./libmine.so:mine), or a measured training again (replay:run.json)",
      form);
  flags.add("--ranks", sweep.ranks, fmt::format("number of ranks [{}]", usual_ranks),
            {.single = single, .numbers = counts_up_to(results::kMostRanks)});
  flags.add("--batch", sweep.batches, fmt::format("images per rank and batch{}", own_batch),
            {.single = single, .numbers = counts_up_to(kMostImages)});
  flags.add("--strategy", sweep.strategies,
            rows == Rows::kOne ? "how replicas stay in step; 'lockstep info strategies' lists them"
                               : "how replicas stay in step, or all; 'lockstep info strategies' lists them",
            form);
  flags.add(
      "--kernels", sweep.kernels,
      "aten: LibTorch's operations; fused: oneDNN's and lockstep's own, in the memory layouts that suit "
      "them, and on GPUs lockstep's own batch normalization; auto: of these the faster for each network, "
      "which some steps with either show first [auto; aten on GPUs; fused for verify]",
      form);
  flags.add("--bucket-mb", sweep.bucket_mb, "largest size of a bucket of gradients, in MiB",
            {.single = single, .numbers = strategies::kBucketSizes});
  flags.add("--accumulate", sweep.common.accumulate,
            "batches per rank and step, whose gradients are summed before they are combined",
            {.numbers = counts_up_to(kMostBatches)});
  flags.add("--image-size", sweep.common.image_size,
            "height and width of an image in pixels [the network's own size]",
            {.numbers = counts_up_to(kMostPixels)});
  flags.add("--seed", sweep.common.seed, "seed of initial values, batches and dropout", {.numbers = kSeeds});
  flags.add_switch("--nesterov", sweep.common.nesterov, "use Nesterov's form of the optimizer's momentum");
  flags.add("--grad-clip", sweep.common.grad_clip,
            "scale the combined gradients of a step down to this 2-norm, as clip_grad_norm_ does [off]",
            {.numbers = NumberRange{.above = true}});
  add_strategy_flags(flags, sweep.strategy_options);
}

void add_training_flags(Flags& flags, train::SweepOptions& sweep, Rows rows, const std::string& group,
                        const std::string& usual_input) {
  const bool single = rows == Rows::kOne;
  flags.begin_group(group);
  flags.add("--global-batch", sweep.global_batches,
            "images per step over all ranks, in place of --batch: with more ranks each gets fewer (strong "
            "scaling) [--batch times ranks]",
            {.single = single, .numbers = counts_up_to(1e9)});
  flags.add("--precision", sweep.precisions,
            "fp32 or bf16 (autocast); on a GPU also tf32, bf16_pure and fp16", {.single = single});
  flags.add("--memory-format", sweep.common.memory_format, "layout of images: channels_last or contiguous",
            {.one_of = {"channels_last", "contiguous"}});
  flags.add("--momentum", sweep.common.momentum, "the optimizer's momentum; 0: none",
            {.numbers = NumberRange{.most = 1, .below = true}});
  flags.add("--weight-decay", sweep.common.weight_decay, "the optimizer's weight decay; 0: none",
            {.numbers = NumberRange{}});
  flags.add("--input", sweep.common.input,
            fmt::format("source of batches; 'lockstep info inputs' lists them{}", usual_input));
  flags.add("--data", sweep.common.data,
            "real data, for --input dataset: a folder with MNIST's or CIFAR-10's files, or with a folder of "
            "images per class",
            {.value = "FOLDER"});
  flags.add("--prefetch", sweep.input_flags.prefetch,
            "batches that --input queue, dataset and zmq make, read or receive ahead [4]",
            {.numbers = counts_up_to(kMostBatches)});
  flags.add("--input-workers", sweep.input_flags.workers,
            "threads per rank that make or read batches [1; dataset: as many as the rank computes with]",
            {.numbers = counts_up_to(kMostThreads)});
  flags.add("--address", sweep.input_flags.address,
            "where --input zmq receives batches: ipc:///tmp/NAME or tcp://HOST:PORT; 'lockstep feed' sends "
            "some");
}

std::vector<GivenFile> inputs_of(const train::SweepOptions& sweep) {
  std::vector<GivenFile> inputs{{"--data", sweep.common.data}};
  // mine.pt2, replay:run.json, ./libmine.so:mine.
  for (const std::string& model : sweep.models)
    for (const std::string& path :
         {model, model.substr(model.find(':') + 1), model.substr(0, model.rfind(':'))})
      if (std::error_code ignored; std::filesystem::exists(path, ignored))
        inputs.push_back({"--model", path});
  return inputs;
}

void add_job_flags(Flags& flags, train::JobOptions& options, bool devices, FlagUse use) {
  flags.begin_group("Ranks", std::move(use));
  if (devices) {
    flags.add(
        "--device", options.device,
        "cpu, cuda (a GPU for every rank), or auto: cuda where LibTorch can use a GPU, as 'lockstep info "
        "devices' says");
    flags.add_switch(
        "--share-device", options.share_device,
        "let several ranks of a host use the same GPU in turn; needs --device cuda with gloo or mpi");
    flags.add(
        "--backend", options.backend,
        "communication library: gloo, mpi, thread or nccl; 'lockstep info backends' says which are usable "
        "[nccl where every rank has a GPU, otherwise gloo]");
  }
  flags.add(
      "--launch", options.launch,
      "start ranks as processes or threads; auto: the ranks that a launcher started, otherwise processes",
      {.one_of = {"auto", "processes", "threads"}});
  flags.add("--threads", options.threads,
            "threads per rank [cores divided by the most ranks that the host holds]",
            {.numbers = counts_up_to(kMostThreads)});
  flags.add("--bind", options.bind, "pin every rank to its own cores (core), to NUMA nodes (numa), or none",
            {.one_of = launch::binding_names()});
  flags.add("--interface", options.interface,
            "address or network interface that gloo uses [found automatically]");
  flags.add("--timeout", options.timeout_s, "seconds after which a silent rank counts as lost",
            {.numbers = times_from(1)});
  flags.add("--join-timeout", options.join_timeout_s,
            "seconds that ranks may take to start and find each other", {.numbers = times_from(1)});
}

void add_style_flags(Flags& flags, results::RenderOptions& how) {
  std::string styles;
  for (const auto& [name, style] : results::styles().entries()) {
    styles += fmt::format("\n  {}: {}", name, style.what);
  }
  flags.add("--style", how.style, "what the tables show:" + styles, {.value = "NAME"});
  flags.add_switch("--markdown", how.form.markdown, "write tables as GitHub's Markdown");
  flags.add("--epoch-size", how.epoch_size, "images per epoch, for --style theano; the default is ImageNet's",
            {.numbers = NumberRange{.least = 1, .most = 1e12}});
}

void check_style(const results::RenderOptions& how) {
  results::styles().get(how.style);
  if (how.epoch_size == results::kImageNetImages || how.style == "theano") return;
  throw ConfigError(fmt::format("--epoch-size has no effect on --style {}", how.style),
                    "It is an option of --style theano.");
}

}  // namespace lockstep::cli
