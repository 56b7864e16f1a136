#pragma once

#include <string>
#include <string_view>

#include "lockstep/plots/frame.h"
#include "lockstep/results/tables/document.h"

namespace lockstep::plots {

/// The style sheet of a report: page.css, and the colours of drawings in dark mode.
std::string page_style();

/// Escaped text of a page; text between back quotes becomes code.
std::string prose(std::string_view text);

/// The document as HTML. All text in it is escaped here. A table shows at most `most_rows` rows, with a note
/// on how many there are.
std::string to_html(const results::Document& document, size_t most_rows = 200);

/// A self-contained page around `body`, which is HTML. Title and subtitle are escaped here.
std::string page_of(const std::string& title, const std::string& subtitle, const std::string& body);
/// A chart with its title and notes, or the reason why there is none. `name`: the kind of chart.
std::string figure_html(const Chart& chart, std::string_view name, const ChartForm& form);
/// Figures side by side where a window is wide.
std::string grid_html(const std::string& figures);
/// Content below a heading, which is HTML; empty without content.
std::string section_html(std::string_view heading, const std::string& content);

/// "How resnet50 scales".
std::string page_title(const Sources& sources);
/// Key figures, the explanation, and warnings beside it if there are some.
std::string summary_part(const Sources& sources);

// Tables of a page, empty where there is nothing to show.

/// A row for each run: rate with its interval, speed-up, efficiency, percentiles, memory.
results::Document results_table(const Sources& sources, const std::string& heading = "Rates and step times");
/// A row for each run with a breakdown.
results::Document phases_tables(const Sources& sources);
/// A row for each run whose efficiency is split into factors or whose communication was hidden.
results::Document factors_tables(const Sources& sources);
/// The rows of a published record, its phases where it has some, and its warnings.
results::Document published_table(const NamedRecord& published);

/// How a record was measured, as a list: versions, machines, command.
std::string circumstances(const NamedRecord& record);

/// A self-contained HTML page: no script, no request to anywhere. Readable on a phone, in print and in dark
/// mode. Sections without data say how to get it. `help`: changes that would make a job faster.
std::string report_page(const Sources& sources, const results::Document& help = {});

}  // namespace lockstep::plots
