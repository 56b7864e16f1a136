#include "lockstep/feed/message.h"

#include <bit>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::feed {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little endian");

constexpr const char* kLayoutAdvice = "docs/inputs.md has the layout of a message.";

/// What a message holds.
enum class Content : uint32_t { kFarewell = 0, kImages = 1, kTensors = 2 };

/// The numbers of the header after its magic.
struct Header {
  uint32_t version = kMessageVersion;
  Content content = Content::kImages;
  uint32_t batch = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
};
static_assert(kMessageMagic.size() + sizeof(Header) == kMessageHeaderBytes);

std::string shape_text(int64_t batch, int64_t height, int64_t width, int64_t channels) {
  return fmt::format("{} {} of {} x {} x {}", batch, batch == 1 ? "image" : "images", height, width,
                     channels);
}

void check_shape(const Header& header, const BatchShape& shape, const std::string& name) {
  if (header.batch == shape.batch && header.height == shape.image_size && header.width == shape.image_size &&
      header.channels == shape.channels) {
    return;
  }
  throw Error(fmt::format("{} has {}, expected {} (batch per rank, height, width, channels)", name,
                          shape_text(header.batch, header.height, header.width, header.channels),
                          shape_text(shape.batch, shape.image_size, shape.image_size, shape.channels)),
              fmt::format("Give the producer what the ranks were given; for 'lockstep feed': --batch {} "
                          "--image-size {} --channels {}.",
                          shape.batch, shape.image_size, shape.channels));
}

/// Checks labels on the host: on a GPU, a label out of range would end the process.
void check_labels(const uint8_t* labels, const WantedBatch& wanted, const std::string& name) {
  for (int64_t i = 0; i < wanted.shape.batch; ++i) {
    int64_t label = 0;
    // Copy: labels in a received message need not be aligned.
    std::memcpy(&label, labels + i * int64_t{sizeof label}, sizeof label);
    if (label >= 0 && label < wanted.classes) continue;
    throw Error(
        fmt::format("{} has label {} for image {}, expected 0 to {}", name, label, i, wanted.classes - 1),
        fmt::format(
            "The network tells {} classes apart. Give the producer as many, or export yours again with "
            "target_range=(0, N).",
            wanted.classes));
  }
}

void write_header(const Header& header, void* message) {
  std::memcpy(message, kMessageMagic.data(), kMessageMagic.size());
  std::memcpy(static_cast<char*>(message) + kMessageMagic.size(), &header, sizeof header);
}

std::string farewell_header() {
  std::string header(kMessageHeaderBytes, '\0');
  write_header({.content = Content::kFarewell}, header.data());
  return header;
}

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kTcp = "tcp://";
constexpr int kLastPort = 65535;

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw ConfigError(fmt::format("--address {}: {}", address, why),
                    "Write ipc:///tmp/NAME on one host, or tcp://HOST:PORT.");
}

}  // namespace

size_t message_bytes(const BatchShape& shape) {
  return kMessageHeaderBytes + static_cast<size_t>(shape.batch) * sizeof(int64_t) +
         static_cast<size_t>(shape.bytes());
}

MessageParts begin_message(const BatchShape& shape, uint8_t* message) {
  const auto size = static_cast<uint32_t>(shape.image_size);
  const Header header{.batch = static_cast<uint32_t>(shape.batch),
                      .height = size,
                      .width = size,
                      .channels = static_cast<uint32_t>(shape.channels)};
  write_header(header, message);
  uint8_t* labels = message + kMessageHeaderBytes;
  return {reinterpret_cast<int64_t*>(labels), labels + shape.batch * int64_t{sizeof(int64_t)}};
}

std::string farewell() {
  std::string message = farewell_header();
  message.resize(kFarewellBytes);
  return message;
}

bool is_farewell(std::string_view message) {
  return message.size() == kFarewellBytes && message.substr(0, kMessageHeaderBytes) == farewell_header();
}

namespace {

std::string_view name_of(Content content) {
  return content == Content::kImages ? "uint8 images" : "tensors";
}

/// The header of a message with this content. Throws Error that begins with `name` for any other. Outermost
/// check first: each may rely on the earlier ones.
Header read_header(std::string_view message, Content wanted, const std::string& name) {
  if (!message.starts_with(kMessageMagic)) {
    throw Error(fmt::format("{} is no batch: it does not begin with \"{}\"", name, kMessageMagic),
                kLayoutAdvice);
  }
  Header header;
  if (message.size() < kMessageHeaderBytes) {
    throw Error(fmt::format("{} ends after {} bytes, within its header of {}", name, message.size(),
                            kMessageHeaderBytes),
                kLayoutAdvice);
  }
  std::memcpy(&header, message.data() + kMessageMagic.size(), sizeof header);
  if (header.version != kMessageVersion) {
    throw Error(
        fmt::format("{} is of version {} of the layout, expected {}", name, header.version, kMessageVersion),
        "Use the producer that came with this lockstep; docs/inputs.md has the layout.");
  }
  if (header.content != wanted) {
    throw Error(
        fmt::format("{} has content of type {}, expected {} ({})", name,
                    static_cast<uint32_t>(header.content), static_cast<uint32_t>(wanted), name_of(wanted)),
        wanted == Content::kTensors ? "Give the producer the network; for 'lockstep feed': --model FILE."
                                    : kLayoutAdvice);
  }
  return header;
}

}  // namespace

BatchView parse_message(std::string_view message, const WantedBatch& wanted, const std::string& name) {
  check_shape(read_header(message, Content::kImages, name), wanted.shape, name);
  // The wanted shape is the header's by now.
  const size_t expected = message_bytes(wanted.shape);
  if (message.size() != expected) {
    throw Error(fmt::format("{} has {} bytes, expected {} (header {}, labels {}, pixels {})", name,
                            message.size(), expected, kMessageHeaderBytes,
                            wanted.shape.batch * int64_t{sizeof(int64_t)}, wanted.shape.bytes()),
                kLayoutAdvice);
  }
  const BatchView view = view_of(message, wanted.shape);
  check_labels(view.labels, wanted, name);
  return view;
}

BatchView view_of(std::string_view message, const BatchShape& shape) {
  const auto* labels = reinterpret_cast<const uint8_t*>(message.data()) + kMessageHeaderBytes;
  return {labels, labels + shape.batch * int64_t{sizeof(int64_t)}};
}

size_t message_bytes(const WantedTensors& tensors) {
  int64_t bytes_per_sample = 0;
  for (const int64_t bytes : tensors.bytes_per_sample) bytes_per_sample += bytes;
  return kMessageHeaderBytes + static_cast<size_t>(tensors.batch * bytes_per_sample);
}

char* begin_message(const WantedTensors& tensors, uint8_t* message) {
  write_header({.content = Content::kTensors,
                .batch = static_cast<uint32_t>(tensors.batch),
                .height = static_cast<uint32_t>(tensors.bytes_per_sample.size())},
               message);
  return reinterpret_cast<char*>(message) + kMessageHeaderBytes;
}

void check_tensors(std::string_view message, const WantedTensors& wanted, const std::string& name) {
  const Header header = read_header(message, Content::kTensors, name);
  const size_t tensors = wanted.bytes_per_sample.size();
  if (header.batch != wanted.batch || header.height != tensors) {
    throw Error(fmt::format("{} has {} samples of {} tensors, expected {} of {}", name, header.batch,
                            header.height, wanted.batch, tensors),
                fmt::format("Give the producer what the ranks were given; for 'lockstep feed': --model and "
                            "--batch {}.",
                            wanted.batch));
  }
  if (message.size() == message_bytes(wanted)) return;
  throw Error(fmt::format("{} has {} bytes, expected {}", name, message.size(), message_bytes(wanted)),
              kLayoutAdvice);
}

std::string_view tensors_of(std::string_view message) {
  return message.substr(kMessageHeaderBytes);
}

std::string address_of_rank(const std::string& address, int rank) {
  if (address.starts_with(kIpc)) {
    if (address.size() == kIpc.size()) refuse(address, "the path is missing");
    return rank == 0 ? address : fmt::format("{}.{}", address, rank);
  }
  if (!address.starts_with(kTcp)) refuse(address, "it is neither ipc:// nor tcp://");
  const size_t colon = address.rfind(':');
  if (colon <= kTcp.size()) refuse(address, "host or port is missing");
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port < 1 || port > kLastPort) {
    refuse(address, fmt::format("'{}' is no port", address.substr(colon + 1)));
  }
  // Ranks of one job take consecutive ports.
  if (port + rank > kLastPort)
    refuse(address, fmt::format("there is no port {} for rank {}", port + rank, rank));
  return fmt::format("{}:{}", address.substr(0, colon), port + rank);
}

}  // namespace lockstep::feed
