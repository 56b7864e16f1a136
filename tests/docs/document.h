#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::docs {

/// A place in one of the project's Markdown files.
struct Mention {
  /// Relative to the project's folder.
  std::string file;
  std::string text;
};

inline void PrintTo(const Mention& mention, std::ostream* out) {
  *out << mention.file << ": " << mention.text;
}

/// The project's own Markdown files, relative to its folder.
std::vector<std::string> markdown_files();

/// The targets of the links in a Markdown text that lead to files: no addresses, no anchors, no code blocks.
std::vector<std::string> file_links(std::string_view markdown);

/// The links in a Markdown text that lead to a heading: the file, empty for the same one, and the anchor.
std::vector<std::pair<std::string, std::string>> anchored_links(std::string_view markdown);

/// The commands in the ```sh blocks of a Markdown text, without comments; lines that end in a backslash are
/// joined with the next one.
std::vector<std::string> shell_commands(std::string_view markdown);
/// Those of all blocks, fenced or indented, whatever they hold.
std::vector<std::string> all_commands(std::string_view markdown);

/// The whole text of one of the project's files.
std::string project_file(const std::string& path);

/// The distinct commands of all Markdown files that contain `program` as a word, each with the first file
/// that has it.
std::vector<Mention> commands_with(const std::string& program);

}  // namespace lockstep::docs
