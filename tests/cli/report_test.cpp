#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "cli/in_process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const fs::path kSource = LOCKSTEP_SOURCE_DIR;
const fs::path kResults = kSource / "tests/fuzz/corpus/result_file";

test::Finished report(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"lockstep", "report"});
  return test::run_here(flags);
}

struct RefusedReport {
  const char* file;
  std::vector<std::string> texts;
};

TEST(ReportTest, says_what_is_wrong_with_a_result_file) {
  const test::ScratchFolder folder;
  const std::vector<RefusedReport> cases{
      {"bad_empty.json", {"is empty", "did not get that far"}},
      {"bad_truncated.json", {"is cut off after 3074 bytes", ".partial"}},
      {"bad_nan.json", {"byte 214 is NaN, which is no number"}},
      {"bad_infinity.json", {"byte 215 is Infinity, which is no number"}},
      {"bad_too_large_number.json", {"a number that is too large"}},
      {"bad_foreign_object.json", {"is JSON, but no result of lockstep bench or of PyTorch's DDP benchmark"}},
      {"bad_not_json.json", {"is not JSON: byte 1", "lockstep bench"}},
      {"bad_newer_schema.json", {"schema_version is 999", "Use the lockstep that wrote it, or a newer one"}},
      {"bad_more_ranks_than_there_are.json", {"lockstep.runs[1].ranks is 2147483647"}},
      {"missing.json", {"cannot read", "No such file"}},
  };
  for (const RefusedReport& refused : cases) {
    const std::string path = kResults / refused.file;
    const test::Finished finished = report({path, "-o", folder.path("report.html")});
    EXPECT_EQ(finished.exit_code, 1) << refused.file;
    EXPECT_EQ(finished.output, "");
    EXPECT_THAT(finished.error, AllOf(HasSubstr("lockstep: error: "), HasSubstr(path)));
    for (const std::string& text : refused.texts) EXPECT_THAT(finished.error, HasSubstr(text));
  }
  EXPECT_EQ(folder.files(), 0u) << "a report that failed leaves nothing";
}

TEST(ReportTest, published_results_are_result_files) {
  const test::ScratchFolder folder;
  const test::Finished table =
      report({"--published", kSource / "data/published/sources/theano_mpi.csv", "-o", folder.path("a.html")});
  EXPECT_EQ(table.exit_code, 1);
  EXPECT_THAT(table.error, AllOf(HasSubstr("theano_mpi.csv' is a table in the format of older versions"),
                                 HasSubstr("python3 data/published/to_json.py")));
  const std::string broken = kResults / "bad_truncated.json";
  const test::Finished refused = report({"--published", broken, "-o", folder.path("a.html")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.error, HasSubstr(broken));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ReportTest, makes_a_page_of_whatever_can_be_read) {
  for (const auto& file : fs::directory_iterator(kResults)) {
    if (!file.path().filename().string().starts_with("good_")) continue;
    const test::Finished finished = report({file.path(), "-o", "-"});
    EXPECT_EQ(finished.exit_code, 0) << file.path() << finished.error;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("</html>"))) << file.path();
  }
}

TEST(ReportTest, a_record_without_a_row_says_so) {
  const test::Finished finished = report({kResults / "good_no_row.json", "-o", "-"});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_THAT(finished.output, HasSubstr("Not drawn: "));
}

TEST(ReportTest, ten_thousand_ranks_are_a_page_of_common_size) {
  const test::Finished finished = report({kResults / "good_10000_ranks.json", "-o", "-"});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_THAT(finished.output, HasSubstr("10000"));
  EXPECT_LT(finished.output.size(), 200'000u);
}

TEST(ReportTest, overlays_runs_that_have_no_row_in_common) {
  const test::Finished finished =
      report({kResults / "good_pytorch.json", kResults / "good_10000_ranks.json", "--published",
              kSource / "data/published/pytorch_throughput.json", "--published",
              kSource / "data/published/theano_mpi.json", "-o", "-"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  for (const char* name :
       {"good_pytorch", "good_10000_ranks", "pytorch_throughput", "101.98", "theano_mpi"}) {
    EXPECT_THAT(finished.output, HasSubstr(name));
  }
  EXPECT_THAT(finished.output, Not(HasSubstr("The same in good_10000_ranks"))) << "it has not the same";
}

TEST(PlotTest, writes_a_drawing_or_says_why_there_is_none) {
  const test::ScratchFolder folder;
  const std::string good = kResults / "good_pytorch.json", drawing = folder.path("a.svg");
  const test::Finished drawn =
      test::run_here({"lockstep", "plot", good, "--chart", "speedup", "-o", drawing});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  EXPECT_THAT(read_file(drawing), AllOf(HasSubstr("<svg "), HasSubstr("</svg>")));

  const test::Finished missing =
      test::run_here({"lockstep", "plot", good, "--chart", "phases", "-o", folder.path("b.svg")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.error, AllOf(HasSubstr("'phases' cannot be drawn"), HasSubstr("--breakdown")));
  EXPECT_EQ(folder.files(), 1u);
  const test::Finished links = test::run_here({"lockstep", "plot", LOCKSTEP_GOLDEN "/links.json", "--chart",
                                               "bandwidth", "-o", folder.path("c.svg")});
  EXPECT_EQ(links.exit_code, 2);
  EXPECT_THAT(links.error, AllOf(HasSubstr("plot draws no file of links"), HasSubstr("topo --from")));
}

TEST(PlotTest, makes_other_formats_with_a_program_that_it_names_where_it_is_missing) {
  const test::ScratchFolder folder;
  const std::string good = kResults / "good_pytorch.json", pdf = folder.path("a.pdf");
  const auto plot = [&](const std::string& output) {
    return test::run_here({"lockstep", "plot", good, "--chart", "speedup", "--title", "Mine", "-o", output});
  };
  const test::Finished other = plot(folder.path("a.jpg"));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.error, AllOf(HasSubstr("plot writes .svg, .pdf and .png files, not '")));
  // A stand-in, since machines that only build lack the real one: it copies what it is given.
  const std::string path = std::getenv("PATH"), tool = folder.path("rsvg-convert");
  write_file_atomically(tool, "#!/bin/sh\n{ echo \"$1 $2 $3 $4\"; /bin/cat \"$7\"; } >\"$6\"\n");
  ::setenv("PATH", folder.path("").c_str(), 1);
  const test::Finished missing = plot(pdf);
  fs::permissions(tool, fs::perms::owner_all);
  const std::vector<test::Finished> drawn{plot(pdf), plot(pdf)};
  const test::ScratchFolder temporary;
  ::setenv("TMPDIR", temporary.path("").c_str(), 1);
  write_file_atomically(tool, "#!/bin/sh\n");
  const test::Finished nothing = plot(pdf);
  ::unsetenv("TMPDIR");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_EQ(temporary.files(), 0U);
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.error, AllOf(HasSubstr("rsvg-convert"), HasSubstr("librsvg2-bin")));
  for (const test::Finished& finished : drawn) EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(read_file(pdf), AllOf(testing::StartsWith("-f pdf -z 1\n<svg "), HasSubstr(">Mine</text>")));
}

}  // namespace
}  // namespace lockstep
