#include <filesystem>
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

TEST(DocumentTest, finds_links_to_files) {
  EXPECT_THAT(file_links("[a](docs/a.md) [b](https://b.c/d) [e](f.md#g) [h](#i)"),
              ElementsAre("docs/a.md", "f.md"));
}

TEST(DocumentTest, finds_commands_without_comments) {
  EXPECT_THAT(shell_commands("x\n```sh\na --b   # c\n\n# d\ne\n```\nf\n```json\ng\n```\n"),
              ElementsAre("a --b", "e"));
}

}  // namespace
}  // namespace lockstep::docs
