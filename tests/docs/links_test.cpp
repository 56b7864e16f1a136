#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docs/document.h"

namespace lockstep::docs {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST(DocsTest, every_link_leads_to_a_file) {
  const auto files = markdown_files();
  ASSERT_THAT(files, Contains("README.md"));
  for (const auto& file : files) {
    const auto folder = (std::filesystem::path(LOCKSTEP_SOURCE_DIR) / file).parent_path();
    for (const auto& target : file_links(project_file(file))) {
      EXPECT_TRUE(std::filesystem::exists(folder / target)) << file << " links to " << target;
    }
  }
}

/// The anchor that GitHub gives to a heading: lower case, spaces as hyphens, no other punctuation.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ' || c == '-') {
      anchor += '-';
    } else if (std::isalnum(byte) != 0 || c == '_' || byte >= 0x80) {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& markdown) {
  std::istringstream lines(markdown);
  std::set<std::string> anchors;
  for (std::string line; std::getline(lines, line);) {
    const size_t text = line.find_first_not_of('#');
    if (text != 0 && text != std::string::npos && line[text] == ' ')
      anchors.insert(anchor_of(line.substr(text + 1)));
  }
  return anchors;
}

TEST(DocsTest, every_anchor_leads_to_a_heading) {
  int found = 0;
  for (const auto& file : markdown_files()) {
    for (const auto& [target, anchor] : anchored_links(project_file(file))) {
      const auto folder = std::filesystem::path(file).parent_path();
      const std::string page = target.empty() ? file : (folder / target).lexically_normal().string();
      EXPECT_TRUE(anchors_of(project_file(page)).contains(anchor)) << file << ": " << page << '#' << anchor;
      ++found;
    }
  }
  EXPECT_GT(found, 10);
}

TEST(DocsTest, every_source_file_that_is_named_exists) {
  static const std::regex name(R"(`([a-z_]+(?:/[a-z_0-9]+)*/[a-z_0-9]+\.(?:h|cpp|py|sh|cmake|txt))`)");
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
  int found = 0;
  for (const auto& file : markdown_files()) {
    const std::string text = project_file(file);
    for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match) {
      const std::string path = (*match)[1];
      const bool exists = std::ranges::any_of(std::array{"", "src", "src/lockstep"}, [&](const char* folder) {
        return std::filesystem::exists(root / folder / path);
      });
      EXPECT_TRUE(exists) << file << " names " << path;
      ++found;
    }
  }
  EXPECT_GT(found, 30);
}

TEST(DocsTest, every_make_target_that_is_mentioned_exists) {
  const std::string makefile = "\n" + project_file("Makefile");
  const auto mentions = commands_with("make");
  ASSERT_FALSE(mentions.empty());
  for (const Mention& mention : mentions) {
    std::istringstream words(mention.text.substr(mention.text.find("make ") + 5));
    for (std::string word; words >> word && word.find('=') == std::string::npos;) {
      EXPECT_NE(makefile.find("\n" + word + ":"), std::string::npos) << mention.file << ": " << mention.text;
    }
  }
}

/// Characters of UTF-8 text: all bytes but those that continue one.
size_t columns(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(
      line, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

TEST(DocsTest, no_line_is_wider_than_120_columns) {
  for (const auto& file : markdown_files()) {
    std::istringstream lines(project_file(file));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const bool row_of_a_table = line.starts_with("|");
      EXPECT_TRUE(row_of_a_table || columns(line) <= 120) << file << ':' << number << ": " << columns(line);
    }
  }
}

TEST(DocumentTest, finds_links_to_files) {
  EXPECT_THAT(file_links("[a](docs/a.md) [b](https://b.c/d) [e](f.md#g) [h](#i)"),
              ElementsAre("docs/a.md", "f.md"));
}

TEST(DocumentTest, finds_commands_without_comments) {
  EXPECT_THAT(shell_commands("x\n```sh\na --b   # c\n\n# d\ne\n```\nf\n```json\ng\n```\n"),
              ElementsAre("a --b", "e"));
}

TEST(DocumentTest, joins_the_lines_of_a_command) {
  EXPECT_THAT(shell_commands("```sh\na \\\n  --b\nc\n```\n"), ElementsAre("a   --b", "c"));
}

}  // namespace
}  // namespace lockstep::docs
