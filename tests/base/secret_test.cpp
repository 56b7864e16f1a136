#include "lockstep/base/secret.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "scratch_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string secret_in(const std::map<std::string, std::string>& variables) {
  return secret_of_user([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(SecretTest, is_128_random_bits) {
  EXPECT_EQ(random_secret().size(), 32U);
  EXPECT_EQ(from_hexadecimal(random_secret()).size(), 16U);
  EXPECT_NE(random_secret(), random_secret());
}

TEST(SecretTest, the_answer_depends_on_question_and_secret) {
  const std::string answer = answer_to("question", "secret");
  EXPECT_TRUE(is_same_answer(answer, answer_to("question", "secret")));
  EXPECT_FALSE(is_same_answer(answer, answer_to("question ", "secret")));
  EXPECT_FALSE(is_same_answer(answer, answer_to("question", "secret ")));
  EXPECT_FALSE(is_same_answer(answer, ""));
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("secret")));
}

// docs/inputs.md promises this to authors of producers.
TEST(SecretTest, the_key_is_the_sha_256_of_the_secret) {
  EXPECT_EQ(to_hexadecimal(key_from("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(SecretTest, comes_from_a_variable_or_from_a_file_of_the_user_alone) {
  const std::string token = random_secret();
  EXPECT_EQ(secret_in({}), "");
  EXPECT_EQ(secret_in({{"LOCKSTEP_TOKEN", ""}}), "");
  EXPECT_EQ(secret_in({{"LOCKSTEP_TOKEN", token}}), token);
  EXPECT_THAT(
      [] {
        secret_in({{"LOCKSTEP_TOKEN", "short"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("LOCKSTEP_TOKEN has 5 characters, and 32 is the least")));
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder.path("token");
  std::ofstream(file) << token << "\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::group_read);
  EXPECT_THAT(
      [&] {
        secret_in({{"LOCKSTEP_TOKEN_FILE", file.string()}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("other users may read it")));
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  EXPECT_EQ(secret_in({{"LOCKSTEP_TOKEN_FILE", file.string()}}), token);
  std::filesystem::remove(file);
  EXPECT_THROW(secret_in({{"LOCKSTEP_TOKEN_FILE", file.string()}}), Error);
}

TEST(HexadecimalTest, keeps_every_byte) {
  std::string bytes(256, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  EXPECT_EQ(from_hexadecimal(to_hexadecimal(bytes)), bytes);
  EXPECT_EQ(to_hexadecimal("\x0f"), "0f");
  for (const char* wrong : {"0", "0g", "zz", "0 0"}) EXPECT_THROW(from_hexadecimal(wrong), Error) << wrong;
}

}  // namespace
}  // namespace lockstep
