#include <gmock/gmock.h>

#include "lockstep/results/files/system_json.h"
#include "lockstep/results/tables/tables.h"

#include "golden/golden.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_golden::expect_golden;

topology::System recorded(const std::string& name) {
  return read_system(std::string(LOCKSTEP_GOLDEN) + "/topology/" + name);
}

TEST(SystemTextTest, recorded_systems_are_shown_as_expected) {
  for (const std::string name : {"v100x8.json", "nvswitch8.json", "two_gpus.xml", "two_sockets.xml"}) {
    SCOPED_TRACE(name);
    expect_golden("topology/" + name.substr(0, name.find('.')) + ".txt",
                  to_text(system_tables(recorded(name))));
  }
}

// Letter by letter what nvidia-smi printed there, as far as it prints facts.
TEST(SystemTextTest, the_matrix_of_eight_v100_is_that_of_pytorchs_benchmark) {
  EXPECT_EQ(
      path_matrix(recorded("v100x8.json").map),
      "        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx5_2  mlx5_0  mlx5_3  "
      "mlx5_1  CPU Affinity\n"
      "GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS     SYS     PIX     SYS     "
      "PHB     0-19,40-59\n"
      "GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS     SYS     PIX     SYS     "
      "PHB     0-19,40-59\n"
      "GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS     SYS     PHB     SYS     "
      "PIX     0-19,40-59\n"
      "GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1     SYS     PHB     SYS     "
      "PIX     0-19,40-59\n"
      "GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2     PIX     SYS     PHB     "
      "SYS     0-19,40-59\n"
      "GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1     PIX     SYS     PHB     "
      "SYS     0-19,40-59\n"
      "GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2     PHB     SYS     PIX     "
      "SYS     0-19,40-59\n"
      "GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X      PHB     SYS     PIX     "
      "SYS     0-19,40-59\n"
      "mlx5_2  SYS     SYS     SYS     SYS     PIX     PIX     PHB     PHB      X      SYS     PHB     "
      "SYS\n"
      "mlx5_0  PIX     PIX     PHB     PHB     SYS     SYS     SYS     SYS     SYS      X      SYS     "
      "PHB\n"
      "mlx5_3  SYS     SYS     SYS     SYS     PHB     PHB     PIX     PIX     PHB     SYS      X      "
      "SYS\n"
      "mlx5_1  PHB     PHB     PIX     PIX     SYS     SYS     SYS     SYS     SYS     PHB     SYS      "
      "X\n");
}

TEST(SystemTextTest, a_long_name_makes_its_column_wider_and_no_other) {
  topology::DeviceMap map = recorded("two_gpus.xml").map;
  map.devices[4].label = "enp225s0f0np0";
  const std::string matrix = path_matrix(map);
  EXPECT_THAT(matrix, HasSubstr("               GPU0    GPU1    mlx5_0  mlx5_1  enp225s0f0np0  eth1    CPU"));
  EXPECT_THAT(matrix, HasSubstr("enp225s0f0np0  PHB     SYS     PHB     PHB      X             NODE\n"));
}

TEST(SystemTextTest, what_is_not_known_of_a_path_is_explained_only_where_it_occurs) {
  topology::System system = recorded("two_gpus.xml");
  EXPECT_THAT(to_text(system_tables(system)), Not(HasSubstr("N/A")));
  system.map.paths[0][1] = system.map.paths[1][0] = {};
  EXPECT_THAT(to_text(system_tables(system)),
              AllOf(HasSubstr("GPU1    N/A      X "), HasSubstr("N/A  = not to be")));
}

TEST(SystemTextTest, a_machine_without_gpus_has_no_matrix_but_the_reason) {
  topology::System system = recorded("two_sockets.xml");
  system.why_no_gpus = "no driver is here";
  EXPECT_THAT(
      to_text(system_tables(system)),
      AllOf(HasSubstr("2 packages"), HasSubstr("GPUs: no driver is here.\n"), Not(HasSubstr("Paths"))));
}

TEST(SystemTextTest, in_markdown_the_matrix_keeps_its_columns) {
  const std::string text = to_text(system_tables(recorded("nvswitch8.json")), TextForm::kMarkdown);
  EXPECT_THAT(text,
              AllOf(HasSubstr("### Processors\n\n| package |"), HasSubstr("```\n        GPU0    GPU1")));
}

}  // namespace
}  // namespace lockstep::results
