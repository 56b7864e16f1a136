#include "lockstep/plots/page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/plots/summary.h"

#include "golden/golden.h"
#include "plots/sample_records.h"
#include "plots/xml_check.h"

namespace lockstep::plots {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SummaryTest, says_what_came_out_and_why) {
  Sources sources{{{"run", sweep_record()}}, {shipped_records()[0]}};
  const Summary summary = summarize(sources);
  EXPECT_EQ(summary.title, "How resnet50 scales");
  EXPECT_EQ(
      summary.headline,
      "resnet50, 32 images per rank, ddp at 8 ranks: 293 images per second, 5.70 times one rank without a "
      "strategy, so 71\u00A0% efficient.");
  EXPECT_THAT(summary.findings, Contains("At 8 ranks 71\u00A0% efficient: 15\u00A0% of the step is exposed "
                                         "communication (7.0\u00A0% waiting for "
                                         "other ranks, 8.4\u00A0% transfer); 50\u00A0% of all communication "
                                         "was hidden behind the backward pass."));
  EXPECT_THAT(
      summary.findings,
      Contains("The efficiency of 71\u00A0% is a product of factors: sharing the machine 88\u00A0% × "
               "transfer that "
               "nothing hides 91\u00A0% × waiting for the slowest rank 93\u00A0% × the strategy's own "
               "work beside computing 98\u00A0%."));
  EXPECT_THAT(summary.findings, Contains("The others waited for rank 7 most."));
  EXPECT_THAT(
      summary.findings,
      Contains("Published in pytorch_throughput, ddp: 7.32 times at 8 workers, 92\u00A0% efficient."));
  EXPECT_TRUE(summary.gaps.empty());
  ASSERT_EQ(summary.cautions.size(), 1U);
}

TEST(SummaryTest, every_network_is_summarized_at_its_most_ranks_and_gains_are_said) {
  const Summary summary = summarize({{{"run", networks_record()}}, {}});
  EXPECT_THAT(summary.headline, HasSubstr("mlp, 8 images per rank, replicated at 2 ranks"));
  EXPECT_THAT(summary.findings, Contains(HasSubstr("resnet18, 8 images per rank, replicated at 2 ranks")));
  EXPECT_THAT(
      summary.findings,
      Contains(AllOf(HasSubstr("transfer that nothing hides 45\u00A0% ×"),
                     HasSubstr("sharing the machine 121\u00A0%. Ranks that share the machine were faster "
                               "than one alone: the baseline was disturbed."))));
}

TEST(SummaryTest, names_eight_other_networks_at_most) {
  results::RunRecord record = networks_record();
  const std::vector<results::Run> runs = record.runs;
  for (int i = 0; i < 9; ++i) {
    for (results::Run run : runs) {
      run.model = fmt::format("network{}", i);
      record.runs.push_back(run);
    }
  }
  const std::vector<std::string> findings = summarize({{{"run", record}}, {}}).findings;
  EXPECT_THAT(findings, Contains(HasSubstr("images per rank, replicated at")).Times(8));
}

TEST(SummaryTest, reads_as_it_did) {
  Sources two{{{"before", sweep_record()}, {"after", sweep_record(0.9)}}, {shipped_records()[0]}};
  const std::vector<std::pair<std::string, Sources>> all{{"sweep", {{{"run", sweep_record()}}, {}}},
                                                         {"plain", {{{"run", plain_record()}}, {}}},
                                                         {"networks", {{{"run", networks_record()}}, {}}},
                                                         {"crowded", {{{"run", crowded_record()}}, {}}},
                                                         {"two", std::move(two)}};
  std::string text;
  for (const auto& [name, sources] : all) {
    const Summary summary = summarize(sources);
    text += fmt::format("{}: {}\n{}\n", name, summary.title, summary.headline);
    for (const KeyFigure& figure : summary.figures)
      text += fmt::format("= {} | {}\n", figure.value, figure.label);
    for (const std::string& finding : summary.findings) text += fmt::format("- {}\n", finding);
    for (const results::Warning& caution : summary.cautions) text += fmt::format("! {}\n", caution.text);
    for (const std::string& gap : summary.gaps) text += fmt::format("? {}\n", gap);
  }
  testing_golden::expect_golden("plots/summaries.txt", text);
}

TEST(SummaryTest, launches_do_not_multiply_warnings) {
  const Summary summary = summarize({{{"run", networks_record()}}, {}});
  // Two of the record, one that all rows share, and one about the fast network's baseline.
  ASSERT_EQ(summary.cautions.size(), 4U);
  EXPECT_THAT(summary.cautions[2].text, HasSubstr("(in 5 of 5 launches) Likewise: "));
}

TEST(ReportPageTest, many_warnings_are_folded_but_never_loud_ones) {
  results::RunRecord record = networks_record();
  record.warnings.push_back({"more ranks than cores", "Use fewer.", true});
  const std::string page = report_page({{{"run", record}}, {}});
  const size_t fold = page.find("<details class=\"cautions\"><summary>4 warnings about how it was measured");
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

TEST(SummaryTest, says_what_is_missing_and_how_to_get_it) {
  const Summary summary = summarize({{{"run", plain_record()}}, {}});
  EXPECT_THAT(summary.gaps, Contains(HasSubstr("`lockstep bench --breakdown --json FILE`")));
  EXPECT_THAT(summary.gaps, Contains(HasSubstr("--repeat")));
}

TEST(SummaryTest, compares_records_without_calling_it_a_difference) {
  const Summary summary = summarize({{{"before", sweep_record()}, {"after", sweep_record(0.93)}}, {}});
  EXPECT_THAT(summary.findings, Contains("The same in after: 315 images/s (7.5\u00A0% more)."));
  EXPECT_THAT(summary.findings, Contains(HasSubstr("lockstep diff")));
}

TEST(SummaryTest, shows_loud_warnings_first_and_each_once) {
  results::RunRecord record = sweep_record();
  record.warnings.push_back({"more ranks than cores", "Use fewer.", true});
  record.warnings.push_back(record.warnings[0]);
  record.incomplete = "Ctrl-C";
  const Summary summary = summarize({{{"run", record}}, {}});
  ASSERT_EQ(summary.cautions.size(), 3U);
  EXPECT_THAT(summary.cautions[0].text, HasSubstr("Ctrl-C"));
  EXPECT_THAT(summary.cautions[1].text, HasSubstr("more ranks"));
}

TEST(ReportPageTest, looks_as_it_did) {
  Sources sources{{{"run", small_record()}}, {shipped_records()[0]}};
  testing_golden::expect_golden("plots/report.html", report_page(sources));
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
