#include <algorithm>
#include <csignal>
#include <optional>

#include <fmt/format.h>
#include <poll.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/secret.h"
#include "lockstep/base/units.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/feed/sender.h"
#include "lockstep/launch/signals.h"

#include "commands.h"
#include "console.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFeedExamples = R"(Examples:
  lockstep feed --address ipc:///tmp/batches --batch 32 --image-size 224
      random images for: lockstep bench --input zmq --address ipc:///tmp/batches --batch 32 --ranks 1
  lockstep feed --address tcp://127.0.0.1:5555 --ranks 2 --count 1000
      1000 batches for 2 ranks, which receive them at ports 5555 and 5556
  lockstep feed --address ipc:///tmp/batches --rate 500
      at most 500 images per second: what a slow producer does to a step
Any number of producers may feed the same ranks; docs/inputs.md has the layout of a message.
)";

struct FeedOptions {
  std::string address;
  /// Ranks of the job that is fed.
  int ranks = 1;
  feed::BatchShape shape;
  int64_t classes = 1000;
  uint64_t seed = 1;
  /// Images per second; 0: as fast as they are taken.
  double rate = 0;
  /// Batches; 0: until none is taken for timeout_s, or until interrupted.
  int64_t count = 0;
  int prefetch = 4;
  double timeout_s = 30;
  bool quiet = false;
};

/// Refuses the first value that is not allowed.
void check(const FeedOptions& options) {
  struct Flag {
    const char* name;
    double value;
    bool allowed;
  };
  const feed::BatchShape& shape = options.shape;
  const Flag flags[] = {
      {"--ranks", double(options.ranks), options.ranks >= 1},
      {"--batch", double(shape.batch), shape.batch >= 1},
      {"--image-size", double(shape.image_size), shape.image_size >= 1},
      {"--channels", double(shape.channels), shape.channels == 1 || shape.channels == 3},
      {"--classes", double(options.classes), options.classes >= 1},
      {"--rate", options.rate, options.rate >= 0},
      {"--count", double(options.count), options.count >= 0},
      {"--prefetch", double(options.prefetch), options.prefetch >= 1},
      {"--timeout", options.timeout_s, options.timeout_s > 0},
  };
  for (const auto& [name, value, allowed] : flags) {
    if (!allowed) throw ConfigError(fmt::format("{} cannot be {:g}", name, value));
  }
}

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
std::string summary(const FeedOptions& options, int64_t batches, double seconds, double waited_s) {
  const double images = double(batches) * double(options.shape.batch);
  const double bytes = double(batches) * double(feed::message_bytes(options.shape));
  return fmt::format("sent {} batches of {} images in {}: {:.4g} images/s, {:.3g} GB/s, {} of it waiting\n",
                     batches, options.shape.batch, format_duration(seconds),
                     seconds > 0 ? images / seconds : 0, seconds > 0 ? bytes / seconds / 1e9 : 0,
                     format_duration(waited_s));
}

/// Returns the signal that ended it, if one did.
std::optional<int> send_batches(const FeedOptions& options) {
  launch::SignalPipe signals{SIGINT, SIGTERM};
  feed::Sender sender(sender_options(options, signals.fd()));
  const feed::RandomBatches batches(options.shape, options.classes, options.seed);
  const size_t bytes = feed::message_bytes(options.shape);
  double begin_s = 0;
  double waited_for_first_s = 0;
  int64_t number = 0;
  bool interrupted = false;
  const auto tell = [&] {
    const double seconds = begin_s > 0 ? now_s() - begin_s : 0;
    print_result(summary(options, number, seconds, sender.waited_s() - waited_for_first_s));
  };
  try {
    for (; options.count == 0 || number < options.count; ++number) {
      if (options.rate > 0 && number > 0) {
        const double due_s = begin_s + double(number * options.shape.batch) / options.rate;
        interrupted = !wait_until(due_s, signals.fd());
        if (interrupted) break;
      }
      const feed::MessageParts parts = feed::begin_message(options.shape, sender.begin(bytes));
      batches.make(number, parts.pixels, parts.labels);
      interrupted = !sender.send();
      if (interrupted) break;
      // The first batch waits for the ranks to start, which says nothing about the rate.
      if (number == 0) {
        begin_s = now_s();
        waited_for_first_s = sender.waited_s();
      }
    }
  } catch (const Error&) {
    tell();
    throw;
  }
  tell();
  if (interrupted) return signals.take();
  sender.finish();
  return std::nullopt;
}

int run_feed(const FeedOptions& options) {
  set_quiet(options.quiet);
  check(options);
  const std::optional<int> signal = send_batches(options);
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
  flags.add("--ranks", options->ranks, "ranks of the job that is fed");
  flags.add("--batch", options->shape.batch, "images per batch of one rank");
  flags.add("--image-size", options->shape.image_size, "height and width of an image in pixels");
  flags.add("--channels", options->shape.channels, "3 for color, 1 for gray images");
  flags.add("--classes", options->classes, "number of classes: labels are random numbers below it");
  flags.add("--seed", options->seed, "seed of images and labels");
  flags.add("--rate", options->rate, "images per second at most [as fast as they are taken]");
  flags.add("--count", options->count, "batches to send [until none is taken any more]");
  flags.add("--prefetch", options->prefetch, "batches that may wait here for each rank");
  flags.add("--timeout", options->timeout_s, "seconds without a batch taken after which to give up");
  flags.add_switch("-q,--quiet", options->quiet, "print no notes");
  return [options](const Arguments& /*arguments*/) { return run_feed(*options); };
}

}  // namespace lockstep::cli
