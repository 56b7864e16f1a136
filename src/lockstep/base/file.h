#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

/// Writes `text` to `path` so that a reader sees the old file or the whole new one, never a part: a temporary
/// file beside it, flushed to disk, then renamed. Throws Error that names the path and the system's reason
/// (a full disk among them); the temporary file is removed then.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Throws ConfigError unless a later write_file_atomically(path) can be expected to succeed. Leaves nothing
/// behind.
void check_writable(const std::filesystem::path& path, std::string_view flag);

/// The whole file. Throws Error that names the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

}  // namespace lockstep
