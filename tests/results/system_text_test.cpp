#include <gmock/gmock.h>

#include "lockstep/base/file.h"
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
  return system_from_text(read_file(std::string(LOCKSTEP_GOLDEN) + "/topology/" + name), name);
}

TEST(SystemTextTest, recorded_systems_are_shown_as_expected) {
  for (const std::string name : {"v100x8.json", "nvswitch8.json", "two_gpus.xml", "two_sockets.xml"}) {
    SCOPED_TRACE(name);
    expect_golden("topology/" + name.substr(0, name.find('.')) + ".txt",
                  to_text(system_tables(recorded(name))));
  }
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
