#include "lockstep/plots/text.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/plots/page.h"
#include "lockstep/plots/text.h"

#include "plots/xml_check.h"

namespace lockstep::plots {
namespace {

TEST(MarkupTest, escapes_what_would_be_markup) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
}

TEST(MarkupTest, replaces_control_characters_and_invalid_bytes) {
  EXPECT_EQ(escape("a\x01"
                   "b\x1b[31m"),
            "a�b�[31m");
  EXPECT_EQ(escape("\xff"), "�");
  EXPECT_EQ(escape("\xc0\xaf"), "��") << "an overlong slash";
  EXPECT_EQ(escape("\xed\xa0\x80"), "�") << "half a surrogate pair";
  EXPECT_EQ(escape("caf\xc3"), "caf�") << "cut off";
  EXPECT_EQ(escape("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
  EXPECT_EQ(escape("two\nlines\tof text"), "two lines of text");
}

TEST(MarkupTest, text_between_back_quotes_is_code) {
  EXPECT_EQ(prose("`a`b `<c>`"), "<code>a</code>b <code>&lt;c&gt;</code>");
  EXPECT_EQ(prose("a` b"), "a` b");
}

TEST(MarkupTest, escapes_line_by_line) {
  EXPECT_EQ(escape_lines("a<b\n\n&c"), "a&lt;b\n\n&amp;c\n");
  EXPECT_EQ(escape_lines("a\n"), "a\n");
  EXPECT_EQ(escape_lines(""), "");
}

TEST(MarkupTest, clips_by_code_points) {
  EXPECT_EQ(clip("ümlaut", 6), "ümlaut");
  EXPECT_EQ(clip("ümlaute", 6), "ümlau…");
}

TEST(NumberTextTest, has_as_many_digits_as_say_something) {
  EXPECT_EQ(number_text(0.01234), "0.0123");
  EXPECT_EQ(number_text(4.149), "4.15");
  EXPECT_EQ(number_text(41.49), "41.5");
  EXPECT_EQ(number_text(4231.4), "4231");
  EXPECT_EQ(number_text(10231.0), "10,231");
  EXPECT_EQ(number_text(-1234567.0), "-1,234,567");
}

TEST(NumberTextTest, shows_a_dash_for_what_is_no_number) {
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), kMissing);
  EXPECT_EQ(time_text(std::numeric_limits<double>::infinity()), kMissing);
  EXPECT_EQ(share_text(-std::numeric_limits<double>::infinity()), kMissing);
  EXPECT_EQ(number_text(std::optional<double>()), kMissing);
  EXPECT_EQ(coordinate(std::numeric_limits<double>::quiet_NaN()), "0");
}

TEST(NumberTextTest, says_times_and_shares_with_their_unit) {
  EXPECT_EQ(time_text(0.1034), "103\u00A0ms");
  EXPECT_EQ(time_text(2.5), "2.50\u00A0s");
  EXPECT_EQ(time_text(12e-6), "12.0\u00A0µs");
  EXPECT_EQ(time_text(999.4e-6), "999\u00A0µs");
  EXPECT_EQ(time_text(999.99e-6), "1.00\u00A0ms");
  EXPECT_EQ(time_text(0.99996), "1.00\u00A0s");
  EXPECT_EQ(share_text(0.712), "71\u00A0%");
  EXPECT_EQ(share_text(0.034), "3.4\u00A0%");
}

TEST(NumberTextTest, coordinates_are_short) {
  EXPECT_EQ(coordinate(12.0), "12");
  EXPECT_EQ(coordinate(12.504), "12.5");
  EXPECT_EQ(coordinate(-0.001), "0");
}

TEST(LinesTest, are_broken_between_words_and_never_within_a_number) {
  EXPECT_THAT(lines_of("ddp", 150), testing::ElementsAre("ddp"));
  EXPECT_THAT(lines_of("ddp, buckets of 25 MiB, base", 150),
              testing::ElementsAre("ddp, buckets of 25", "MiB, base"));
  for (const std::string& line : lines_of("results-of-a-long-measurement-20260102.json", 120)) {
    EXPECT_LE(text_width(line), 120) << line;
    EXPECT_EQ(line.find("2026") != std::string::npos, line.find("20260102") != std::string::npos) << line;
  }
}

TEST(LinesTest, of_a_million_characters_are_few) {
  const std::vector<std::string> lines = lines_of(std::string(1'000'000, 'm'), 300);
  EXPECT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines.back().ends_with("…"));
}

TEST(XmlCheckTest, finds_faults) {
  EXPECT_EQ(xml_fault("<a b=\"1\"><c/>&amp;</a>"), "");
  for (const char* wrong :
       {"<a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "<a>&nbsp;</a>", "<a>\x01</a>", "<a>\xff</a>",
        "<a b=\"<\"/>", "<a><b id=\"x\"/><c id=\"x\"/></a>"}) {
    EXPECT_NE(xml_fault(wrong), "") << wrong;
  }
}

results::Table table_of(size_t columns) {
  results::Table table;
  for (size_t i = 0; i < columns; ++i) table.add_column("head");
  return table;
}

TEST(TablesOfAPageTest, tables_in_a_row_have_boxes_of_their_own) {
  results::Document document{table_of(1)};
  document.add(table_of(1));
  const std::string page = to_html(document);
  const size_t first = page.find("<div class=\"table\">"),
               second = page.find("<div class=\"table\">", first + 1);
  ASSERT_NE(second, std::string::npos);
  EXPECT_EQ(xml_fault("<div>" + page + "</div>"), "");
  EXPECT_EQ(page.substr(second - 7, 7), "</div>\n");
}

TEST(TablesOfAPageTest, more_than_fourteen_columns_are_small_on_paper) {
  EXPECT_EQ(to_html(table_of(14)).find("table many"), std::string::npos);
  EXPECT_NE(to_html(table_of(15)).find("table many"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::plots
