#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/page.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/notices.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::Run;
using results::Warning;

constexpr size_t kMostCautions = 30;
/// More warnings than these are folded away.
constexpr size_t kMostOpenCautions = 2;

/// Up to five known numbers, set large: of the run in the headline, or of that of each record.
std::string figures_part(const Sources& sources) {
  std::vector<std::pair<std::string, std::string>> figures;
  for (const NamedRecord& named : sources.records) {
    const auto run = results::headline_run({&named, 1});
    if (!run) continue;
    const Run& found = *run->run;
    const std::string at = counted(found.ranks, "rank");
    figures.emplace_back(number_text(found.images_per_s),
                         fmt::format("{}s per second at {}", found.unit, at));
    if (sources.records.size() > 1) {
      figures.back().second += fmt::format(", {}, {}", found.strategy, named.name);
      continue;
    }
    // A number that cannot be true is no key figure.
    const bool relative =
        found.strategy != results::kSingle && found.doubt.empty() && found.efficiency.value_or(0) <= 1;
    if (positive(found.speedup) && relative) {
      figures.emplace_back(number_text(found.speedup) + " ×",
                           fmt::format("the speed of {}", results::baseline_words(found)));
    }
    if (positive(found.efficiency) && relative)
      figures.emplace_back(share_text(found.efficiency), fmt::format("efficient at {}", at));
    if (found.breakdown && positive(found.breakdown->mean.step_s) && found.ranks > 1) {
      const double exposed = found.breakdown->mean.exposed_s() / found.breakdown->mean.step_s;
      figures.emplace_back(share_text(exposed), "of a step is exposed communication");
    }
    if (positive(found.images_per_s)) {
      // Of the same steps as the rate, which the median is not.
      const double mean_s = found.ranks * found.images_per_rank_step() / found.images_per_s;
      figures.emplace_back(time_text(mean_s), "mean step");
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, figures.size()); ++i) {
    text += fmt::format("<li><b>{}</b><span>{}</span></li>\n", escape(figures[i].first),
                        escape(figures[i].second));
  }
  return text.empty() ? "" : "<ul class=\"key\">\n" + text + "</ul>\n";
}

/// Loud ones first; each once, since files of one sweep share theirs.
std::vector<Warning> cautions_of(const Sources& sources) {
  std::vector<Warning> cautions;
  std::set<std::string> known;
  const bool several = sources.records.size() > 1;
  for (const NamedRecord& named : sources.records) {
    const std::string file = several ? named.name + ": " : "";
    const auto add = [&](const Warning& warning) {
      const std::string text = file + warning.text;
      if (known.insert(text).second) cautions.push_back({text, warning.advice, warning.loud});
    };
    if (!named.record.incomplete.empty()) {
      add({"The run ended before all was measured: " + named.record.incomplete,
           "Rows that are missing were not measured.", true});
    }
    std::ranges::for_each(results::warnings_of_record(named.record), add);
    std::ranges::for_each(results::warnings_of_rows(named.record), add);
  }
  std::ranges::stable_sort(cautions, std::greater(), &Warning::loud);
  return cautions;
}

std::string caution_part(const Warning& caution) {
  return fmt::format("<div class=\"caution{}\"><b>{}</b>{}</div>\n", caution.loud ? " loud" : "",
                     prose(caution.text),
                     caution.advice.empty() ? "" : "<p>" + prose(caution.advice) + "</p>");
}

/// Warnings, the loudest first. Of many, the quiet ones are folded away, so that the
/// charts stay within reach.
std::string cautions_part(const std::vector<Warning>& cautions) {
  std::string text, folded;
  const bool many = cautions.size() > kMostOpenCautions;
  for (size_t i = 0; i < std::min(kMostCautions, cautions.size()); ++i) {
    const Warning& caution = cautions[i];
    (many && !caution.loud ? folded : text) += caution_part(caution);
  }
  if (cautions.size() > kMostCautions) {
    folded += fmt::format("<p class=\"note\">And {}; the file has all of them.</p>\n",
                          counted(cautions.size() - kMostCautions, "more warning"));
  }
  if (!folded.empty()) {
    const auto quiet = std::ranges::count(cautions, false, &Warning::loud);
    text += fmt::format(
        "<details class=\"cautions\"><summary>{} about how it was measured</summary>\n{}</details>\n",
        counted(quiet, "warning"), folded);
  }
  return text;
}

}  // namespace

std::string page_title(const Sources& sources) {
  std::set<std::string> models;
  std::set<int> ranks;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) {
      if (!run.model.empty()) models.insert(clip(run.model, 40));
      ranks.insert(run.ranks);
    }
    if (!named.record.training) continue;
    for (const auto& [name, value] : named.record.training->settings) {
      if (name == "network") models.insert(clip(value, 40));
    }
  }
  if (results::all_published(sources.records)) return "Published results";
  if (models.empty()) return "No results";
  // More names than three would not fit a heading.
  const std::string names = models.size() > 3 ? fmt::format("{} networks", models.size())
                                              : fmt::format("{}", fmt::join(models, ", "));
  if (results::all_trainings(sources.records)) return fmt::format("How {} learned", names);
  if (sources.records.size() == 2)
    return fmt::format("{}: {} against {}", names, sources.records[1].name, sources.records[0].name);
  if (ranks.size() == 1) return fmt::format("{} at {}", names, counted(*ranks.begin(), "rank"));
  return fmt::format("How {} {}", names, models.size() == 1 ? "scales" : "scale");
}

std::string summary_part(const Sources& sources) {
  const std::string figures = figures_part(sources);
  const std::string text = to_html(results::explanation(sources));
  const std::string beside = cautions_part(cautions_of(sources));
  if (beside.empty()) return figures + text;
  return figures + "<div class=\"grid two\">\n<div>" + text + "</div>\n<div>" + beside + "</div>\n</div>\n";
}

}  // namespace lockstep::plots
