#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Writes `text` to `path` so that a reader sees the old file or the whole new one, never a part: a temporary
/// file beside it that nobody else can have prepared, flushed to disk, then renamed. A symbolic link stays
/// one (its target is replaced), and so do the permissions of an old file. Throws Error that names the path
/// and the system's reason (a full disk among them); the temporary file is removed then.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
/// The same with the parts of the text one after the other.
void write_file_atomically(const std::filesystem::path& path, const std::vector<std::string_view>& parts);

/// A file that a command was told to write or to read. Empty: not given; "-": standard input or output.
struct GivenFile {
  std::string flag;
  std::filesystem::path path;
};

/// Throws ConfigError where two outputs are the same file, where one is an input, which would be lost, or
/// where a later write_file_atomically() cannot be expected to succeed. Leaves nothing behind.
void check_outputs(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs = {});

/// Whether both name one file: by what exists, or else by the path that it will have. A device or a pipe
/// takes what several write, so it is never one file.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// The path of `name` among temporary files: in TMPDIR, or in /tmp.
std::filesystem::path temporary_path(const std::string& name);

/// Makes a folder for temporary files that only this user can enter, unless it is there. Throws ConfigError
/// where it cannot be made, and for one that others can enter.
void make_private_folder(const std::filesystem::path& folder);

/// The whole file, or all that a pipe holds. Throws Error that names the path and the system's reason; files
/// of more than 2 GiB and devices without an end are refused.
std::string read_file(const std::filesystem::path& path);

/// The first and the last bytes of a file, which overlap in a short one.
struct FileEnds {
  std::string first;
  std::string last;
};

/// At most `most` bytes of either end. Throws Error that names the path and the system's reason.
FileEnds read_ends(const std::filesystem::path& path, size_t most);

}  // namespace lockstep
