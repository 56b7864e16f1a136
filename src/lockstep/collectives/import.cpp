#include "lockstep/collectives/import.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/number_range.h"
#include "lockstep/collectives/operations.h"

namespace lockstep::collectives {
namespace {

using Words = std::vector<std::string>;

/// lockstep's name in place of another tool's; longer ones first where one holds another.
constexpr std::array<std::pair<const char*, const char*>, 14> kCollectives{
    {{"reduce_scatter", "reduce_scatter"},
     {"reducescatter", "reduce_scatter"},
     {"all_reduce", "all_reduce"},
     {"allreduce", "all_reduce"},
     {"all_gather", "all_gather"},
     {"allgather", "all_gather"},
     {"alltoall", "all_to_all"},
     {"all-to-all", "all_to_all"},
     {"broadcast", "broadcast"},
     {"bcast", "broadcast"},
     {"sendrecv", "send_recv"},
     {"reduce", "reduce"},
     {"mpi latency", "send_recv"},
     {"mpi bandwidth", "send_recv"}}};
constexpr std::array<std::pair<const char*, const char*>, 4> kTypes{
    {{"float", "fp32"}, {"double", "fp64"}, {"half", "fp16"}, {"bfloat16", "bf16"}}};

/// Empty where no collective's name is in the text.
std::string collective_in(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found = std::ranges::find_if(
      kCollectives, [&](const auto& one) { return text.find(one.first) != std::string::npos; });
  return found == kCollectives.end() ? "" : found->second;
}

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<double> positive_number(const std::string& word) {
  return parse_number(word, {.least = 0, .above = true});
}

/// Lines of one file, and what they say together.
class TextReader {
 public:
  TextReader(const std::string& name, const ImportHints& hints) : name_(name), hints_(hints) {}

  std::vector<Row> read(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) read_line(line);
    if (rows_.empty()) {
      throw Error(fmt::format("'{}' has no row of nccl-tests or of the OSU micro-benchmarks", name_),
                  "Give the whole text that all_reduce_perf, osu_allreduce or another of them printed.");
    }
    finish();
    return std::move(rows_);
  }

 private:
  void read_line(const std::string& line) {
    const Words words = words_of(line);
    if (words.empty()) return;
    if (words[0].starts_with('#')) {
      if (line.find("OSU") != std::string::npos) tool_ = "osu";
      if (line.find("Bandwidth (MB/s)") != std::string::npos) by_bandwidth_ = true;
      // "#  Rank  0 Group  0 Pid  12 on host device  0 [0x07] NVIDIA A100", in all versions.
      if (words.size() > 2 && words[1] == "Rank" && line.find("device") != std::string::npos) ++ranks_;
      if (collective_.empty() && line.find("out-of-place") == std::string::npos)
        collective_ = collective_in(line);
      return;
    }
    tool_ == "osu" ? read_osu(words) : read_nccl(words);
  }

  /// size count type redop root time algbw busbw #wrong time algbw busbw #wrong; older ones lack the redop,
  /// the root or both where a collective has none.
  void read_nccl(const Words& words) {
    if (words.size() < 11) return;
    const std::optional<double> bytes = positive_number(words[0]), count = positive_number(words[1]);
    if (!bytes || !count) return;
    const size_t first = words.size() >= 13 ? 5 : words.size() - 8;
    for (const size_t at : {first, first + 4}) {
      const std::optional<double> time_us = at < words.size() ? positive_number(words[at]) : std::nullopt;
      if (!time_us) continue;
      Row& row = add(*bytes, *time_us * 1e-6);
      row.count = std::llround(*count);
      row.place = at == first ? kOutOfPlace : kInPlace;
      const auto type = std::ranges::find_if(kTypes, [&](const auto& one) { return words[2] == one.first; });
      row.dtype = type == kTypes.end() ? words[2] : type->second;
      row.op = std::isalpha(static_cast<unsigned char>(words[3][0])) != 0 ? words[3] : "none";
      if (at + 3 < words.size()) {
        if (const auto wrong = parse_whole(words[at + 3], {})) row.wrong = *wrong;
      }
    }
  }

  /// "4   1.23" and more columns: size and mean latency in microseconds, or MB/s.
  void read_osu(const Words& words) {
    const std::optional<double> bytes = positive_number(words[0]);
    const std::optional<double> value = words.size() > 1 ? positive_number(words[1]) : std::nullopt;
    if (!bytes || !value) return;
    Row& row = add(*bytes, by_bandwidth_ ? *bytes / (*value * 1e6) : *value * 1e-6);
    row.place = kOutOfPlace;
    row.dtype = "uint8";
    row.count = row.bytes;
  }

  Row& add(double bytes, double time_s) {
    Row& row = rows_.emplace_back();
    row.backend = tool_;
    row.bytes = std::llround(bytes);
    row.median_s = time_s;
    return row;
  }

  void finish() {
    std::string collective = hints_.collective;
    if (collective.empty()) collective = collective_.empty() ? collective_in(name_) : collective_;
    if (collective.empty()) collective = hints_.usual_collective;
    if (collective.empty()) {
      throw Error(fmt::format("'{}' does not say which collective it is", name_),
                  "Name it with --collective, as --collective all_reduce.");
    }
    int ranks = hints_.ranks > 0 ? hints_.ranks : ranks_;
    // Its two programs have two ranks.
    if (ranks == 0 && tool_ == "osu" && collective == "send_recv") ranks = 2;
    if (ranks == 0) {
      throw Error(fmt::format("'{}' does not say how many ranks took part", name_),
                  "Give their number with --ranks, as --ranks 8.");
    }
    for (Row& row : rows_) {
      row.collective = collective;
      row.ranks = ranks;
      const bool of_one_rank = collective == "all_gather" || collective == "all_to_all";
      if (tool_ == "osu" && of_one_rank) row.bytes *= ranks;
      summarize(row);
    }
  }

  const std::string& name_;
  const ImportHints& hints_;
  std::string tool_ = "nccl-tests";
  std::string collective_;
  bool by_bandwidth_ = false;
  int ranks_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<Row> import_text(std::string_view text, const std::string& name, const ImportHints& hints) {
  if (!hints.collective.empty()) operations().get(hints.collective);
  return TextReader(name, hints).read(text);
}

}  // namespace lockstep::collectives
