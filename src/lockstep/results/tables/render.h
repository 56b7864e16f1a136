#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/registry.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/results/tables/text_table.h"

namespace lockstep::results {

/// Training images of ImageNet, of which Theano-MPI's hours per epoch are.
constexpr int64_t kImageNetImages = 1281167;

struct RenderOptions {
  /// A name of styles().
  std::string style = "lockstep";
  bool markdown = false;
  /// Images per epoch, for the style that speaks of epochs.
  int64_t epoch_size = kImageNetImages;

  TextForm form() const { return markdown ? TextForm::kMarkdown : TextForm::kTerminal; }
};

/// The tables of a record in one way of writing them.
struct Style {
  /// What it shows, for help texts.
  const char* what;
  std::string (*render)(const RunRecord& record, const RenderOptions& options);
  /// Whether it says nothing without a breakdown.
  bool needs_breakdown = false;
};

/// Every style by name, lockstep's own first.
const Registry<Style>& styles();

/// The tables of `record`, without header and closing words. Ends with a newline. Throws ConfigError, with
/// the nearest names, for a style that there is not.
std::string render(const RunRecord& record, const RenderOptions& options = {});

}  // namespace lockstep::results
