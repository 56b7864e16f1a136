#include "lockstep/results/tables/notices.h"

#include <gtest/gtest.h>

#include "lockstep/results/tables/document.h"

namespace lockstep::results {
namespace {

TEST(NoticesTest, lines_break_between_words_and_go_on_indented) {
  EXPECT_EQ(wrapped("* a: ", "one two three", 2, 12), "* a: one two\n  three\n");
  EXPECT_EQ(wrapped("* a: ", "", 2, 12), "* a: \n");
}

TEST(NoticesTest, a_word_longer_than_a_line_stays_whole) {
  EXPECT_EQ(wrapped("", "a looooooooong b", 1, 6), "a\n looooooooong\n b\n");
}

TEST(NoticesTest, a_warning_comes_with_its_advice_and_a_loud_one_stands_out) {
  EXPECT_EQ(warning_text({"Hot.", "Cool it.", false}), "Warning: Hot.\n         -> Cool it.\n");
  EXPECT_EQ(warning_text({"Hot.", "", false}), "Warning: Hot.\n");
  const std::string line(100, '!');
  EXPECT_EQ(warning_text({"Hot.", "Cool it.", true}),
            line + "\nWARNING: Hot.\n         -> Cool it.\n" + line + "\n");
}

}  // namespace
}  // namespace lockstep::results
