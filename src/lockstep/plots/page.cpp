#include "lockstep/plots/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/plots/curves.h"
#include "lockstep/plots/text.h"
#include "lockstep/results/tables/row_tables.h"
#include "lockstep/results/tables/tables.h"

namespace lockstep::plots {
namespace {

using results::Cell;
using results::Document;
using results::Run;
using results::RunColumn;
using results::Table;
using results::Warning;

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

/// More columns than this need small print on paper.
constexpr size_t kMany = 14;

/// Numbers are aligned at their right end by the class "n".
std::string kind_class(const Table::Column& column) {
  return column.kind == Table::Kind::kNumber ? " class=\"n\"" : "";
}

/// A cell; its share of a whole is a bar that the style sheet draws from the variable --v.
std::string cell_markup(const Table::Column& column, const Cell& cell, bool first) {
  const std::string text = cell.text == results::kNoValue ? std::string(kMissing) : escape(cell.text);
  if (first) return fmt::format("<th scope=\"row\"{}>{}</th>", kind_class(column), text);
  if (!cell.share || !std::isfinite(*cell.share))
    return fmt::format("<td{}>{}</td>", kind_class(column), text);
  return fmt::format("<td class=\"n bar\" style=\"--v:{}%\">{}</td>",
                     coordinate(std::clamp(*cell.share, 0.0, 1.0) * 100), text);
}

/// The box of a table, not closed yet: inside of it the table scrolls sideways where the window is too
/// narrow.
std::string table_markup(const Table& table, const std::string& caption, size_t most_rows) {
  std::string text = fmt::format(
      "<div class=\"table{1}\"><h3>{0}</h3>\n<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\">"
      "<table aria-label=\"{0}\">\n<thead><tr>",
      escape(caption), table.columns.size() > kMany ? " many" : "");
  for (const Table::Column& column : table.columns)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", kind_class(column), escape(column.head));
  text += "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < std::min(most_rows, table.rows.size()); ++row) {
    text += "<tr>";
    for (size_t i = 0; i < table.columns.size(); ++i)
      text += cell_markup(table.columns[i], table.rows[row][i], i == 0);
    text += "</tr>\n";
  }
  // Ends the table and its scrolling part; the box stays open for remarks.
  text += "</tbody></table></div>\n";
  if (table.rows.size() > most_rows) {
    text += fmt::format("<p class=\"note\">{} of {} rows are shown; the file has all of them.</p>\n",
                        count_text(most_rows), count_text(table.rows.size()));
  }
  return text;
}

/// Writes blocks one by one. A heading becomes the caption of the table below it, or stands above
/// preformatted lines; remarks below a table stand in its box.
class HtmlWriter {
 public:
  explicit HtmlWriter(size_t most_rows) : most_rows_(most_rows) {}

  void operator()(const results::Heading& heading) {
    close_box();
    caption_ = heading.text;
  }
  void operator()(const Table& table) {
    close_box();
    markup_ += table_markup(table, std::exchange(caption_, ""), most_rows_);
    in_box_ = true;
  }
  /// A remark outside of a table's box is a paragraph of the page.
  void operator()(const results::Remark& remark) {
    markup_ += fmt::format("<p class=\"{}\">{}{}</p>\n", in_box_ ? "note" : "lead", escape(remark.lead),
                           prose(remark.text));
  }
  void operator()(const results::List& list) {
    close_box();
    markup_ += "<ul class=\"findings\">\n";
    for (const std::string& item : list.items) markup_ += fmt::format("<li>{}</li>\n", prose(item));
    markup_ += "</ul>\n";
  }
  void operator()(const results::Preformatted& lines) {
    close_box();
    if (!caption_.empty()) markup_ += fmt::format("<h3>{}</h3>\n", escape(std::exchange(caption_, "")));
    markup_ += fmt::format("<pre class=\"scroll\" tabindex=\"0\">{}</pre>\n", escape_lines(lines.text));
  }

  std::string markup() && {
    close_box();
    return std::move(markup_);
  }

 private:
  void close_box() {
    if (std::exchange(in_box_, false)) markup_ += "</div>\n";
  }

  size_t most_rows_;
  std::string caption_;
  std::string markup_;
  bool in_box_ = false;
};

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

/// Fewer rows may be alike by chance.
constexpr size_t kFewestRows = 3;

/// One column with the labels of the runs, and one with their ranks: a narrow window shows these and
/// the first number without scrolling.
std::vector<RunColumn> label_columns(const std::vector<LabelledRun>& runs) {
  std::map<const Run*, std::string> labels;
  for (const LabelledRun& run : runs) labels[run.run] = run.label;
  return {{{"run", results::kText}, [labels](const Run& run) { return labels.at(&run); }},
          {"ranks", [](const Run& run) { return count_text(run.ranks); }}};
}

constexpr size_t kLabelColumns = 2;

/// Drops columns of numbers that no row fills, or that are the same in all of several rows. Returns the
/// latter in words: "steps 20, memory 1.2 GiB".
std::string drop_constant_columns(Table& table) {
  std::vector<std::string> dropped;
  for (size_t i = table.columns.size(); i-- > kLabelColumns;) {
    const std::string text = table.rows.front()[i].text;
    const bool empty = text == results::kNoValue || text == kMissing;
    if (!empty && table.rows.size() < kFewestRows) continue;
    if (!std::ranges::all_of(table.rows, [&](const auto& row) { return row[i].text == text; })) continue;
    if (!empty) dropped.insert(dropped.begin(), fmt::format("{} {}", table.columns[i].head, text));
    table.columns.erase(table.columns.begin() + i);
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + i);
  }
  return fmt::format("{}", fmt::join(dropped, ", "));
}

/// A heading and a table of the runs of all sources that satisfy `has`; empty where there is none.
Document runs_table(
    const Sources& sources, const std::string& heading, bool (*has)(const Run&),
    const std::function<Table(const std::vector<const Run*>&, const std::vector<RunColumn>&)>& table_of,
    const std::vector<results::Remark>& remarks = {}) {
  std::vector<LabelledRun> labelled = labelled_runs(sources);
  std::erase_if(labelled, [&](const LabelledRun& run) { return !has(*run.run); });
  if (labelled.empty()) return {};
  std::vector<const Run*> runs;
  for (const LabelledRun& run : labelled) runs.push_back(run.run);
  Table table = table_of(runs, label_columns(labelled));
  const std::string constant = drop_constant_columns(table);
  Document document = results::Heading{heading};
  document.add(std::move(table));
  if (!constant.empty()) document.add(results::Remark{"The same in every row: ", constant + "."});
  for (const results::Remark& remark : remarks) document.add(remark);
  return document;
}

/// First and last loss. Both are 0 in files that do not have them.
std::string loss_text(const Run& run) {
  if (run.recorded || (run.loss_first == 0 && run.loss_last == 0)) return std::string(kMissing);
  return fmt::format("{} → {}", number_text(run.loss_first), number_text(run.loss_last));
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

std::string prose(std::string_view text) {
  std::string out;
  bool code = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t quote = text.find('`', at);
    // A quote that nothing closes is text.
    const bool pairs =
        quote != std::string_view::npos && (code || text.find('`', quote + 1) != std::string_view::npos);
    const size_t end = pairs ? quote : text.size();
    out += escape(text.substr(at, end - at));
    if (pairs) {
      code = !code;
      out += code ? "<code>" : "</code>";
    }
    at = end + 1;
  }
  return out;
}

std::string to_html(const results::Document& document, size_t most_rows) {
  HtmlWriter writer(most_rows);
  for (const results::Block& block : document.blocks()) {
    std::visit([&](const auto& one) { writer(one); }, block);
  }
  return std::move(writer).markup();
}

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

Document results_table(const Sources& sources, const std::string& heading) {
  // The same columns for every page; columns that no run fills are dropped.
  const std::vector<RunColumn> columns{
      {results::unit_of(sources) + "s/s",
       [](const Run& run) {
         return run.images_per_s == 0 ? std::string(kMissing) : number_text(run.images_per_s);
       }},
      {"95 %", results::uncertainty_text},
      {"speed-up", results::speedup_with_interval},
      {"stated", [](const Run& run) { return results::fixed_text(run.stated_speedup, 2); }},
      {"efficiency",
       [](const Run& run) { return Cell(results::efficiency_with_interval(run), run.efficiency); }},
      {"p50", [](const Run& run) { return time_text(run.step_s.p50); }},
      {"p75", [](const Run& run) { return time_text(run.step_s.p75); }},
      {"p95", [](const Run& run) { return time_text(run.step_s.p95); }},
      {"steps", [](const Run& run) { return count_text(static_cast<int64_t>(run.samples.size())); }},
      {"memory",
       [](const Run& run) {
         const int64_t peak = results::peak_memory_bytes(run);
         return peak > 0 ? format_bytes(peak) : std::string(kMissing);
       }},
      {"loss", loss_text}};
  std::vector<const Run*> all;
  for (const NamedRecord& named : sources.records) {
    for (const Run& run : named.record.runs) all.push_back(&run);
  }
  std::vector<results::Remark> remarks;
  if (const std::string reasons = results::uncertainty_reasons(all); !reasons.empty()) {
    remarks.push_back({"95 %: ", fmt::format("no interval where there is a word. {}.", reasons)});
  }
  return runs_table(
      sources, heading, [](const Run&) { return true; },
      [&](const std::vector<const Run*>& runs, const std::vector<RunColumn>& names) {
        return results::run_table(runs, columns, names);
      },
      remarks);
}

Document phases_tables(const Sources& sources) {
  const auto has = [](const Run& run) { return run.breakdown && positive(run.breakdown->mean.step_s); };
  const bool recorded = std::ranges::all_of(sources.records, [](const NamedRecord& named) {
    return named.record.source == results::kRecordedSource;
  });
  // Publications do not measure phases as lockstep does.
  const auto remarks = results::all_published(sources.records) ? std::vector<results::Remark>()
                                                               : results::phases_remarks(recorded);
  return runs_table(sources, "Phases of a mean step, milliseconds", has, results::phases_table, remarks);
}

Document factors_tables(const Sources& sources) {
  return runs_table(sources, "Efficiency and its factors, per cent", results::has_factors,
                    results::factors_table, results::factors_remarks());
}

Document published_table(const NamedRecord& published) {
  const Sources alone{{published}, {}};
  Document document = results_table(alone, published.name);
  document.append(phases_tables(alone));
  for (const results::Warning& warning : published.record.warnings) {
    document.add(results::Remark{"", warning.text});
  }
  return document;
}

std::string circumstances(const NamedRecord& named) {
  constexpr size_t kMostMachines = 4;
  constexpr size_t kMostCharacters = 2000;
  std::vector<results::Fact> facts{{"File", named.name}};
  if (!named.record.lockstep_version.empty())
    facts.push_back({"lockstep version", named.record.lockstep_version});
  for (results::Fact& fact : results::facts_of(named.record, kMostMachines)) facts.push_back(std::move(fact));
  std::string text;
  for (const results::Fact& fact : facts) {
    text += fmt::format("<dt>{}</dt><dd>{}{}</dd>\n", escape(fact.name),
                        escape(clip(fact.value, kMostCharacters)),
                        fact.lines.empty() ? "" : to_html(results::Preformatted{fact.lines}));
  }
  return "<dl>\n" + text + "</dl>\n";
}

}  // namespace lockstep::plots
