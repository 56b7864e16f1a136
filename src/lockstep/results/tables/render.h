#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/registry.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::results {

/// Training images of ImageNet: the epoch of Theano-MPI's hours per epoch.
constexpr int64_t kImageNetImages = 1281167;

struct RenderOptions {
  /// A name of styles().
  std::string style = "lockstep";
  TextForm form;
  /// Images per epoch, for the style "theano".
  int64_t epoch_size = kImageNetImages;
};

/// One way of writing the tables of a record.
struct Style {
  /// Contents, for help texts.
  const char* what;
  Document (*tables)(const RunRecord& record, const RenderOptions& options);
  /// Empty without a breakdown.
  bool needs_breakdown = false;
};

/// Every style by name, lockstep's own first.
const Registry<Style>& styles();

/// The tables of `record`, without header and closing words, as text that ends with a newline. Throws
/// ConfigError, with the nearest names, for an unknown style.
std::string render(const RunRecord& record, const RenderOptions& options = {});

}  // namespace lockstep::results
