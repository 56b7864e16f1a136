#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/plots/curves.h"

namespace lockstep::plots {

/// A number that the page shows large.
struct KeyFigure {
  std::string value;
  std::string label;
};

/// A warning of the records, once, with what it is about.
struct Caution {
  std::string text;
  std::string advice;
  bool loud = false;
};

/// What the sources say, in words. Plain text throughout, not escaped.
struct Summary {
  std::string title;
  /// One sentence: the result.
  std::string headline;
  std::vector<KeyFigure> figures;
  /// Why it is so, what costs most, how sure it is, how it compares.
  std::vector<std::string> findings;
  std::vector<Caution> cautions;
  /// What the records lack, and how to get it.
  std::vector<std::string> gaps;
};

Summary summarize(const Sources& sources);

/// The run that the headline is about: the fastest of the first record with any, controls only where there is
/// nothing else.
std::optional<LabelledRun> headline_run(const Sources& sources);

/// Sentences about one run: where its step goes, what its efficiency is lost to (largest first), who was
/// waited for, how sure its median is, what memory it took. What the run does not know is left out.
std::vector<std::string> explain(const results::Run& run);

/// How the run compares with others of its work on as many workers: other strategies, the same run in other
/// records, published results of the same network.
std::vector<std::string> compare(const Sources& sources, const LabelledRun& run);

}  // namespace lockstep::plots
