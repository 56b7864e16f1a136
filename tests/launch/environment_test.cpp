#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<RankEnvironment> detect(const Variables& variables) {
  return detect_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    if (value == "(unset)") {
      variables.erase(name);
    } else {
      variables[name] = value;
    }
  }
  return variables;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kByHand{
    {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                         {"PMIX_NAMESPACE", "1907621889"},    {"PMIX_RANK", "2"}};
const Variables kSlurm{{"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_ID", "1"},
                       {"SLURM_PROCID", "5"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_NUM_TASKS", "6"},
                       {"SLURM_STEP_NODELIST", "n[03-05]"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}};
const Variables kOurs{{"LOCKSTEP_LAUNCH", "processes"},
                      {"LOCKSTEP_RANK", "1"},
                      {"LOCKSTEP_WORLD", "4"},
                      {"LOCKSTEP_JOB", "local-1"},
                      {"LOCKSTEP_JOB_PORT", "4001"}};

TEST(EnvironmentTest, a_plain_shell_is_no_rank) {
  EXPECT_FALSE(detect({}));
  EXPECT_FALSE(detect({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}, {"LOCAL_RANK", "0"}}));
}

TEST(EnvironmentTest, torchrun_hosts_the_store_itself) {
  const auto found = detect(kTorchrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->world, 4);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->local_world, 2);
  EXPECT_EQ(found->launcher, Launcher::kTorchrun);
  EXPECT_EQ(found->master_addr, "node1");
  EXPECT_EQ(found->master_port, 29500);
  EXPECT_TRUE(found->has_agent_store);
  EXPECT_FALSE(found->supervised);
  EXPECT_FALSE(found->on_one_host());
}

TEST(EnvironmentTest, another_start_of_a_torchrun_job_is_another_job_where_all_count_alike) {
  const auto job_of = [](const Variables& variables) { return detect(variables)->job_id; };
  const Variables on_one_host = with(kTorchrun, {{"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_NE(job_of(on_one_host), job_of(with(on_one_host, {{"TORCHELASTIC_RESTART_COUNT", "1"}})));
  EXPECT_EQ(job_of(kTorchrun), job_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})));
}

TEST(EnvironmentTest, by_hand_on_the_loopback_address_all_ranks_are_local) {
  const auto found = detect(kByHand);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->local_world, 2);
  EXPECT_FALSE(found->has_agent_store);
  EXPECT_TRUE(found->on_one_host());
}

TEST(EnvironmentTest, open_mpi) {
  const auto found = detect(with(kOpenMpi, {{"OMPI_MCA_orte_bound_at_launch", "1"}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->world, 3);
  EXPECT_EQ(found->local_rank, 2);
  EXPECT_EQ(found->local_world, 3);
  EXPECT_EQ(found->launcher, Launcher::kMpirun);
  EXPECT_TRUE(found->bound_by_launcher);
  EXPECT_EQ(found->master_port, 0);
  EXPECT_FALSE(detect(kOpenMpi)->bound_by_launcher);
}

TEST(EnvironmentTest, two_jobs_of_the_same_number_differ) {
  const auto first = detect(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:4000"}}));
  const auto second = detect(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:4001"}}));
  EXPECT_NE(first->job_id, second->job_id);
}

TEST(EnvironmentTest, mpirun_inside_of_a_slurm_job_is_mpirun) {
  EXPECT_EQ(detect(with(kSlurm, kOpenMpi))->launcher, Launcher::kMpirun);
  EXPECT_EQ(detect(with(kSlurm, kTorchrun))->launcher, Launcher::kTorchrun);
}

TEST(EnvironmentTest, slurm_on_several_nodes_meets_at_the_first) {
  const auto found = detect(kSlurm);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->world, 6);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->local_world, 2);
  EXPECT_EQ(found->launcher, Launcher::kSrun);
  EXPECT_EQ(found->master_addr, "n03");
  EXPECT_GE(found->master_port, 12000);
  EXPECT_LT(found->master_port, 32000);
  EXPECT_EQ(found->job_id, "srun-77-1");
}

TEST(EnvironmentTest, a_given_address_wins_over_slurms) {
  const auto found = detect(with(kSlurm, {{"MASTER_ADDR", "10.1.1.1"}, {"MASTER_PORT", "5000"}}));
  EXPECT_EQ(found->master_addr, "10.1.1.1");
  EXPECT_EQ(found->master_port, 5000);
}

TEST(EnvironmentTest, launchers_of_several_hosts_know_an_address) {
  const Variables of_two_hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "6"}});
  const auto address = [](const Variables& variables) { return detect(variables)->launcher_addr; };
  EXPECT_EQ(address(with(of_two_hosts, {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1,10.1.0.1:4000"}})),
            "10.0.0.1,10.1.0.1");
  EXPECT_EQ(address(with(of_two_hosts, {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp6://[fd00::1,fd01::1]:4000"}})),
            "fd00::1,fd01::1");
  EXPECT_EQ(address(of_two_hosts), "");
  const Variables slurm = with(kSlurm, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.2"}});
  EXPECT_EQ(address(slurm), "10.0.0.2");
  EXPECT_EQ(address(with(slurm, {{"MASTER_ADDR", "node1"}})), "");
}

TEST(EnvironmentTest, an_allocation_without_step_is_no_rank) {
  // The shell of salloc, a batch script, the interactive step, and a step of one task.
  EXPECT_FALSE(detect({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "6"}, {"SLURM_NNODES", "3"}}));
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "(unset)"}})));
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967290"}})));
  EXPECT_FALSE(detect(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
}

TEST(EnvironmentTest, a_child_of_lockstep_is_supervised) {
  // Variables from the user's shell do not matter then.
  const auto found = detect(with(kOurs, with(kSlurm, kTorchrun)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->local_world, 4);
  EXPECT_TRUE(found->supervised);
  EXPECT_EQ(found->master_port, 4001);
  EXPECT_EQ(found->launcher, Launcher::kProcesses);
}

TEST(EnvironmentTest, a_child_through_mpirun_takes_its_rank_from_there) {
  const auto found = detect(with(kOurs, with(kOpenMpi, {{"LOCKSTEP_LAUNCH", "mpirun"}})));
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->world, 3);
  EXPECT_TRUE(found->supervised);
  EXPECT_EQ(found->launcher, Launcher::kMpirun);
}

struct Bad {
  std::string name;
  Variables variables;
  std::string names;
};

class BadEnvironmentTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadEnvironmentTest, is_refused_naming_the_variable) {
  try {
    detect(GetParam().variables);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().names));
    EXPECT_NE(error.advice(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadEnvironmentTest,
    ::testing::Values(
        Bad{"rank_missing", with(kByHand, {{"RANK", "(unset)"}}), "RANK is not set"},
        Bad{"world_missing", with(kByHand, {{"WORLD_SIZE", "(unset)"}}), "WORLD_SIZE is not set"},
        Bad{"rank_text", with(kByHand, {{"RANK", "one"}}), "RANK='one'"},
        Bad{"rank_trailing", with(kByHand, {{"RANK", "1x"}}), "RANK='1x'"},
        Bad{"rank_empty", with(kByHand, {{"RANK", ""}}), "RANK=''"},
        Bad{"rank_negative", with(kByHand, {{"RANK", "-1"}}), "RANK='-1'"},
        Bad{"world_zero", with(kByHand, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE='0'"},
        Bad{"rank_too_high", with(kByHand, {{"RANK", "2"}}), "RANK=2 contradicts WORLD_SIZE=2"},
        Bad{"local_rank", with(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK=2"},
        Bad{"local_world", with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5"},
        Bad{"local_missing", with(kByHand, {{"MASTER_ADDR", "node1"}}), "LOCAL_RANK"},
        Bad{"address_missing", with(kByHand, {{"MASTER_ADDR", "(unset)"}}), "MASTER_ADDR"},
        Bad{"port_missing", with(kByHand, {{"MASTER_PORT", "(unset)"}}), "MASTER_PORT"},
        Bad{"port_text", with(kByHand, {{"MASTER_PORT", "http"}}), "MASTER_PORT='http'"},
        Bad{"port_too_high", with(kByHand, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536"},
        Bad{"torchrun_against_mpirun", with(kOpenMpi, kByHand), "RANK=1 contradicts OMPI_COMM_WORLD_RANK=2"},
        Bad{"open_mpi_rank", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}}), "OMPI_COMM_WORLD_RANK=3"},
        Bad{"open_mpi_size", with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "(unset)"}}), "OMPI_COMM_WORLD_SIZE"},
        Bad{"slurm_rank", with(kSlurm, {{"SLURM_PROCID", "6"}}), "SLURM_PROCID=6"},
        Bad{"slurm_node", with(kSlurm, {{"SLURM_NODEID", "3"}}), "SLURM_NODEID=3"},
        Bad{"slurm_tasks", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), "SLURM_STEP_TASKS_PER_NODE"},
        Bad{"slurm_nodes", with(kSlurm, {{"SLURM_STEP_NODELIST", "n[03"}}), "SLURM_STEP_NODELIST"},
        Bad{"pmix_alone", {{"PMIX_RANK", "0"}}, "PMIX_RANK"},
        Bad{"hydra", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "PMI_RANK and PMI_SIZE"},
        Bad{"ours", with(kOurs, {{"LOCKSTEP_LAUNCH", "magic"}}), "LOCKSTEP_LAUNCH"}),
    [](const auto& instance) { return instance.param.name; });

TEST(SlurmListsTest, tasks_of_each_node) {
  EXPECT_THAT(expand_slurm_tasks("V", "2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_slurm_tasks("V", "4"), ElementsAre(4));
  EXPECT_THROW(expand_slurm_tasks("V", ""), ConfigError);
  EXPECT_THROW(expand_slurm_tasks("V", "2(x999999),2(x999999)"), ConfigError);
  for (const char* bad : {",", "2,", "2(3)", "2(x3", "2x", "-2", "1234567", "2;3"}) {
    EXPECT_THROW(expand_slurm_tasks("V", bad), ConfigError) << bad;
  }
}

TEST(SlurmListsTest, first_host) {
  EXPECT_EQ(first_slurm_host("V", "node[03-05,9],login1"), "node03");
  EXPECT_EQ(first_slurm_host("V", "gpu-1.cluster,gpu-2.cluster"), "gpu-1.cluster");
  EXPECT_EQ(first_slurm_host("V", "rack[1-2]node[01-16]"), "rack1node01");
  for (const char* bad : {"$(reboot)", "", ",node1", "node[", "node[a]", "node[1", "node]"}) {
    EXPECT_THROW(first_slurm_host("V", bad), ConfigError) << bad;
  }
}

}  // namespace
}  // namespace lockstep::launch
