#include "lockstep/collectives/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using testing::HasSubstr;

Record small_record() {
  Record record{.host = "node1", .command = "lockstep collectives"};
  record.links.push_back(
      {.backend = "gloo", .ranks = 2, .kind = "sockets", .gb_per_s = 4, .latency_s = 2e-5});
  for (const bool computing : {false, true}) {
    Row row{.collective = "all_reduce",
            .backend = "gloo",
            .ranks = 2,
            .bytes = 1000000,
            .count = 250000,
            .op = "sum",
            .computing = computing,
            .wrong = 0};
    for (int i = 0; i < 100; ++i) row.iteration_s.push_back((computing ? 1.5e-3 : 1e-3) + 1e-6 * i);
    record.rows.push_back(std::move(row));
  }
  summarize(record);
  return record;
}

std::string refusal_of(const std::string& text) {
  try {
    from_json(text, "links.json");
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.advice();
  }
  ADD_FAILURE() << "no Error";
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_json(small_record());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(CollectivesRecordTest, a_summary_follows_from_the_iterations_and_the_link) {
  const Record record = small_record();
  const Row& idle = record.rows[0];
  EXPECT_NEAR(idle.median_s, 1.0495e-3, 1e-9);
  EXPECT_NEAR(*idle.p90_s, 1.0891e-3, 1e-9);
  EXPECT_NEAR(*idle.p99_s, 1.09801e-3, 1e-9);
  EXPECT_NEAR(idle.algorithm_gb_per_s, 1e6 / 1.0495e-3 / 1e9, 1e-9);
  EXPECT_NEAR(idle.bus_gb_per_s, idle.algorithm_gb_per_s, 1e-9);
  EXPECT_NEAR(*idle.link_share, idle.bus_gb_per_s / 4, 1e-9);
  EXPECT_FALSE(idle.phi_n);
  EXPECT_NEAR(*record.rows[1].phi_n, 1.5495 / 1.0495 - 1, 1e-9);
  // Too few iterations know no p99.
  Row few = idle;
  few.iteration_s.resize(20);
  summarize(few);
  EXPECT_FALSE(few.p99_s);
}

TEST(CollectivesRecordTest, a_file_holds_the_record_and_is_known_by_its_beginning) {
  const std::string text = to_json(small_record());
  EXPECT_TRUE(is_record(text));
  EXPECT_FALSE(is_record("{\n  \"schema\": \"lockstep training\""));
  const Record read = from_json(text, "links.json");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.rows[1].series(), "all_reduce over gloo, 2 ranks, fp32, while computing");
}

TEST(CollectivesRecordTest, a_wrong_file_is_answered_with_what_is_missing) {
  EXPECT_THAT(refusal_of("{\"a\": 1}"), HasSubstr("no table of collectives"));
  EXPECT_THAT(refusal_of("size count"), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal_of(with("\"median_s\": 0.0010495", "\"median_s\": null")), HasSubstr("median_s"));
  EXPECT_THAT(refusal_of(with("\"median_s\": 0.0010495", "\"median_s\": -1")),
              HasSubstr("rows[0].median_s is -1, expected a time above 0 seconds"));
  EXPECT_THAT(refusal_of(with("\"median_s\": 0.0010495", "\"median_s\": NaN")), HasSubstr("links.json"));
  EXPECT_THAT(refusal_of(with("\"ranks\": 2,\n      \"bytes\"", "\"ranks\": 0,\n      \"bytes\"")),
              HasSubstr("rows[0].ranks"));
  EXPECT_THAT(refusal_of(with("\"schema_version\": 1", "\"schema_version\": 9")),
              HasSubstr("schema_version is 9"));
  EXPECT_THAT(refusal_of(to_json(Record{.incomplete = "rank 1 was lost"})),
              HasSubstr("has no rows: rank 1 was lost | Measure some with lockstep collectives"));
}

}  // namespace
}  // namespace lockstep::collectives
