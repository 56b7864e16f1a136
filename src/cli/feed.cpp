#include "feed.h"

#include <algorithm>
#include <csignal>
#include <optional>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <poll.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/units.h"
#include "lockstep/feed/address.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/sender.h"
#include "lockstep/launch/signals.h"

#include "console.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFeedExamples = R"(Examples:
  lockstep feed --address ipc:///tmp/batches --batch 32 --image-size 224
      random images for: lockstep bench --input zmq --address ipc:///tmp/batches --batch 32 --ranks 1
  lockstep feed --address tcp://127.0.0.1:5555 --ranks 2 --count 1000
      1000 batches for 2 ranks, which take them at the ports 5555 and 5556
  lockstep feed --address ipc:///tmp/batches --rate 500
      no more than 500 images per second: what a slow producer does to a step
Any number of producers may feed the same ranks; docs/inputs.md has the layout of a message.
)";

void check(const FeedOptions& options) {
  const auto require = [](bool holds, const char* flag, double value) {
    if (!holds) throw ConfigError(fmt::format("{} cannot be {:g}", flag, value));
  };
  require(options.ranks >= 1, "--ranks", options.ranks);
  require(options.shape.batch >= 1, "--batch", double(options.shape.batch));
  require(options.shape.image_size >= 1, "--image-size", double(options.shape.image_size));
  require(options.shape.channels == 1 || options.shape.channels == 3, "--channels",
          double(options.shape.channels));
  require(options.classes >= 1, "--classes", double(options.classes));
  require(options.rate >= 0, "--rate", options.rate);
  require(options.count >= 0, "--count", double(options.count));
  require(options.prefetch >= 1, "--prefetch", options.prefetch);
  require(options.timeout_s > 0, "--timeout", options.timeout_s);
}

feed::SenderOptions sender_options(const FeedOptions& options, int interrupt_fd) {
  feed::SenderOptions sender{
      .prefetch = options.prefetch, .timeout_s = options.timeout_s, .interrupt_fd = interrupt_fd};
  for (int rank = 0; rank < options.ranks; ++rank) {
    sender.addresses.push_back(feed::address_of_rank(options.address, rank));
  }
  return sender;
}

/// Asleep; false when the user ended it meanwhile.
bool wait_until(double due_s, int interrupt_fd) {
  pollfd interrupt{.fd = interrupt_fd, .events = POLLIN, .revents = 0};
  while (true) {
    const double left_s = due_s - now_s();
    const int timeout_ms = left_s <= 0 ? 0 : static_cast<int>(1000 * std::min(left_s, 3600.)) + 1;
    if (::poll(&interrupt, 1, timeout_ms) > 0) return false;
    if (left_s <= 0) return true;
  }
}

/// What was sent, in a line.
std::string summary(const FeedOptions& options, int64_t batches, double seconds, double waited_s) {
  const double images = double(batches) * double(options.shape.batch);
  const double bytes = double(batches) * double(feed::message_bytes(options.shape));
  return fmt::format("sent {} batches of {} images in {}: {:.4g} images/s, {:.3g} GB/s, {} of it waiting\n",
                     batches, options.shape.batch, format_duration(seconds),
                     seconds > 0 ? images / seconds : 0, seconds > 0 ? bytes / seconds / 1e9 : 0,
                     format_duration(waited_s));
}

/// Returns the signal that ended it, or nothing.
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

}  // namespace

void add_feed_flags(CLI::App& command, FeedOptions& options) {
  command.footer(kFeedExamples);
  command
      .add_option("--address", options.address,
                  "where the ranks take batches, as they were told: ipc:///tmp/NAME or tcp://HOST:PORT")
      ->required();
  command.add_option("--ranks", options.ranks, "ranks of the job that is fed")->capture_default_str();
  command.add_option("--batch", options.shape.batch, "images per batch of one rank")->capture_default_str();
  command.add_option("--image-size", options.shape.image_size, "height and width of an image")
      ->capture_default_str();
  command.add_option("--channels", options.shape.channels, "3, or 1 for gray images")->capture_default_str();
  command.add_option("--classes", options.classes, "labels are below this")->capture_default_str();
  command.add_option("--seed", options.seed, "of images and labels")->capture_default_str();
  command.add_option("--rate", options.rate, "images per second [as fast as they are taken]");
  command.add_option("--count", options.count, "batches [until nobody takes any]");
  command.add_option("--prefetch", options.prefetch, "batches that may wait for each rank here")
      ->capture_default_str();
  command.add_option("--timeout", options.timeout_s, "seconds without a batch taken after which it gives up")
      ->capture_default_str();
  command.add_flag("-q,--quiet", options.quiet, "no notes");
}

int run_feed(const FeedOptions& options) {
  set_quiet(options.quiet);
  check(options);
  const std::optional<int> signal = send_batches(options);
  if (!signal) return kExitDone;
  return *signal == SIGTERM ? kExitTerminated : kExitInterrupted;
}

}  // namespace lockstep::cli
