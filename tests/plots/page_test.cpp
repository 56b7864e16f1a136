
#include "lockstep/plots/page.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/record/baseline.h"
#include "lockstep/results/tables/tables.h"

#include "golden/golden.h"
#include "plots/sample_records.h"
#include "plots/xml_check.h"

namespace lockstep::plots {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The explanation without line breaks inside of a sentence.
std::string explained(Sources sources) {
  return results::to_text(results::explanation(sources), results::TextForm::kMarkdown);
}

TEST(ExplanationTest, says_what_came_out_and_why) {
  const std::string text = explained({{{"run", sweep_record()}}, {shipped_records()[0]}});
  for (const char* sentence :
       {"resnet50, 32 images per rank, ddp at 8 ranks: 293 (±0.8 %) images per second, 5.70 times one rank "
        "without a strategy, so 71 % efficient.",
        "- Costs: sharing the machine 12 %, transfer that nothing hides 9.0 %, waiting (for rank 7) 7.0 %, "
        "the "
        "strategy's own work 1.5 %: `lockstep topo` shows what the ranks share.",
        "- Published in pytorch_throughput, ddp: 7.32 times at 8 ranks, 92 % efficient."}) {
    EXPECT_THAT(text, HasSubstr(sentence));
  }
}

TEST(ExplanationTest, every_network_is_summarized_at_its_most_ranks) {
  const std::string text = explained({{{"run", networks_record()}}, {}});
  EXPECT_THAT(text, HasSubstr("Summary\n\n\nmlp, 8 images per rank, replicated at 2 ranks"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "- Other networks: resnet18, replicated, 2 ranks 92.4 images/s, 1.74 times one rank without a "
          "strategy, so 87 % efficient."));
}

TEST(ExplanationTest, says_three_sentences_at_most_however_many_networks_there_are) {
  results::RunRecord record = networks_record();
  const std::vector<results::Run> runs = record.runs;
  for (int i = 0; i < 9; ++i) {
    for (results::Run run : runs) {
      run.model = fmt::format("network{}", i);
      record.runs.push_back(run);
    }
  }
  const std::string text = explained({{{"run", record}}, {}});
  EXPECT_THAT(text, HasSubstr("; network6, replicated, 2 ranks"));
  EXPECT_THAT(text, Not(HasSubstr("network7")));
  EXPECT_EQ(std::ranges::count(text, '\n'), 7);
}

TEST(ExplanationTest, ranks_that_take_turns_are_no_headline) {
  results::RunRecord record = sweep_record();
  record.machines.resize(1);
  record.machines[0].cores = 4;
  for (results::Run& run : record.runs) run.threads_per_rank = 1;
  EXPECT_THAT(explained({{{"run", record}}, {}}), HasSubstr("ddp at 4 ranks: "));
}

TEST(ReportPageTest, an_impossible_efficiency_is_no_key_figure_and_never_folded) {
  results::RunRecord record = networks_record();
  for (results::Run& run : record.runs) {
    if (run.strategy == results::kSingle) run.images_per_s /= 3;
    run.rate_interval.reset();
  }
  results::assign_baselines(record);
  const std::string page = report_page({{{"run", record}}, {}});
  EXPECT_THAT(page.substr(0, page.find("</ul>")),
              AllOf(Not(HasSubstr("efficient at")), Not(HasSubstr("the speed of"))));
  EXPECT_THAT(page, HasSubstr("<div class=\"caution loud\"><b>"));
  EXPECT_LT(page.find("but no rank can be faster"), page.find("<details class=\"cautions\""));
}

TEST(ExplanationTest, reads_as_it_did) {
  const std::vector<std::pair<std::string, Sources>> all{
      {"sweep", {{{"run", sweep_record()}}, {}}},
      {"plain", {{{"run", plain_record()}}, {}}},
      {"networks", {{{"run", networks_record()}}, {}}},
      {"crowded", {{{"run", crowded_record()}}, {}}},
      {"two", {{{"before", sweep_record()}, {"after", sweep_record(0.9)}}, {shipped_records()[0]}}}};
  std::string text;
  for (const auto& [name, sources] : all)
    text += fmt::format("{}: {}\n{}\n", name, page_title(sources),
                        results::to_text(results::explanation(sources)));
  testing_golden::expect_golden("plots/summaries.txt", text);
}

TEST(ExplanationTest, says_what_is_missing_and_how_to_get_it) {
  results::RunRecord record = plain_record();
  record.launch = "processes";
  record.command = {"build/lockstep", "bench",  "--model=resnet18,resnet50",
                    "--ranks=1,2,8",  "--json", "x.json",
                    "--max-time",     "5",      "--data",
                    "digits"};
  EXPECT_THAT(explained({{{"run", record}}, {}}),
              AllOf(HasSubstr("`build/lockstep bench --data digits --model resnet50 --ranks 8 --breakdown`"),
                    HasSubstr("--ranks 8 --repeat 5`")));
  record.command.back() = "my digits";
  EXPECT_THAT(explained({{{"run", record}}, {}}), HasSubstr("`lockstep bench --breakdown`"));
}

TEST(ExplanationTest, of_two_records_begins_with_the_verdict) {
  results::RunRecord test = sweep_record(0.93);
  for (results::Run& run : test.runs) run.bucket_mb = 1;
  const std::string text = explained({{{"before", sweep_record()}, {"after", test}}, {}});
  EXPECT_THAT(text, HasSubstr("after against before: 8 rows: 8 faster. They differ in bucket (25 MiB in "
                              "before, 1 MiB in after)."));
  EXPECT_THAT(text, HasSubstr("- resnet50 ddp at 8 ranks: faster (here), +7.0 ± "));
  EXPECT_LT(text.find("8 faster"), text.find("before: resnet50, 32 images per rank"));
  const std::string page = report_page({{{"before", plain_record()}, {"after", plain_record()}}, {}});
  EXPECT_THAT(page, HasSubstr("<h1>resnet50: after against before</h1>"));
  const std::string none = explained({{{"a", sweep_record()}, {"b", networks_record()}}, {}});
  EXPECT_THAT(none, HasSubstr("b against a: no row in common."));
}

TEST(ExplanationTest, the_nearest_stand_beside_it_by_speed) {
  results::RunRecord record = bucket_record();
  double slower = 1;
  for (results::Run& run : record.runs) run.images_per_s = 400 / (slower += 0.01);
  EXPECT_THAT(explained({{{"a", record}}, {}}),
              testing::ContainsRegex("Beside ddp, buckets of 0.1 MiB: ddp, buckets of 1 MiB [^;]*; ddp, "
                                     "buckets of 5 MiB [^;]*; ddp, buckets of 25 MiB [^;]*; 8 further away"));
}

TEST(ExplanationTest, a_variant_finds_the_published_row_of_its_network) {
  results::RunRecord record = sweep_record();
  for (results::Run& run : record.runs) {
    run.model = "resnet50_v1";
    run.image_size = 64;
    run.batch_per_rank = 64;
  }
  std::vector<NamedRecord> published = shipped_records();
  std::erase_if(published, [](const NamedRecord& named) { return named.name != "tensorpack_p100"; });
  EXPECT_THAT(explained({{{"a", record}}, published}),
              HasSubstr("Published in tensorpack_p100, replicated, input gpu: 7.07 times at 8 ranks, 88 % "
                        "efficient; there resnet50, images of 224."));
}

TEST(ReportPageTest, of_a_network_of_sequences_speaks_of_no_images) {
  results::RunRecord record = bucket_record();
  for (results::Run& run : record.runs) run.unit = "sequence", run.image_size = 0;
  const std::string page = report_page({{{"run", record}}, {}});
  EXPECT_THAT(page, AllOf(HasSubstr("sequences per second"), HasSubstr(">sequences/s</th>"),
                          Not(HasSubstr("image"))));
}

TEST(ReportPageTest, of_one_number_of_ranks_has_the_chart_of_its_setting) {
  const std::string page = report_page({{{"run", bucket_record()}}, {}});
  EXPECT_THAT(page, AllOf(HasSubstr("data-chart=\"setting\""), Not(HasSubstr("data-chart=\"throughput\"")),
                          HasSubstr("How fast it is</h2>")));
  EXPECT_THAT(report_page({{{"run", plain_record()}}, {}}), HasSubstr("data-chart=\"throughput\""));
}

TEST(ReportPageTest, of_a_training_has_its_curves) {
  const std::string page = report_page({{{"run", training_record()}}, {}});
  EXPECT_THAT(
      page, AllOf(HasSubstr("<h1>How lenet5 learned</h1>"), HasSubstr("data-chart=\"loss\""),
                  HasSubstr("data-chart=\"accuracy\""), HasSubstr("eval acc."), Not(HasSubstr("Not drawn"))));
  EXPECT_THAT(page, HasSubstr("3 epochs (150 steps), loss 0.83; 75 % of the training samples recognized, "
                              "60 % of the evaluation samples."));
}

TEST(ReportPageTest, many_warnings_are_folded_but_never_loud_ones) {
  results::RunRecord record = networks_record();
  record.warnings.push_back({"more ranks than cores", "Use fewer.", true});
  const std::string page = report_page({{{"run", record}}, {}});
  const size_t fold = page.find("<details class=\"cautions\"><summary>3 warnings about how it was measured");
  ASSERT_NE(fold, std::string::npos);
  EXPECT_LT(page.find("more ranks than cores"), fold);
  EXPECT_GT(page.find("A quota leaves this job"), fold);
  EXPECT_EQ(report_page({{{"run", sweep_record()}}, {}}).find("<details class=\"cautions\""),
            std::string::npos);
}

TEST(ReportPageTest, columns_that_are_the_same_in_every_row_are_said_once) {
  const std::string page = report_page({{{"run", networks_record()}}, {}});
  EXPECT_THAT(page, HasSubstr("The same in every row: steps 60"));
  EXPECT_THAT(page, Not(HasSubstr(">steps</th>")));
}

TEST(ReportPageTest, shows_loud_warnings_first_and_each_once) {
  results::RunRecord record = sweep_record();
  record.warnings.push_back({"more ranks than cores", "Use fewer.", true});
  record.warnings.push_back(record.warnings[0]);
  record.incomplete = "Ctrl-C";
  const std::string page = report_page({{{"run", record}}, {}});
  EXPECT_LT(page.find("before all was measured: Ctrl-C"), page.find("more ranks than cores"));
  const size_t quiet = page.find("The load average was 1.8");
  EXPECT_LT(page.find("more ranks than cores"), quiet);
  EXPECT_EQ(page.find("The load average was 1.8", quiet + 1), std::string::npos);
}

TEST(ReportPageTest, looks_as_it_did) {
  Sources sources{{{"run", small_record()}}, {shipped_records()[0]}};
  sources.forecasts = {sample_forecast(sources.records[0].record)};
  testing_golden::expect_golden(
      "plots/report.html",
      report_page(sources, results::Remark{"", "`compute=2x` is predicted to bring most."}));
}

/// Networks of two runs each.
std::string page_of(int networks, int runs_of_each) {
  results::RunRecord record = plain_record();
  const results::Run run = record.runs.front();
  record.runs.clear();
  for (int i = 0; i < networks * runs_of_each; ++i) {
    record.runs.push_back(run);
    record.runs.back().model = fmt::format("net{}", i / runs_of_each);
    record.runs.back().ranks = 1 << (i % runs_of_each);
  }
  return report_page({{{"run", record}}, {}});
}

TEST(ReportPageTest, networks_have_sections_of_their_own_where_one_chart_would_be_full) {
  const auto has_own = [](const std::string& page) {
    const size_t first = page.find("How it scales</h2>");
    return page.find("How it scales</h2>", first + 1) != std::string::npos;
  };
  EXPECT_FALSE(has_own(page_of(2, 8)));
  EXPECT_TRUE(has_own(page_of(3, 6)));
  EXPECT_TRUE(has_own(page_of(12, 2)));
  EXPECT_FALSE(has_own(page_of(13, 2)));
}

TEST(ReportPageTest, a_rate_that_was_not_measured_is_a_dash) {
  results::RunRecord record = plain_record();
  record.runs.resize(2);
  const std::string before = report_page({{{"run", record}}, {}});
  record.runs.back().images_per_s = 0;
  const std::string after = report_page({{{"run", record}}, {}});
  const auto zeros = [](const std::string& page) {
    size_t count = 0;
    for (size_t at = page.find(">0</td>"); at != std::string::npos; at = page.find(">0</td>", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(zeros(after), zeros(before));
}

TEST(ReportPageTest, escapes_foreign_text) {
  const std::string page = report_page({{{kHostileText, broken_record()}}, {}});
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_EQ(page.find('\xff'), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos) << "it is shown, as text";
  for (const std::string& drawing : drawings_in(page)) EXPECT_EQ(xml_fault(drawing), "");
}

TEST(ReportPageTest, is_well_formed_and_refers_to_nothing_outside) {
  std::vector<NamedRecord> tables = shipped_records();
  const std::vector<Sources> all{{{{"run", sweep_record()}}, tables},
                                 {{{"run", crowded_record()}}, tables},
                                 {{{"run", huge_record(10000)}}, {}},
                                 {{{"run", {}}}, {}},
                                 {{}, tables},
                                 {}};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string page = report_page(all[i]);
    const std::string main = page.substr(page.find("<main>"), page.find("</main>") + 7 - page.find("<main>"));
    EXPECT_EQ(xml_fault(main), "") << "sources " << i;
    for (const char* outside :
         {"<script", "<link", "<img", "<iframe", "@import", "url(h", " src=", " href="}) {
      EXPECT_EQ(page.find(outside), std::string::npos) << outside << " in sources " << i;
    }
    EXPECT_THAT(page, AllOf(HasSubstr("name=\"viewport\""), HasSubstr("default-src 'none'")));
    EXPECT_THAT(main, AllOf(Not(HasSubstr(">nan")), Not(HasSubstr(">inf"))));
  }
}

TEST(ReportPageTest, stays_small_for_ten_thousand_ranks) {
  EXPECT_LT(report_page({{{"run", huge_record(10000)}}, {}}).size(), 400'000U);
}

TEST(ReportPageTest, stays_small_for_very_many_steps) {
  results::RunRecord record = small_record();
  for (results::Run& run : record.runs) {
    const std::vector<double> step = run.samples[0];
    run.samples.assign(100'000, step);
    for (size_t i = 0; i < run.samples.size(); ++i)
      run.samples[i][0] *= 1 + 0.0001 * static_cast<double>(i * 7919 % 1000);
  }
  EXPECT_LT(report_page({{{"run", record}}, {}}).size(), 400'000U);
}

}  // namespace
}  // namespace lockstep::plots
