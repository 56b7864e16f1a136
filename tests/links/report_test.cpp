#include "lockstep/links/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

#include "golden/golden.h"
#include "links/sample_links.h"
#include "plots/xml_check.h"

namespace lockstep::links {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kGolden = LOCKSTEP_GOLDEN "/links.json";

/// Three hosts with two ranks each, the last one thin.
Record golden_links() {
  Record record = sample_links(3, 2);
  for (const int rank : {4, 5}) {
    for (int other = 0; other < 4; ++other) {
      slow_down(record, rank, other, 0.096);
      slow_down(record, other, rank, 0.096);
    }
  }
  for (Flow& flow : record.flows) {
    if (flow.at_once_gbit_per_s && flow.kind == kNetwork) flow.at_once_gbit_per_s = 0.45;
  }
  summarize(record);
  return record;
}

TEST(LinksReportTest, tables_and_drawing_look_as_they_did) {
  testing_golden::expect_golden("links.json", to_json(golden_links()));
  const Record record = from_json(read_file(kGolden), kGolden);
  testing_golden::expect_golden("links.txt", results::to_text(tables(record)));
  const plots::ChartForm form{.width = 720, .id = "topo"};
  const std::string svg = plots::standalone_svg(drawing(record, form), form);
  EXPECT_EQ(plots::xml_fault(svg), "");
  testing_golden::expect_golden("plots/links.svg", svg);
  EXPECT_THAT(page(record),
              AllOf(HasSubstr("data-chart=\"links\""), HasSubstr("<h3>Gbit/s, each pair alone</h3>")));
  // 16 ranks have as many pairs as are drawn.
  EXPECT_THAT(page(sample_links(4, 4)), Not(HasSubstr("slowest pairs")));
  EXPECT_THAT(page(sample_links(17, 1)), HasSubstr("The 120 slowest pairs"));
}

TEST(LinksReportTest, tables_fit_80_columns_for_16_ranks_and_name_the_worst_pairs_of_more) {
  const auto text_of = [](const Record& record) { return results::to_text(tables(record), {.width = 80}); };
  for (const double factor : {1.0, 0.001, 100.0}) {
    Record record = sample_links(4, 4);
    for (const Flow& flow : sample_links(4, 4).flows) slow_down(record, flow.from, flow.to, factor);
    summarize(record);
    for (const std::string& line : testing_golden::lines_of(text_of(record)))
      EXPECT_LE(results::display_width(line), 80U) << line;
  }
  Record many = sample_links(24, 1);
  slow_down(many, 7, 19, 0.3);
  slow_down(many, 3, 2, 0.2);
  summarize(many);
  const std::string text = text_of(many);
  EXPECT_THAT(text, HasSubstr("Worst pairs"));
  EXPECT_LT(text.find("\n   3   2  network"), text.find("\n   7  19  network")) << text;
}

TEST(LinksReportTest, a_machine_alone_is_drawn_with_its_sockets_gpus_and_their_links) {
  const plots::ChartForm form{.width = 720, .id = "topo"};
  const std::string svg = plots::standalone_svg(drawing(sample_system("node1"), form), form);
  for (const char* word :
       {"socket 0: 16 cores", "socket 1", "GPU3", "eth0", "GPUs over NVLink", "GPUs over processors"})
    EXPECT_THAT(svg, HasSubstr(word));
}

TEST(LinksRecordTest, a_file_that_cannot_be_is_refused_with_the_place) {
  const std::string text = read_file(kGolden);
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string broken = text;
    const size_t at = broken.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    broken.replace(at, from.size(), to);
    try {
      from_json(broken, "broken.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_THAT(refused("\"lockstep links\"", "\"other\""), HasSubstr("no file of measured links"));
  EXPECT_THAT(refused("\"schema_version\": 1", "\"schema_version\": 9"), HasSubstr("schema_version is 9"));
  EXPECT_THAT(refused("\"kind\": \"loopback\"", "\"kind\": \"pigeon\""),
              HasSubstr("network, loopback or memory"));
  EXPECT_THAT(refused("\"to\": 1", "\"to\": 77"), HasSubstr("another rank"));
  EXPECT_THAT(refused("\"host\": 0", "\"host\": 3"), HasSubstr("the index of a host"));
  EXPECT_THAT(refused("\"rounds_gbit_per_s\": [", "\"rounds_gbit_per_s\": [-1, "),
              HasSubstr("numbers above 0"));
  EXPECT_THAT(refused("\"flows\"", "\"flow\""), HasSubstr("flows"));
}

}  // namespace
}  // namespace lockstep::links
