#include "lockstep/base/file.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"

#include "scratch_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class FileTest : public testing::Test {
 protected:
  size_t files() const { return scratch_.files(); }

  test::ScratchFolder scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(FileTest, a_written_file_reads_back_and_leaves_no_other) {
  write_file_atomically(folder_ / "a.json", "first");
  write_file_atomically(folder_ / "a.json", "second");
  EXPECT_EQ(read_file(folder_ / "a.json"), "second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, a_private_folder_is_nobody_elses_and_has_a_name_that_nobody_knows_before) {
  ::setenv("TMPDIR", folder_.c_str(), 1);
  const fs::path made = make_private_folder("own");
  EXPECT_NE(made, make_private_folder("own"));
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all);
  ::setenv("TMPDIR", (folder_ / "missing").c_str(), 1);
  try {
    make_private_folder("own");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing' cannot hold temporary files: No such file"));
  }
  ::unsetenv("TMPDIR");
}

TEST_F(FileTest, a_missing_folder_is_named) {
  try {
    check_outputs({{"--json", folder_ / "missing" / "a.json"}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--json"));
    EXPECT_THAT(error.what(), HasSubstr("missing/a.json"));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

TEST_F(FileTest, checking_leaves_nothing_behind) {
  check_outputs({{"--json", folder_ / "a.json"}, {"--csv", "-"}, {"--trace", ""}});
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileTest, a_folder_is_not_a_file) {
  EXPECT_THROW(check_outputs({{"--json", folder_}}), ConfigError);
  EXPECT_THROW(read_file(folder_), Error);
}

TEST_F(FileTest, a_full_disk_is_said) {
  try {
    write_file_atomically("/dev/full", "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
  }
}

std::string refusal(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs = {}) {
  try {
    check_outputs(outputs, inputs);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(FileTest, an_output_is_neither_an_input_nor_another_output) {
  const fs::path a = folder_ / "a.json";
  EXPECT_THAT(refusal({{"--json", a}, {"--csv", folder_ / "." / "a.json"}}),
              HasSubstr("--json and --csv both write"));
  write_file_atomically(a, "measured");
  fs::create_symlink(a, folder_ / "link");
  EXPECT_THAT(refusal({{"-o", folder_ / "link"}}, {{"the file to show", a}}),
              HasSubstr("is the file to show too, which would be lost"));
  EXPECT_EQ(refusal({{"--json", a}, {"--csv", folder_ / "b.csv"}}, {{"--from", folder_ / "c"}}), "");
  EXPECT_EQ(read_file(a), "measured");
}

TEST_F(FileTest, every_spelling_of_a_path_is_one_file_whether_it_exists_or_not) {
  const test::WorkingFolder here(folder_);
  fs::create_directory("s");
  fs::create_directory_symlink(folder_, "again");
  fs::create_symlink("x.json", "link");
  fs::create_symlink("link", "link to link");
  const std::vector<fs::path> spellings{
      "./x.json", folder_ / "x.json", "s/../x.json", "s/.././x.json", "again/x.json", "link", "link to link"};
  for (const bool exists : {false, true}) {
    if (exists) write_file_atomically("x.json", "measured");
    for (const fs::path& one : spellings) {
      EXPECT_TRUE(is_same_file(one, "x.json")) << one;
      EXPECT_TRUE(is_same_file(spellings.front(), one)) << one;
      EXPECT_THAT(refusal({{"--json", "x.json"}, {"--csv", one}}), HasSubstr("both write")) << one;
      EXPECT_FALSE(is_same_file(one, "y.json")) << one;
    }
  }
  fs::create_hard_link("x.json", "hard");
  EXPECT_TRUE(is_same_file("hard", "x.json"));
  EXPECT_FALSE(is_same_file("s/x.json", "x.json"));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null"));
}

TEST_F(FileTest, a_link_to_a_file_that_is_not_there_yet_stays_a_link) {
  fs::create_symlink("real", folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "real"), "new");
}

TEST_F(FileTest, a_link_of_another_user_is_not_followed) {
  write_file_atomically(folder_ / "precious", "kept");
  fs::create_symlink("precious", folder_ / "link");
  if (::lchown((folder_ / "link").c_str(), 65534, 65534) != 0) return;  // only root can play both parts
  EXPECT_THAT(refusal({{"--json", folder_ / "link"}}), HasSubstr("is a link that another user made"));
  EXPECT_THROW(write_file_atomically(folder_ / "link", "new"), Error);
  EXPECT_EQ(read_file(folder_ / "precious"), "kept");
}

TEST_F(FileTest, a_pipe_that_nobody_reads_is_not_waited_for) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  try {
    write_file_atomically(pipe, "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("nobody reads this pipe"));
  }
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file_atomically(pipe, "text");
  std::string read(9, ' ');
  EXPECT_EQ(::read(reader, read.data(), read.size()), 4);
  ::close(reader);
}

TEST_F(FileTest, the_old_file_is_kept_under_the_name_that_it_is_given) {
  write_file_atomically(folder_ / "a.json", {"first"}, folder_ / "a.json.old");
  EXPECT_EQ(files(), 1u);
  for (const char* text : {"second", "third"})
    write_file_atomically(folder_ / "a.json", {text}, folder_ / "a.json.old");
  EXPECT_EQ(read_file(folder_ / "a.json"), "third");
  EXPECT_EQ(read_file(folder_ / "a.json.old"), "second");
  EXPECT_EQ(files(), 2u);
}

TEST_F(FileTest, links_and_permissions_stay) {
  const fs::path real = folder_ / "real", link = folder_ / "link";
  write_file_atomically(real, "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", link);
  write_file_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 2u);
}

TEST_F(FileTest, a_kill_while_writing_leaves_nothing) {
  const std::string text(size_t{4} << 20, 'x');
  write_file_atomically(folder_ / "a.json", text);
  for (int kills = 1; kills <= 10; ++kills) {
    const pid_t writer = ::fork();
    while (writer == 0) write_file_atomically(folder_ / "a.json", text);
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * kills));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    // The child that was about to rename a complete file goes on.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (files() != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(files(), 1U);
    EXPECT_EQ(read_file(folder_ / "a.json").size(), text.size());
  }
}

TEST_F(FileTest, a_link_that_somebody_planted_is_not_followed) {
  write_file_atomically(folder_ / "precious", "kept");
  // The name that a temporary file of this process had before names were random.
  fs::create_symlink("precious", folder_ / (".a.json." + std::to_string(::getpid()) + ".tmp"));
  write_file_atomically(folder_ / "a.json", "new");
  EXPECT_EQ(read_file(folder_ / "precious"), "kept");
}

TEST_F(FileTest, what_has_no_end_is_not_read) {
  EXPECT_THROW(read_file("/dev/zero"), Error);
  const fs::path pipe = folder_ / "pipe.jpg";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Nobody writes to it: it is empty, and does not block.
  EXPECT_EQ(read_file(pipe), "");
  // An error of reading is no end of the file.
  EXPECT_THROW(read_file("/proc/self/mem"), Error);
}

TEST_F(FileTest, a_folder_is_ones_own_where_nobody_else_may_change_or_replace_it) {
  const fs::path mine = folder_ / "mine", inner = mine / "inner";
  fs::create_directories(inner);
  ::chmod(mine.c_str(), 0755);
  ::chmod(inner.c_str(), 0755);
  EXPECT_EQ(why_not_mine_alone(inner), "");
  ::chmod(inner.c_str(), 0777);
  EXPECT_THAT(why_not_mine_alone(inner), HasSubstr("other users may write to '" + inner.string()));
  ::chmod(inner.c_str(), 01777);
  EXPECT_NE(why_not_mine_alone(inner), "") << "others may add files";
  ::chmod(inner.c_str(), 0700);
  ::chmod(mine.c_str(), 0777);
  EXPECT_THAT(why_not_mine_alone(inner), HasSubstr("other users may write to '" + mine.string()));
  ::chmod(mine.c_str(), 01777);
  EXPECT_EQ(why_not_mine_alone(inner), "") << "the sticky bit keeps others from replacing it";
  fs::create_symlink(inner, mine / "link");
  EXPECT_EQ(why_not_mine_alone(mine / "link"), "");
  EXPECT_THAT(why_not_mine_alone(folder_ / "none"), HasSubstr("No such file"));
  // Only root can give a folder away.
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(inner.c_str(), 65534, 65534), 0);
  EXPECT_EQ(why_not_mine_alone(inner), "'" + inner.string() + "' is another user's");
}

TEST_F(FileTest, no_temporary_folder_is_made_where_others_could_replace_it) {
  ::chmod(folder_.c_str(), 0777);
  EXPECT_THROW(make_private_folder("own", folder_), ConfigError);
  EXPECT_EQ(files(), 0u);
  ::chmod(folder_.c_str(), 01777);
  EXPECT_EQ(why_not_mine_alone(make_private_folder("own", folder_)), "");
}

TEST_F(FileTest, a_file_is_inside_of_a_folder_however_both_are_spelled) {
  const test::WorkingFolder here(folder_);
  fs::create_directories(folder_ / "a" / "b");
  write_file_atomically(folder_ / "a" / "b" / "x", "x");
  fs::create_symlink(folder_ / "a" / "b" / "x", folder_ / "link");
  fs::create_symlink("a", folder_ / "other");
  for (const char* path : {"a/b/x", "a/b/new", "link", "other/b/x", "a/b/../b/x"}) {
    EXPECT_TRUE(is_inside(path, "a")) << path;
    EXPECT_TRUE(is_inside(path, folder_ / "other")) << path;
  }
  EXPECT_FALSE(is_inside("y", "a"));
  EXPECT_FALSE(is_inside("a/b/x", "a/b/x"));
  EXPECT_FALSE(is_inside("a/b/x", "none"));
}

TEST_F(FileTest, what_is_no_regular_file_is_refused_without_opening_it) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("loop", folder_ / "loop");
  const auto refusal = [&](const fs::path& path) {
    try {
      require_regular_file(path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(folder_ / "pipe"), HasSubstr("pipe': it is not a regular file"));
  EXPECT_THAT(refusal(folder_ / "loop"), HasSubstr("Too many levels"));
  EXPECT_THAT(refusal(folder_), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is not a regular file"));
  EXPECT_THROW(read_ends(folder_ / "pipe", 10), Error);
}

TEST_F(FileTest, permissions_of_a_file_that_another_user_planted_are_not_kept) {
  // Only root can give a file away.
  if (::geteuid() != 0) return;
  write_file_atomically(folder_ / "a", "planted");
  ::chmod((folder_ / "a").c_str(), 0666);
  ASSERT_EQ(::chown((folder_ / "a").c_str(), 65534, 65534), 0);
  write_file_atomically(folder_ / "a", "mine");
  struct ::stat facts {};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0022, 0u);
  EXPECT_EQ(facts.st_uid, 0u);
}

TEST_F(FileTest, errors_of_other_libraries_become_sentences) {
  const auto text_of = [](const auto& call) {
    try {
      call();
    } catch (const std::exception& error) {
      return trouble_of(error).what;
    }
    return std::string();
  };
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_EQ(text_of([&] { (void)fs::exists(folder_ / "loop"); }),
            "cannot use '" + (folder_ / "loop").string() + "': Too many levels of symbolic links");
  EXPECT_THAT(text_of([] { nlohmann::json::parse("{").get<int>(); }), Not(HasSubstr("exception")));
  EXPECT_THAT(text_of([] { (void)nlohmann::json("x").get<int>(); }), HasSubstr("another kind of value"));
  EXPECT_EQ(text_of([] { throw std::bad_alloc(); }), "memory ran out");
}

}  // namespace
}  // namespace lockstep
