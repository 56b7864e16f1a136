#pragma once

#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/tcp_socket.h"

#include "flags.h"

namespace lockstep::cli {

/// Ends drawings that another program has made of lockstep's.
inline constexpr const char* kDrawingMark = "% Made by lockstep plot\n";

/// Whether it is a file that is not empty, as mktemp's is.
bool holds_something(const std::filesystem::path& path);

/// Whether lockstep wrote the file.
bool is_own(const std::filesystem::path& path);

/// --force, in the group that was begun.
void add_force_flag(Flags& flags, bool& force);

/// Throws ConfigError for a path of "-", which commands whose standard output is taken by tables do not write
/// to.
void refuse_stdout(const std::vector<GivenFile>& outputs);

/// Lets no other process of this user write these files as long as the sockets are open. Throws ConfigError
/// that names the process where one does. Those in other containers and on other hosts are not seen.
std::vector<UniqueFd> claim_outputs(const std::vector<GivenFile>& outputs);

/// Checks the files that a command is going to write. Throws ConfigError as check_outputs() does, and unless
/// `force` for a file that lockstep did not write: its results are replaced, nothing else is.
void check_output_files(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs,
                        bool force);

/// Throws ConfigError, unless `force`, for an existing checkpoint that is not the one to `resume`: it took
/// longer to make than any result.
void check_checkpoint(const GivenFile& checkpoint, const std::string& resume, bool force);

}  // namespace lockstep::cli
