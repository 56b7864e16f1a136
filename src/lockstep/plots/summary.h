#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/curves.h"

namespace lockstep::plots {

/// A number that the page shows large.
struct KeyFigure {
  std::string value;
  std::string label;
};

/// The sources in words. Plain text throughout, not escaped.
struct Summary {
  std::string title;
  /// The result in one sentence.
  std::string headline;
  std::vector<KeyFigure> figures;
  /// Sentences on the causes, the largest cost, the uncertainty, and the comparison with others.
  std::vector<std::string> findings;
  /// Warnings of the records and their rows, each once.
  std::vector<results::Warning> cautions;
  /// Data that the records lack, and how to get it.
  std::vector<std::string> gaps;
};

Summary summarize(const Sources& sources);

/// Sentences about one run: phases of its step, causes of lost efficiency (largest first), the rank that the
/// others waited for, the interval of its median, its memory. Facts that the run lacks are left out.
std::vector<std::string> explain(const results::Run& run);

/// Comparison of the run with others on as many workers: other strategies, the same run in other records,
/// published results of the same network.
std::vector<std::string> compare(const Sources& sources, const LabelledRun& run);

}  // namespace lockstep::plots
