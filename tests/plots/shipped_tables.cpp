#include "plots/sample_records.h"

namespace lockstep::plots {

std::vector<PublishedTable> shipped_tables() {
  std::vector<PublishedTable> tables;
  for (const char* name : {"pytorch_throughput", "pytorch_ddp", "pytorch_ddp_bucket_diff",
                           "tensorpack_multigpu", "theano_mpi"}) {
    tables.push_back(read_published(std::string(LOCKSTEP_SOURCE_DIR) + "/data/published/" + name + ".csv"));
  }
  return tables;
}

}  // namespace lockstep::plots
