#include "lockstep/results/files/record_json.h"

#include "plots/sample_records.h"

namespace lockstep::plots {

std::vector<NamedRecord> shipped_records() {
  std::vector<NamedRecord> records;
  for (const char* name : {"pytorch_throughput", "pytorch_ddp", "pytorch_ddp_bucket_diff", "tensorpack_p100",
                           "tensorpack_v100", "tf_cnn_benchmarks_p100", "theano_mpi"}) {
    const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/data/published/" + name + ".json";
    records.push_back({name, results::read_record(path)});
  }
  return records;
}

}  // namespace lockstep::plots
