#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/predict/curves/curve_model.h"

namespace lockstep::predict {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path sources() {
  return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "data/published/sources";
}

class CurveFileTest : public testing::Test {
 protected:
  ~CurveFileTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& text) const {
    write_file_atomically(folder_ / "mine.csv", text);
    return folder_ / "mine.csv";
  }
  std::string refusal_of(const std::string& text) const {
    try {
      read_curves(file(text));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  const std::filesystem::path folder_ = make_private_folder("curve-file");
};

TEST_F(CurveFileTest, rows_of_a_curve_belong_together_and_repeated_counts_become_their_median) {
  const std::vector<Curve> curves =
      read_curves(file("curve,gpus,nodes,batch_per_gpu,images_per_s,hardware\n"
                       "a,2,1,32,190,\"V100, NVLink\"\n"
                       "b,4,2,,80,\n"
                       "a,1,1,32,90,\"a \"\"fast\"\" one\"\n"
                       "a,1,1,32,100,\n"
                       "a,1,1,32,130,\n"
                       "a,4,,32,,not published\n"));
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].name, "a");
  ASSERT_EQ(curves[0].points.size(), 2u);
  EXPECT_EQ(curves[0].points[0].gpus, 1);
  EXPECT_DOUBLE_EQ(curves[0].points[0].images_per_s, 100);
  EXPECT_EQ(curves[0].points[1].gpus, 2);
  EXPECT_FALSE(curves[0].is_strong());
  EXPECT_EQ(curves[1].points[0].nodes, 2);
  EXPECT_TRUE(curves[1].has_several_nodes());
}

TEST_F(CurveFileTest, shipped_tables_are_read) {
  const std::vector<Curve> curves = read_curves(sources() / "curves.csv");
  EXPECT_EQ(curves.size(), 390u);
  for (const Curve& curve : read_curves(sources() / "curves_strong.csv")) {
    if (curve.points.front().batch_per_gpu > 0) {
      EXPECT_TRUE(curve.is_strong()) << curve.name;
    }
  }
  EXPECT_EQ(read_curves(sources() / "curves_nodes.csv").size(), 7u);
  // Without a column of nodes, "2M/16G" names them.
  EXPECT_EQ(read_curves(sources() / "pytorch_ddp.csv").at(1).points.back().nodes, 2);
  EXPECT_EQ(read_curves(sources() / "pytorch_throughput.csv").at(0).points.size(), 8u);
  const std::vector<Curve> theano = read_curves(sources() / "theano_mpi.csv");
  EXPECT_EQ(theano.size(), 5u);
  EXPECT_NEAR(theano[0].points[0].images_per_s, 5120 / 63.89, 1e-9);
}

TEST_F(CurveFileTest, wrong_tables_are_refused_with_file_and_line) {
  EXPECT_THAT(refusal_of(""), HasSubstr("mine.csv holds no rows"));
  EXPECT_THAT(refusal_of("curve,gpus,images_per_s\n"), HasSubstr("mine.csv holds no rows"));
  EXPECT_THAT(refusal_of("curve,images_per_s\na,1\n"),
              AllOf(HasSubstr("mine.csv, line 1"), HasSubstr("no column gpus, ranks or workers")));
  EXPECT_THAT(refusal_of("curve,gpus,speed\na,1,2\n"), AllOf(HasSubstr("line 1"), HasSubstr("images_per_s")));
  EXPECT_THAT(refusal_of("curve,gpus,images_per_s\na,1,10\na,2,fast\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("images_per_s takes a number above 0, not 'fast'")));
  for (const char* rate : {"nan", "-5", "inf", "0"})
    EXPECT_THAT(refusal_of(std::string("curve,gpus,images_per_s\na,1,") + rate + "\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of("curve,gpus,images_per_s\na,1.5,10\n"), HasSubstr("gpus takes a whole number"));
  EXPECT_THAT(refusal_of("\ncurve,gpus,images_per_s\na,1\n"),
              HasSubstr("line 3: 2 fields, but line 2 names 3 columns"));
  EXPECT_THAT(refusal_of("curve,gpus,nodes,images_per_s\na,1,2,5\n"), HasSubstr("2 nodes for 1 GPUs"));
}

}  // namespace
}  // namespace lockstep::predict
