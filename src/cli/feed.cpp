#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <poll.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/secret.h"
#include "lockstep/base/units.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/feed/sender.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/launch/signals.h"
#include "lockstep/models/model.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/rows/row_input.h"

#include "commands.h"
#include "console.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFeedExamples = R"(Examples:
  lockstep feed --address ipc:///tmp/batches --batch 32 --image-size 224
      random images for: lockstep bench --input zmq --address ipc:///tmp/batches --batch 32 --ranks 1
  lockstep feed --address tcp://127.0.0.1:5555 --ranks 2 --count 1000
      1000 batches for 2 ranks, which receive them at ports 5555 and 5556
  lockstep feed --address ipc:///tmp/batches --rate 500
      at most 500 images per second: what a slow producer does to a step
  lockstep feed --address ipc:///tmp/batches --model mine.pt2 --batch 8
      random tensors for a network from a file, which says what they are
Any number of producers may feed the same ranks; docs/inputs.md has the layout of a message.
)";

struct FeedOptions {
  std::string address;
  /// Ranks of the job that is fed.
  int ranks = 1;
  /// The network whose batches are sent; empty: the shape says what an image is.
  std::string model;
  feed::BatchShape shape;
  int64_t classes = 1000;
  uint64_t seed = 1;
  /// Images per second; 0: as fast as they are taken.
  double rate = 0;
  /// Batches; 0: until none is taken for timeout_s, or until interrupted.
  int64_t count = 0;
  int prefetch = 4;
  double timeout_s = kDefaultTimeout_s;
  bool quiet = false;
};

/// Messages of one size, each with a batch.
struct Messages {
  size_t bytes = 0;
  /// Name of a batch's samples in the summary.
  const char* samples = "images";
  /// Writes message `number`.
  std::function<void(int64_t number, uint8_t* message)> write;
};

Messages image_messages(const FeedOptions& options) {
  const feed::RandomBatches batches(options.shape, options.classes, options.seed);
  return {.bytes = feed::message_bytes(options.shape), .write = [batches](int64_t number, uint8_t* message) {
            const feed::MessageParts parts = feed::begin_message(batches.shape(), message);
            batches.make(number, parts.pixels, parts.labels);
          }};
}

/// The batches of the input `device`, in turn.
Messages tensor_messages(const inputs::InputOptions& described) {
  const feed::WantedTensors wanted = inputs::wanted_tensors(described);
  const std::shared_ptr<inputs::Input> input = inputs::create_device_input(described);
  return {.bytes = feed::message_bytes(wanted),
          .samples = "samples",
          .write = [wanted, input](int64_t /*number*/, uint8_t* message) {
            char* to = feed::begin_message(wanted, message);
            for (const at::Tensor& tensor : input->next().tensors()) {
              const at::Tensor in_rows = tensor.contiguous();
              std::memcpy(to, in_rows.const_data_ptr(), in_rows.nbytes());
              to += in_rows.nbytes();
            }
          }};
}

/// Fills in shape and classes of the network's images. Returns the tensors of a network that takes others.
std::vector<inputs::Description> fit_to_model(FeedOptions& options, bool batch_given) {
  const models::ModelInfo& info = models::info_of(options.model);
  if (!batch_given) options.shape.batch = info.default_batch;
  network_file::LabelledImages images{
      .channels = info.channels, .size = info.image_size, .classes = info.classes};
  if (info.file != nullptr) {
    const auto of_file = info.file->labelled_images();
    if (!of_file) return train::descriptions_of(*info.file);
    images = *of_file;
  }
  options.shape.channels = images.channels;
  options.shape.image_size = images.size;
  options.classes = images.classes;
  return {};
}

/// Refuses batches that this host has no memory for: those that wait, and the one that is being made.
void check_memory(const FeedOptions& options, size_t message_bytes) {
  // The largest values of the flags make one message of 13 PB, whose bytes an int64_t holds, but not of all.
  const auto batch_bytes = static_cast<int64_t>(message_bytes);
  const int64_t batches = int64_t{options.ranks} * options.prefetch + 1;
  const int64_t available_bytes = topology::inspect_host().available_memory_bytes;
  if (batch_bytes <= available_bytes / batches) return;
  throw ConfigError(
      fmt::format("--batch {} makes {} batches of {}, and {} of memory are available", options.shape.batch,
                  batches, format_bytes(batch_bytes), format_bytes(available_bytes)),
      fmt::format("Make --batch,{} --prefetch or --ranks smaller.",
                  options.model.empty() ? " --image-size," : ""));
}

/// Ranks to feed: each takes four descriptors, and the usual limit is 1,024.
constexpr double kMostFed = 240;

feed::SenderOptions sender_options(const FeedOptions& options, int interrupt_fd) {
  feed::SenderOptions sender{.prefetch = options.prefetch,
                             .timeout_s = options.timeout_s,
                             .token = secret_of_user(),
                             .interrupt_fd = interrupt_fd};
  for (int rank = 0; rank < options.ranks; ++rank) {
    sender.addresses.push_back(feed::address_of_rank(options.address, rank));
  }
  return sender;
}

/// Sleeps until then. Returns false when the user interrupts.
bool wait_until(double due_s, int interrupt_fd) {
  pollfd interrupt{.fd = interrupt_fd, .events = POLLIN, .revents = 0};
  while (true) {
    const double left_s = due_s - now_s();
    // Rounded up, so that the last wait is not cut into many of 0 ms; in hours, because poll takes an int.
    const int timeout_ms = left_s <= 0 ? 0 : static_cast<int>(1000 * std::min(left_s, 3600.)) + 1;
    if (::poll(&interrupt, 1, timeout_ms) > 0) return false;
    if (left_s <= 0) return true;
  }
}

/// One line about what was sent.
std::string summary(const FeedOptions& options, const Messages& messages, int64_t batches, double seconds,
                    double waited_s) {
  // The clock starts when the first one is sent.
  const double batches_per_s = batches > 1 ? double(batches - 1) / seconds : NAN;
  return fmt::format("sent {} batch{} of {} {} in {}: {} {}/s, {} GB/s, {} of it waiting\n", batches,
                     batches == 1 ? "" : "es", options.shape.batch, messages.samples,
                     format_duration(seconds), format_number(batches_per_s * double(options.shape.batch), 4),
                     messages.samples, format_number(batches_per_s * double(messages.bytes) / 1e9, 3),
                     format_duration(waited_s));
}

/// Returns the signal that ended it, if one did.
std::optional<int> send_batches(const FeedOptions& options, const Messages& messages) {
  launch::SignalPipe signals{SIGINT, SIGTERM};
  feed::Sender sender(sender_options(options, signals.fd()));
  double begin_s = 0;
  /// When the next batch is due. A rank that pauses does not get later what it did not take meanwhile.
  double next_s = now_s();
  double waited_for_first_s = 0;
  int64_t number = 0;
  feed::Sent sent = feed::Sent::kSent;
  const auto report = [&] {
    const double seconds = begin_s > 0 ? now_s() - begin_s : 0;
    print_result(summary(options, messages, number, seconds, sender.waited_s() - waited_for_first_s));
  };
  try {
    for (; options.count == 0 || number < options.count; ++number) {
      if (options.rate > 0 && !wait_until(next_s, signals.fd())) {
        sent = feed::Sent::kInterrupted;
        break;
      }
      messages.write(number, sender.begin(messages.bytes));
      const double waited_s = sender.waited_s();
      sent = sender.send();
      if (sent != feed::Sent::kSent) break;
      if (sender.waited_s() > waited_s) next_s = now_s();
      if (options.rate > 0) next_s += double(options.shape.batch) / options.rate;
      // The first batch waits for the ranks to start, which says nothing about the rate.
      if (number == 0) {
        begin_s = now_s();
        waited_for_first_s = sender.waited_s();
      }
    }
  } catch (const Error&) {
    report();
    throw;
  }
  report();
  if (sent == feed::Sent::kInterrupted) return signals.take();
  if (sent == feed::Sent::kRanksLeft) {
    print_note(fmt::format("ended: all ranks have left, and none came back for {:g} s", options.timeout_s));
  }
  sender.finish();
  return std::nullopt;
}

int run_feed(FeedOptions options, bool batch_given) {
  set_quiet(options.quiet);
  inputs::InputOptions described{.seed = options.seed};
  if (!options.model.empty()) described.described = fit_to_model(options, batch_given);
  described.batch = options.shape.batch;
  const bool tensors = !described.described.empty();
  // Check before anything of that size is made.
  check_memory(options, tensors ? feed::message_bytes(inputs::wanted_tensors(described))
                                : feed::message_bytes(options.shape));
  const std::optional<int> signal =
      send_batches(options, tensors ? tensor_messages(described) : image_messages(options));
  if (!signal) return kExitDone;
  return *signal == SIGTERM ? kExitTerminated : kExitInterrupted;
}

}  // namespace

RunCommand add_feed(Flags& flags) {
  const auto options = std::make_shared<FeedOptions>();
  flags.set_examples(kFeedExamples);
  flags.add("--address", options->address,
            "where the ranks receive batches, as given to them: ipc:///tmp/NAME or tcp://HOST:PORT",
            {.required = true});
  flags.add("--ranks", options->ranks, "ranks of the job that is fed", {.numbers = counts_up_to(kMostFed)});
  flags.add("--model", options->model,
            "the network that is fed: its images' shape and classes, or the tensors of one from a file "
            "[--image-size, --channels, --classes]");
  flags.add("--batch", options->shape.batch, "samples per batch of one rank [32, or the network's own]",
            {.numbers = counts_up_to(kMostImages)});
  flags.add("--image-size", options->shape.image_size, "height and width of an image in pixels",
            {.numbers = counts_up_to(kMostPixels)});
  flags.add("--channels", options->shape.channels, "3 for color, 1 for gray images",
            {.one_of = {"1", "3"}, .numbers = counts_up_to(3)});
  flags.add("--classes", options->classes, "number of classes: labels are random numbers below it",
            {.numbers = counts_up_to(1e9)});
  flags.add("--seed", options->seed, "seed of images and labels", {.numbers = kSeeds});
  flags.add("--rate", options->rate, "images per second at most [as fast as they are taken]",
            {.numbers = NumberRange{.most = 1e9}});
  flags.add("--count", options->count, "batches to send [until none is taken any more]",
            {.numbers = counts_up_to(1e12)});
  flags.add("--prefetch", options->prefetch, "batches that may wait here for each rank",
            {.numbers = counts_up_to(kMostBatches)});
  flags.add(
      "--timeout", options->timeout_s,
      "seconds without a batch taken after which to end: done if all ranks have left, an error otherwise",
      {.numbers = times_from(0)});
  flags.add_switch("-q,--quiet", options->quiet, "print no notes");
  return [options, &flags](const Arguments& /*arguments*/) {
    for (const char* flag : {"--image-size", "--channels", "--classes"}) {
      if (options->model.empty() || !flags.given(flag)) continue;
      throw ConfigError(fmt::format("{} is of no use beside --model, which says it", flag),
                        "Leave one of them out.");
    }
    return run_feed(*options, flags.given("--batch"));
  };
}

}  // namespace lockstep::cli
