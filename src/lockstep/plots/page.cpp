
#include "lockstep/plots/page.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/plots/chart.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/recorded_text.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

std::string figure(std::string_view name, const Sources& sources, const std::string& id,
                   const std::string& more_title = "") {
  const ChartForm form{.id = id};
  Chart chart = charts().get(name)(sources, form);
  chart.title += more_title;
  return figure_html(chart, name, form);
}

bool is_missing(const std::string& figure) {
  return figure.starts_with("<div class=\"missing\"");
}

std::string if_drawn(const std::string& figure) {
  return is_missing(figure) ? "" : figure;
}

/// Content stacked in one cell of a grid.
std::string column(const std::string& content) {
  return "<div class=\"column\">\n" + content + "</div>\n";
}

/// Every published record, with charts of its own where the ones above cannot hold its curves.
std::string published_part(const Sources& sources) {
  // If there are few enough curves, the charts at the top of the page show all of them.
  const bool apart = throughput_curves(sources).size() > kMostCurves;
  std::string text;
  for (size_t i = 0; i < sources.published.size(); ++i) {
    const NamedRecord& named = sources.published[i];
    const auto draw = [&](std::string_view name) {
      return figure(name, {sources.records, {named}, sources.forecasts},
                    fmt::format("published-{}-{}", i + 1, name), ": beside " + named.name);
    };
    const bool speedups = std::ranges::any_of(
        named.record.runs, [](const results::Run& run) { return run.speedup.has_value(); });
    if (apart) text += grid_html((speedups ? draw("speedup") : "") + draw("throughput"));
    text += to_html(published_table(named));
  }
  return text;
}

/// Curves and tables of trainings.
std::string training_part(const Sources& sources) {
  std::string tables;
  for (const NamedRecord& named : sources.records) {
    if (named.record.training) tables += to_html(results::epochs_table(*named.record.training));
  }
  if (tables.empty()) return "";
  return section_html("How it learned", grid_html(if_drawn(figure("loss", sources, "loss")) +
                                                  if_drawn(figure("accuracy", sources, "accuracy"))) +
                                            tables);
}

/// Charts and tables of the records. Every id begins with `prefix`, every heading with `topic`.
std::string record_sections(const Sources& sources, const std::string& prefix, const std::string& topic) {
  const auto draw = [&](std::string_view name) {
    return figure(name, sources, fmt::format("{}{}", prefix, name));
  };
  std::string charts = if_drawn(draw("setting"));
  const bool scales = std::ranges::any_of(throughput_curves(sources),
                                          [](const Curve& curve) { return curve.points.size() > 1; });
  // At one number of ranks the setting's chart has all rates. The summary says why there is no speed-up.
  if (charts.empty() || scales) charts += if_drawn(draw("speedup")) + draw("throughput");
  std::string text = section_html(topic + (scales ? "How it scales" : "How fast it is"),
                                  grid_html(charts) + to_html(results_table(sources)));
  if (sources.records.empty()) return text;
  const std::string phases = draw("phases");
  std::string buckets = draw("buckets");
  std::string recorded;
  for (const NamedRecord& named : sources.records)
    recorded += to_html(results::recorded_remarks(named.record));
  // Without a breakdown both are missing for one reason, which is given once; a recording has all that there
  // is.
  if (is_missing(buckets) && (is_missing(phases) || !recorded.empty())) buckets.clear();
  text += section_html(
      topic + "Where the time goes",
      grid_html(phases + buckets) + to_html(phases_tables(sources)) + to_html(factors_tables(sources)));
  text += section_html(topic + "How it was recorded", recorded);
  // A recording has no memory, and lockstep cannot measure it.
  const std::string memory = draw("memory");
  return text +
         section_html(topic + "Step times and memory",
                      grid_html(draw("distribution") +
                                column(draw("series") + (recorded.empty() ? memory : if_drawn(memory)))));
}

/// The networks of the records, in their order, if each deserves sections of its own: more runs than one
/// chart shows well, and not too many networks.
std::vector<std::string> models_apart(const Sources& sources) {
  constexpr size_t kMostTogether = 16;
  constexpr size_t kMostModels = 12;
  std::vector<std::string> models;
  size_t runs = 0;
  for (const NamedRecord& named : sources.records) {
    for (const results::Run& run : named.record.runs) {
      ++runs;
      if (std::ranges::find(models, run.model) == models.end()) models.push_back(run.model);
    }
  }
  if (runs <= kMostTogether || models.size() > kMostModels) return {};
  return models.size() > 1 ? models : std::vector<std::string>();
}

/// The part of the sources about one network.
Sources of_model(const Sources& sources, const std::string& model) {
  Sources part = sources;
  for (std::vector<NamedRecord>* records : {&part.records, &part.published}) {
    for (NamedRecord& named : *records)
      std::erase_if(named.record.runs, [&](const results::Run& run) { return run.model != model; });
  }
  return part;
}

/// One group of sections for all networks together, or one for each.
std::string all_sections(const Sources& sources) {
  const std::vector<std::string> models = models_apart(sources);
  if (models.empty()) return record_sections(sources, "", "");
  std::string text;
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string name = escape(clip(models[i], 60));
    text += record_sections(of_model(sources, models[i]), fmt::format("m{}-", i + 1), name + ": ");
  }
  return text;
}

/// "a.json · b.json · node1 · 2026-01-01T00:00:00Z".
std::string subtitle(const Sources& sources) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min<size_t>(4, sources.records.size()); ++i)
    parts.push_back(sources.records[i].name);
  if (sources.records.size() > 4) parts.push_back(fmt::format("{} more", sources.records.size() - 4));
  if (!sources.records.empty() && !sources.records[0].record.machines.empty()) {
    parts.push_back(sources.records[0].record.machines[0].host);
    parts.push_back(sources.records[0].record.started_at);
  }
  std::erase(parts, "");
  return fmt::format("{}", fmt::join(parts, " · "));
}

}  // namespace

std::string figure_html(const Chart& chart, std::string_view name, const ChartForm& form) {
  if (!chart.drawn()) {
    return fmt::format("<div class=\"missing\"><h3>{}</h3><p>Not drawn: {}. {}</p></div>\n",
                       escape(chart.title), prose(chart.missing), prose(chart.advice));
  }
  std::string caption;
  for (const std::string& note : chart.notes) caption += fmt::format("<p>{}</p>", prose(note));
  return fmt::format("<figure id=\"{}-figure\" data-chart=\"{}\"><h3>{}</h3>\n{}{}</figure>\n", form.id, name,
                     escape(chart.title), inline_svg(chart, form),
                     caption.empty() ? "" : "<figcaption>" + caption + "</figcaption>\n");
}

std::string grid_html(const std::string& figures) {
  return "<div class=\"grid two\">\n" + figures + "</div>\n";
}

std::string section_html(std::string_view heading, const std::string& content) {
  return content.empty() ? "" : fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", heading, content);
}

std::string page_of(const std::string& title, const std::string& subtitle, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // Second line of defence behind escaping: the page loads nothing and runs nothing.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n"
      "<header><h1>{0}</h1><p class=\"sub\">{2}</p></header>\n{3}"
      "<footer>Made by lockstep. docs/README.md says where each chart is "
      "explained.</footer>\n</main>\n</body>\n</html>\n",
      escape(title), page_style(), escape(subtitle), body);
}

std::string report_page(const Sources& sources, const results::Document& help) {
  std::string body = summary_part(sources);
  body += training_part(sources);
  if (!results::all_trainings(sources.records)) body += all_sections(sources);
  body += section_html("What would help", to_html(help));
  body += section_html("Published results", published_part(sources));
  std::string measured;
  for (const NamedRecord& record : sources.records) measured += circumstances(record);
  body += section_html("How it was measured", measured);
  return page_of(page_title(sources), subtitle(sources), body);
}

}  // namespace lockstep::plots
