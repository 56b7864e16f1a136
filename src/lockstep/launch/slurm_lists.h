#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

/// Tasks of each node, from Slurm's "2(x3),1": 2, 2, 2, 1. Throws ConfigError that names `variable`.
std::vector<int> expand_slurm_tasks(const std::string& variable, const std::string& text);

/// The first host, from Slurm's "node[03-05,9],login1": node03. Throws ConfigError that names `variable`.
std::string first_slurm_host(const std::string& variable, const std::string& text);

}  // namespace lockstep::launch
