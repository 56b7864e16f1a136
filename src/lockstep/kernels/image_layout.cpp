#include "lockstep/kernels/image_layout.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <ATen/ops/cat.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {

namespace {

/// Empty: not given.
std::optional<ImageLayout> forced_layout() {
  constexpr const char* kVariable = "LOCKSTEP_IMAGE_LAYOUT";
  const char* const given = std::getenv(kVariable);
  if (given == nullptr || std::string_view(given).empty()) return std::nullopt;
  if (std::string_view(given) == "blocks") return ImageLayout::kBlocks;
  if (std::string_view(given) == "channels_last") return ImageLayout::kChannelsLast;
  throw ConfigError(fmt::format("{} takes blocks or channels_last, not '{}'", kVariable, given));
}

}  // namespace

ImageLayout layout_of(at::ScalarType type) {
  static const std::optional<ImageLayout> forced = forced_layout();
  if (forced) return *forced;
  return type == at::kBFloat16 && onednn::has_amx() ? ImageLayout::kChannelsLast : ImageLayout::kBlocks;
}

std::string layouts_text() {
  const auto name = [](at::ScalarType type) {
    return layout_of(type) == ImageLayout::kChannelsLast
               ? "channels-last"
               : fmt::format("in blocks of {} channels", channels_per_block());
  };
  return fmt::format("fp32 {}, bf16 {}{}", name(at::kFloat), name(at::kBFloat16),
                     onednn::has_amx() ? ": oneDNN has AMX code for channels-last alone" : "");
}

int64_t channels_per_block() {
  static const int64_t channels = onednn::instruction_set() >= onednn::InstructionSet::kAvx512 ? 16 : 8;
  return channels;
}

int64_t channels_of(const at::Tensor& image) {
  return is_blocked(image) ? image.size(1) * image.size(4) : image.size(1);
}

bool can_block(int64_t channels) {
  return channels % channels_per_block() == 0;
}

at::Tensor to_plain(const at::Tensor& x) {
  if (!is_blocked(x)) return x;
  return x.permute({0, 2, 3, 1, 4})
      .reshape({x.size(0), x.size(2), x.size(3), channels_of(x)})
      .permute({0, 3, 1, 2});
}

int64_t block_width(int64_t channels, at::ScalarType type) {
  return layout_of(type) == ImageLayout::kChannelsLast ? channels : channels_per_block();
}

at::Tensor to_blocked(const at::Tensor& x, at::ScalarType type) {
  const int64_t width = block_width(channels_of(x), type);
  if (is_blocked(x) && x.size(4) == width) return x.to(type);
  const at::Tensor plain = to_plain(x);
  return plain.unflatten(1, {plain.size(1) / width, width}).permute({0, 1, 3, 4, 2}).contiguous().to(type);
}

at::Tensor concatenate(const std::vector<at::Tensor>& images) {
  const bool blocked =
      std::ranges::any_of(images, is_blocked) &&
      std::ranges::all_of(images, [](const at::Tensor& x) { return can_block(channels_of(x)); });
  if (std::ranges::none_of(images, is_blocked)) return at::cat(images, 1);
  const bool wide =
      std::ranges::any_of(images, [](const at::Tensor& image) { return image.scalar_type() == at::kFloat; });
  const at::ScalarType type = wide ? at::kFloat : images.front().scalar_type();
  std::vector<at::Tensor> alike;
  for (const at::Tensor& image : images) alike.push_back(blocked ? to_blocked(image, type) : to_plain(image));
  return at::cat(alike, blocked && layout_of(type) == ImageLayout::kChannelsLast ? 4 : 1);
}

at::Tensor flatten_image(const at::Tensor& image) {
  return to_plain(image).flatten(1);
}

}  // namespace lockstep::kernels
