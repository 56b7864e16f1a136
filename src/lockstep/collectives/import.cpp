#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/number_range.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/record.h"

namespace lockstep::collectives {
namespace {

using Words = std::vector<std::string>;
using Line = std::span<const std::string>;

constexpr const char* kCut = "cut short or damaged";
constexpr const char* kUsualColumns =
    "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";
/// Bytes of a size and number of devices whose product an int64_t holds.
constexpr NumberRange kPrintedBytes{.most = 4.5e12}, kDevices{.most = 1e6 - 1};

/// Types of nccl-tests, with the deviation that its versions before 2.13 allow (deltaMaxValue in common.cu).
const std::map<std::string, std::pair<const char*, double>> kTypes{{"float", {"fp32", 1e-5}},
                                                                   {"double", {"fp64", 1e-12}},
                                                                   {"half", {"fp16", 1e-2}},
                                                                   {"bfloat16", {"bf16", 1e-2}}};

/// A number as printed; its value lies within `half`, half of the last digit.
struct Printed {
  double value = 0, half = 0;
};

/// A row without collective, ranks and rates, and the bandwidths as printed.
struct TextRow {
  Row row;
  std::optional<Printed> algorithm, bus;

  /// Whether the bandwidths, rounded as they are, can have this ratio.
  bool fits(double factor) const {
    return !algorithm || !bus ||
           std::abs(bus->value - factor * algorithm->value) <= 1.01 * (bus->half + factor * algorithm->half);
  }
  /// Precision of the ratio; 0: there is none.
  double precision() const { return algorithm && bus ? algorithm->value / algorithm->half : 0; }
};
/// Enough of it to judge, and the largest number of ranks that it may tell.
constexpr double kPrecise = 20;
constexpr int kMostTold = 4096;

/// A collective and its ranks; empty and 0: unknown.
struct Meaning {
  std::string collective;
  int ranks = 0;

  std::string text() const {
    const std::string what = collective.empty() ? "a test" : collective;
    return ranks > 0 ? fmt::format("{} of {}", what, counted(ranks, "rank")) : what;
  }
};

/// A test: its head, what is said above it, and its rows.
struct TextTable {
  /// "nccl-tests" or "osu".
  std::string tool;
  Words columns;
  Meaning stated;
  /// The half in place comes first.
  bool swapped = false;
  /// The test has a root: its column is there and not -1.
  bool rooted = false;
  std::vector<TextRow> rows;
};

/// lockstep's name of a collective that a text mentions; empty: none.
std::string collective_in(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isalnum(c) == 0; });
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::pair<std::string, std::string>> names{{"bcast", "broadcast"}};
  for (const char* printed : {"mpilatency", "mpibandwidth", "cudalatency", "cudabandwidth"})
    names.emplace_back(printed, "send_recv");
  // Longer ones come before those that they hold.
  for (const std::string& name : operations().names()) {
    names.emplace_back(name, name);
    std::erase(names.back().first, '_');
  }
  for (const auto& [printed, name] : names)
    if (text.find(printed) != text.npos) return name;
  return "";
}

bool is_whole(const std::string& word) {
  return word.find_first_not_of("0123456789") == word.npos;
}

/// A date or a time of day.
bool is_clock(const std::string& word) {
  const auto marks = [&](char mark) { return std::ranges::count(word, mark); };
  return word.find_first_not_of("0123456789:.,-/+TZ") == word.npos && word.size() > 5 &&
         std::max({marks(':'), marks('-'), marks('/')}) > 1;
}

/// Words of a line without colors, clocks, brackets and colons.
Words words_of(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    // "\x1b[36m" is a color.
    const bool colored = line[i] == '\x1b';
    if (colored) i = std::min(line.find('m', i), line.size());
    text += colored || std::strchr("[]()<>|", line[i]) != nullptr ? ' ' : line[i];
  }
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    if (is_clock(word)) continue;
    std::erase(word, ':');
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::string joined(const Line& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::optional<Printed> printed(const std::string& word) {
  const std::optional<double> value = parse_number(word, {});
  if (!value) return std::nullopt;
  const size_t exponent = std::min(word.find('e'), word.size()),
               point = std::min(word.find('.') + 1, exponent);
  const double power = exponent < word.size() ? std::strtod(&word[exponent + 1], nullptr) : 0;
  return Printed{*value, 0.5 * std::pow(10, power - (point == 0 ? 0 : double(exponent - point)))};
}

/// Adds a line of nccl-tests, out of place and in place. Returns why it is left out; empty: it is not.
std::string add_nccl_row(TextTable& table, Line words) {
  std::map<std::string, Words> cells;
  for (const std::string& column : table.columns) {
    // Blank in some versions, where a collective has none.
    const bool blank =
        column == "redop" && !words.empty() && !std::isalpha(static_cast<unsigned char>(words[0][0]));
    if (blank || column == "timestamp" || (column == "root" && words.size() == 8)) continue;
    if (words.empty()) return kCut;
    cells[column].push_back(words[0]);
    words = words.subspan(1);
  }
  const auto cell = [&](const char* column, size_t half = 0) {
    return half < cells[column].size() ? cells[column][half] : "N/A";
  };
  const auto bytes = parse_whole(cell("size"), kPrintedBytes),
             count = parse_whole(cell("count"), kPrintedBytes);
  if (!bytes || !count) return kCut;
  if (*bytes == 0) return "of 0 bytes";
  table.rooted = is_whole(cell("root"));
  const auto type = kTypes.find(cell("type"));
  std::vector<TextRow> halves;
  for (size_t half = 0; half < cells["time"].size(); ++half) {
    for (const char* column : {"time", "algbw", "busbw", "#wrong", "error"})
      if (cell(column, half) != "N/A" && !printed(cell(column, half))) return kCut;
    const auto time = printed(cell("time", half)), algorithm = printed(cell("algbw", half)),
               wrong = printed(cell("#wrong", half)), error = printed(cell("error", half));
    if (!time) continue;
    Row& row = halves.emplace_back(TextRow{{}, algorithm, printed(cell("busbw", half))}).row;
    row.bytes = *bytes;
    row.count = *count;
    row.dtype = type == kTypes.end() ? cell("type") : type->second.first;
    row.op = cells.contains("redop") ? cell("redop") : "none";
    row.place = (half == 0) == table.swapped ? kInPlace : kOutOfPlace;
    row.median_s = time->value * 1e-6;
    if (wrong) row.wrong = std::llround(std::min(wrong->value, 1e18));
    // The largest deviation, which is no count.
    if (error && error->value > (type == kTypes.end() ? 0 : type->second.second))
      row.deviation = error->value;
    else if (error)
      row.wrong = 0;
    const double gb_per_s = double(*bytes) / row.median_s / 1e9;
    if (time->value == 0) return kCut;
    if (algorithm && std::abs(gb_per_s - algorithm->value) >
                         1.01 * (algorithm->half + gb_per_s * time->half / time->value))
      return "whose algbw is not size over time";
  }
  std::ranges::move(halves, std::back_inserter(table.rows));
  return halves.empty() ? kCut : "";
}

/// The same for OSU: a size and the mean latency in us, or MB/s.
std::string add_osu_row(TextTable& table, Line words) {
  auto column = table.columns.end();
  for (const char* name : {"Pure", "Avg", "Latency", "MB/s"}) {
    if (column == table.columns.end())
      column =
          std::ranges::find_if(table.columns, [&](const auto& one) { return one.find(name) != one.npos; });
  }
  const auto at = static_cast<size_t>(column - table.columns.begin());
  const auto bytes = parse_whole(words[0], kPrintedBytes);
  const double value = at < words.size() ? parse_number(words[at], {}).value_or(0) : 0;
  if (bytes == 0) return "of 0 bytes";
  if (words.size() < table.columns.size() || !bytes || value == 0) return kCut;
  Row& row = table.rows.emplace_back().row;
  row.bytes = row.count = *bytes;
  row.dtype = "uint8";
  row.place = kOutOfPlace;
  row.median_s = 1e-6 * (column->ends_with("MB/s") ? double(*bytes) / value : value);
  return "";
}

/// Names of OSU's columns, each of which ends with a unit but for a few.
Words osu_columns(const Line& words) {
  static const std::set<std::string> kLast{"Size", "us",         "MB/s",      "Messages/s",
                                           "%",    "Iterations", "Validation"};
  Words columns;
  for (size_t begin = 0, at = 0; at < words.size(); ++at) {
    if (!kLast.contains(words[at])) continue;
    columns.push_back(joined(words.subspan(begin, at + 1 - begin)));
    begin = at + 1;
  }
  return columns;
}

/// Tables of a text, line by line. Lines that begin as a head does belong to it, whatever a launcher or a
/// collector of logs has put there.
class TextReader {
 public:
  void read(const Words& words) {
    static const std::set<std::string> kMarks{"#", "size", "Size", "Rank", "nThread", "Using"};
    const auto mark = std::ranges::find_if(words, [](const auto& word) { return kMarks.contains(word); });
    const auto tag = std::span(words.begin(), mark);
    Line line = std::span(words).subspan(tag.size());
    if (line.empty()) {
      if (Source all{above_}; !read_row(words)) read_above(all, joined(words));
      return;
    }
    if (line[0] == "#") line = line.subspan(1);
    Source& source = sources_[joined(tag)];
    const std::string text = joined(line);
    TextTable table{.tool = text.starts_with("Size ") ? "osu" : "nccl-tests"};
    table.columns = table.tool == "osu" ? osu_columns(line) : Words(line.begin(), line.end());
    if (table.tool == "osu" ? table.columns.size() < 2
                            : text.find("size ") == text.npos || text.find("time algbw") == text.npos)
      return read_above(source, text);
    table.stated = source.above;
    if (table.stated.collective.empty()) table.stated.collective = above_.collective;
    if (table.stated.ranks == 0) table.stated.ranks = above_.ranks;
    table.swapped = source.swapped;
    source = {{}, false, tables.size()};
    tables.push_back(std::move(table));
  }

  std::vector<TextTable> tables;
  /// Lines by the reason why they are left out.
  std::map<std::string, int> left_out;

 private:
  /// Lines that begin alike.
  struct Source {
    /// Said since their last table.
    Meaning above;
    bool swapped = false;
    std::optional<size_t> table;
  };

  void read_above(Source& source, const std::string& text) {
    const auto number_behind = [&](std::string_view word) {
      const size_t begin = text.find(word) + word.size();
      return static_cast<int>(
          parse_whole(text.substr(begin, text.find(' ', begin) - begin), kDevices).value_or(0));
    };
    // "#  Rank  0 Group  0 Pid  12 on host device  0 [0x07] NVIDIA A100", in all versions.
    if (text.starts_with("Rank ") && text.find(" device ") != text.npos) {
      source.above.ranks = above_.ranks = std::max(source.above.ranks, number_behind("Rank ") + 1);
    } else if (text.find(" nranks ") != text.npos) {
      above_.ranks = number_behind(" nranks ");
    } else if (text.starts_with("Using") || text.starts_with("nThread")) {
      source.above.ranks = above_.ranks = 0;
    } else if (text.find("-place") != text.npos) {
      source.swapped = text.starts_with("in-place");
    } else if (text.starts_with("OSU ") ||
               (text.find("NCCL ") == text.npos && text.find("concluded") == text.npos)) {
      const std::string name = collective_in(text);
      if (!name.empty() || text.starts_with("OSU ")) source.above.collective = above_.collective = name;
    }
  }

  /// Whether a line is a row: behind the tag of a head, or else behind any other.
  bool read_row(const Words& words) {
    for (size_t i = 0; i < 2 * words.size(); ++i) {
      const size_t at = i % words.size();
      const Line row = std::span(words).subspan(at);
      const auto source = sources_.find(joined(std::span(words).first(at)));
      const bool own = source != sources_.end() && source->second.table;
      if (own != (i < words.size()) || !is_whole(row[0])) continue;
      const bool two = row.size() < 2 || is_whole(row[1]);
      const bool nccl = two && row.size() > 2 && std::islower(static_cast<unsigned char>(row[2][0])) != 0;
      if (tables.empty()) {
        // Rows without any head.
        TextTable table{"nccl-tests", words_of(kUsualColumns), {}, {}, {}, {}};
        if (nccl && add_nccl_row(table, row).empty()) tables.push_back(std::move(table));
        continue;
      }
      TextTable& table = own ? tables[*source->second.table] : tables.back();
      const bool osu = table.tool == "osu" && (own || row.size() == table.columns.size());
      if (!osu && !nccl && !(own && two && row.size() < 3)) continue;
      const std::string damage = osu ? add_osu_row(table, row) : add_nccl_row(table, row);
      if (!damage.empty()) ++left_out[damage];
      above_ = {};
      return true;
    }
    return false;
  }

  std::map<std::string, Source> sources_;
  /// Said by any line since the last row.
  Meaning above_;
};

/// What a test may be of these. A number of ranks that is not given follows from the ratio of the bandwidths,
/// where only one fits.
std::vector<Meaning> meanings_of(const TextTable& table, const Words& names, int ranks) {
  std::vector<Meaning> all;
  for (const std::string& name : names) {
    const Operation& operation = operations().get(name);
    const auto can_be = [&](int n) {
      int64_t against = 0, in_favor = 0;
      for (const TextRow& read : table.rows) {
        const bool fits = read.fits(bus_factor(operation, n));
        if (!fits) ++against;
        if (fits && read.precision() > kPrecise) ++in_favor;
      }
      return against == 0 || against < in_favor;
    };
    // OSU's programs of this name have two ranks.
    int n = ranks == 0 && table.tool == "osu" && name == "send_recv" ? 2 : ranks, fitting = 1;
    if (n == 0 && operation.shares > 0) {
      fitting = 0;
      for (int one = 2; one <= kMostTold; ++one)
        if (can_be(one)) n = ++fitting == 1 ? one : 0;
    }
    if (fitting > 1 || (fitting == 1 && can_be(n))) all.push_back({name, n});
  }
  return all;
}

/// Throws Error for a test whose bandwidths contradict its name or its ranks, and where these must be given.
Meaning meaning_of(const TextTable& table, const std::string& file, const ImportHints& hints, Words& notes) {
  const Meaning known{hints.collective.empty() ? table.stated.collective : hints.collective,
                      hints.ranks > 0 ? hints.ranks : table.stated.ranks};
  // By the reduction and the root, where nccl-tests prints them.
  Words like = operations().names();
  const bool reduces = table.rows.front().row.op != "none";
  std::erase_if(like, [&](const std::string& name) {
    const bool rooted = name == "broadcast" || name == "reduce", reduction = name.find("reduce") != name.npos;
    return table.tool != "osu" && (rooted != table.rooted || (reduction != reduces && name != "send_recv"));
  });
  std::vector<Meaning> possible =
      meanings_of(table, known.collective.empty() ? like : Words{known.collective}, known.ranks);
  const auto texts = [](const std::vector<Meaning>& meanings) {
    Words all;
    for (const Meaning& meaning : meanings) all.push_back(meaning.text());
    return join_alternatives(all);
  };
  if (possible.empty()) {
    const TextRow& best = *std::ranges::max_element(table.rows, {}, &TextRow::precision);
    std::vector<Meaning> others = meanings_of(table, like, table.stated.ranks);
    if (others.empty()) others = meanings_of(table, like, 0);
    throw Error(
        fmt::format("'{}': busbw is {} times algbw at {}, which is not {}{}", file,
                    format_number(best.bus->value / best.algorithm->value, 3), format_bytes(best.row.bytes),
                    known.text(), others.empty() ? "" : ", but " + texts(others)),
        "Name the collective with --collective, and its number of ranks with --ranks.");
  }
  for (const std::string& likely : {collective_in(file), hints.usual_collective}) {
    const auto found = std::ranges::find(possible, likely, &Meaning::collective);
    if (found != possible.end()) possible = {Meaning(*found)};
  }
  if (possible.size() > 1)
    throw Error(fmt::format("'{}' does not say which collective it is", file),
                fmt::format("Name it with --collective: {}.", texts(possible)));
  if (possible[0].ranks == 0)
    throw Error(fmt::format("'{}' does not say how many ranks took part", file),
                "Give their number with --ranks, as --ranks 8.");
  const bool renamed = !table.stated.collective.empty() && table.stated.collective != possible[0].collective;
  const bool recounted = table.stated.ranks > 0 && table.stated.ranks != possible[0].ranks;
  if (known.collective.empty() || known.ranks == 0 || renamed || recounted)
    notes.push_back(fmt::format("'{}' says {}: read as {}", file, table.stated.text(), possible[0].text()));
  return possible[0];
}

}  // namespace

ImportedText import_text(std::string_view text, const std::string& name, const ImportHints& hints) {
  if (!hints.collective.empty()) operations().get(hints.collective);
  TextReader reader;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) reader.read(words_of(line));

  ImportedText imported;
  // Tests that are asked for, if there are any.
  const auto is_wanted = [&](const TextTable& table) {
    return (hints.collective.empty() || table.stated.collective == hints.collective) &&
           (hints.ranks == 0 || table.stated.ranks == hints.ranks);
  };
  const bool any = std::ranges::any_of(reader.tables, is_wanted);
  std::optional<Error> refusal;
  std::map<std::string, int> runs;
  for (const TextTable& table : reader.tables) {
    if (table.rows.empty() || (any && !is_wanted(table))) {
      imported.notes.push_back(fmt::format("'{}': {} {}", name, table.stated.text(),
                                           table.rows.empty() ? "has no row" : "left out"));
      continue;
    }
    try {
      const Meaning meaning = meaning_of(table, name, hints, imported.notes);
      const bool of_one_rank = meaning.collective == "all_gather" || meaning.collective == "all_to_all";
      // A test that was run again is a series of its own.
      const int run = ++runs[meaning.text() + table.rows[0].row.dtype];
      for (const TextRow& read : table.rows) {
        if (!read.fits(bus_factor(operations().get(meaning.collective), meaning.ranks))) {
          ++reader.left_out["whose busbw is not that of " + meaning.text()];
          continue;
        }
        Row& row = imported.rows.emplace_back(read.row);
        row.collective = meaning.collective;
        row.backend = run == 1 ? table.tool : fmt::format("{} ({})", table.tool, run);
        row.ranks = meaning.ranks;
        if (table.tool == "osu" && of_one_rank) row.bytes *= row.ranks;
        summarize(row);
      }
    } catch (const Error& error) {
      if (!refusal) refusal = error;
      imported.notes.emplace_back(error.what());
    }
  }
  Words counts;
  for (const auto& [reason, count] : reader.left_out)
    counts.push_back(fmt::format("{} {}", counted(count, "row"), reason));
  if (!counts.empty())
    imported.notes.push_back(fmt::format("'{}': {} left out", name, fmt::join(counts, ", ")));
  if (!imported.rows.empty()) return imported;
  if (refusal) throw Error(*refusal);
  throw Error(fmt::format("'{}' has no row of nccl-tests or of the OSU micro-benchmarks{}{}", name,
                          counts.empty() ? "" : " but ", fmt::join(counts, ", ")),
              "Give the whole text that all_reduce_perf, osu_allreduce or another of them printed.");
}

}  // namespace lockstep::collectives
