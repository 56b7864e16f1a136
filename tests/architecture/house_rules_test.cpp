#include "architecture/house_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "architecture/source_text.h"

namespace lockstep::architecture {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::SizeIs;

TEST(HouseRulesTest, the_project_keeps_them) {
  const auto files = project_files(LOCKSTEP_SOURCE_DIR);
  ASSERT_THAT(files, Contains("src/lockstep/base/error.h"));
  ASSERT_THAT(files, Contains("Makefile"));
  for (const auto& file : files) {
    for (const Finding& finding :
         check_file(file, read_file(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / file))) {
      ADD_FAILURE() << to_string(finding);
    }
  }
}

struct Sample {
  const char* path;
  const char* text;
};

TEST(HouseRulesTest, finds_what_breaks_one) {
  // Cut in two where this file would break a rule itself.
  const std::string other_folder = "see ../sha" + std::string("red/notes.md\n");
  const std::string absolute = "cd /wor" + std::string("k/main\n");
  for (const Sample& bad : {
           Sample{"src/lockstep/comm/a.h", "#include <ATen/ATen.h>\n"},
           Sample{"src/lockstep/network_file/a.h", "#include <c10/util/Half.h>\n"},
           Sample{"src/lockstep/results/record/a.h", "#include <ATen/ATen.h>\n"},
           Sample{"src/lockstep/launch/threads.cpp", "#include <torch/csrc/distributed/c10d/TCPStore.hpp>\n"},
           Sample{"src/lockstep/comm/backend.cpp", "#include <mpi.h>\n"},
           Sample{"src/cli/main.cpp", "#include <gloo/context.h>\n"},
           Sample{"src/lockstep/comm/a.cpp", "  std::cout << 1;\n"},
           Sample{"src/lockstep/train/a.cpp", "  printf(\"x\");\n"},
           Sample{"src/lockstep/train/a.cpp", "  std::fprintf(stderr, \"x\");\n"},
           Sample{"src/lockstep/launch/a.cpp", "  if (bad) exit(1);\n"},
           Sample{"src/lockstep/launch/a.cpp", "  std::exit(1);\n"},
           Sample{"src/lockstep/comm/a.cpp", "  ::_exit(1);\n"},
           Sample{"src/lockstep/comm/a.cpp", "#include \"../base/error.h\"\n"},
           Sample{"docs/a.md", other_folder.c_str()},
           Sample{"setup/a.sh", absolute.c_str()},
       }) {
    EXPECT_THAT(check_file(bad.path, bad.text), SizeIs(1)) << bad.path << ": " << bad.text;
  }
}

TEST(HouseRulesTest, leaves_what_only_looks_like_it) {
  for (const Sample& good : {
           Sample{"src/lockstep/launch/tcp_store.cpp",
                  "#include <torch/csrc/distributed/c10d/TCPStore.hpp>\n"},
           Sample{"src/lockstep/comm/mpi/a.cpp", "#include <mpi.h>\n"},
           Sample{"src/lockstep/models/a.cpp", "#include <ATen/ATen.h>\n"},
           Sample{"src/cli/main.cpp", "std::cout << 1; exit(1);\n"},
           Sample{"src/lockstep/launch/a.cpp", "::_exit(1);\n"},
           Sample{"src/lockstep/comm/a.cpp", "// std::cout would print, exit(1) would end\n"},
           Sample{"src/lockstep/comm/a.cpp", "auto s = \"printf( exit(1) \";\n"},
           Sample{"src/lockstep/comm/a.cpp", "std::snprintf(b, n, f); at_exit(1); work.exit(1);\n"},
           Sample{"docs/a.md", "a rank's network/ folder\n"},
       }) {
    EXPECT_THAT(check_file(good.path, good.text), IsEmpty()) << good.path << ": " << good.text;
  }
}

TEST(HouseRulesTest, counts_lines_of_sources) {
  std::string text;
  for (int line = 0; line < 701; ++line) text += "int x;\n";
  EXPECT_THAT(check_file("src/lockstep/comm/a.cpp", text), SizeIs(1));
  EXPECT_THAT(check_file("tests/comm/a.cpp", text), IsEmpty());
}

TEST(SourceTextTest, blanks_comments_and_literals_and_keeps_lines) {
  EXPECT_EQ(code_only("a // b\nc"), "a     \nc");
  EXPECT_EQ(code_only("a /* b\n */ c"), "a     \n    c");
  EXPECT_EQ(code_only("f(\"x\\\"y\") + 1"), "f(      ) + 1");
  EXPECT_EQ(code_only("1'000 + 'x'"), "1'000 +    ");
  EXPECT_EQ(code_only("R\"(a\"b)\" c"), "         c");
}

}  // namespace
}  // namespace lockstep::architecture
