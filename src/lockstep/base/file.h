#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Writes `text` to `path` so that a reader sees the old file or the whole new one, never a part: a temporary
/// file beside it that no other user can prepare, flushed to disk, then renamed. A symbolic link stays
/// one (its target is replaced), and so do the permissions of an old file of this user's. Throws Error that
/// names the path and the system's reason (a full disk among them), for a pipe that nobody reads, and for a
/// link that another user made, wherever it is on the path; the temporary file is removed then.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);
/// The same with the parts of the text one after the other. The old file is kept under the name
/// `keep_old_as`, unless that is empty.
void write_file_atomically(const std::filesystem::path& path, const std::vector<std::string_view>& parts,
                           const std::filesystem::path& keep_old_as = {});

/// A file that a flag names, to write or to read. Empty: not given; "-": standard input or output.
struct GivenFile {
  std::string flag;
  std::filesystem::path path;
};

/// Throws ConfigError where two outputs are the same file, where one is an input, which would be lost, or
/// where a later write_file_atomically() cannot be expected to succeed. Leaves nothing behind.
void check_outputs(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs = {});

/// Whether both name one file, however they are spelled: by the existing files, or else by folder and name.
/// Links are followed. Never true for devices and pipes, to which several may write.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// The same text for every spelling of a path, whether its file exists or not; links are followed.
std::string identity_of(const std::filesystem::path& path);

/// Whether what is at `path` lies in `folder`, at any depth; links are followed, and both compared by device
/// and inode.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Whether it is there and no regular file: a rename would replace it (/dev/stdout, /dev/full), so it is
/// written directly.
bool is_device_or_pipe(const std::filesystem::path& path);

/// TMPDIR, or /tmp.
std::filesystem::path temporary_folder();

/// Why another user, root excepted, may change what is in a folder or put another in its place; empty: it is
/// this user's alone. All folders above it count, which others may write to where the sticky bit protects
/// what is in them.
std::string why_not_mine_alone(const std::filesystem::path& folder);

/// Makes a new folder in `parent` that is this user's alone. Its name is `name`, a dash and something that
/// nobody can foresee. Throws ConfigError where it cannot be made, or others may replace it.
std::filesystem::path make_private_folder(const std::string& name,
                                          const std::filesystem::path& parent = temporary_folder());

/// The whole file, or all that a pipe holds. Throws Error that names the path and the system's reason; files
/// of more than 2 GiB and devices without an end are refused.
std::string read_file(const std::filesystem::path& path);

/// Throws Error that says so unless the path is a regular file, through links or not: opening others may wait
/// for ever.
void require_regular_file(const std::filesystem::path& path);

/// A text, and the name that messages give it.
struct NamedText {
  std::string name;
  std::string text;
};

/// A file that the user names as read_file() gives it; "-" is standard input.
NamedText read_given(const std::filesystem::path& path);

/// The first line of a file of the system's (below /proc or /sys); empty where there is none.
std::string first_line(const std::filesystem::path& path);

/// The first and the last bytes of a file, which overlap in a short one.
struct FileEnds {
  std::string first;
  std::string last;
};

/// At most `most` bytes of either end. Throws Error that names the path and the system's reason.
FileEnds read_ends(const std::filesystem::path& path, size_t most);

}  // namespace lockstep
