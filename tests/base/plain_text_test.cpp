#include "lockstep/base/plain_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kMark = "\xEF\xBF\xBD";

TEST(PlainTextTest, text_of_somebody_else_does_nothing_to_a_terminal) {
  EXPECT_EQ(plain_text("resnet50 größer → 1"), "resnet50 größer → 1");
  EXPECT_EQ(plain_text("\x1b[2J\x1b]0;owned\x07"), kMark + "[2J" + kMark + "]0;owned" + kMark);
  // CSI as one character of C1, and a right-to-left override.
  EXPECT_EQ(plain_text("a\xC2\x9B"
                       "31mb"),
            "a" + kMark + "31mb");
  EXPECT_EQ(plain_text("a\xE2\x80\xAE"
                       "b"),
            "a" + kMark + "b");
  EXPECT_EQ(plain_text("a\x7F\x80\xFF"), "a" + kMark + kMark + kMark);
  EXPECT_EQ(plain_text("cut \xE2\x82"), "cut " + kMark);
}

TEST(PlainTextTest, line_ends_become_spaces) {
  EXPECT_EQ(plain_text("a\n```\r\nb\tc\xE2\x80\xA8"
                       "d"),
            "a ```  b c d");
}

TEST(PrintableTest, keeps_text_and_replaces_what_acts_on_a_terminal) {
  EXPECT_EQ(printable("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(printable("gr\xc3\xb6\xc3\x9f"
                      "er \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xb6\xc3\x9f"
            "er \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable(std::string_view("\x1b[31m\r\b\x07\x7f\0", 10)), "?[31m?????");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");
  EXPECT_EQ(printable("\xff\xc3(\xe2\x82"), "?\?(?\?");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(SplitAtCommasTest, parts_are_trimmed_and_an_empty_one_is_kept_but_at_the_end) {
  EXPECT_EQ(split_at_commas("gloo, mpi"), (std::vector<std::string>{"gloo", "mpi"}));
  EXPECT_EQ(split_at_commas("a,,b,"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_TRUE(split_at_commas("").empty());
}

TEST(CommandTextTest, a_shell_reads_the_words_again_and_a_terminal_nothing_else) {
  EXPECT_EQ(command_text({"lockstep", "bench", "--json=a-1.json", "--bucket-mb", "1,5"}),
            "lockstep bench --json=a-1.json --bucket-mb 1,5");
  EXPECT_EQ(command_text({"er gebnis ö.json", "", "it's", "$HOME"}),
            "'er gebnis ö.json' '' 'it'\\''s' '$HOME'");
  EXPECT_EQ(command_text({"\x1b[2J\n"}), "'\uFFFD[2J '");
}

}  // namespace
}  // namespace lockstep
