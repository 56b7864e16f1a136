#include "lockstep/data/safetensors.h"

#include <gmock/gmock.h>

#include "lockstep/base/file.h"

#include "data/files.h"
#include "data/messages.h"
#include "data/tensor_bytes.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SafetensorsTest : public FolderTest {
 protected:
  void write_sample() const {
    write_safetensors(path_,
                      {{"half", "bfloat16", {3}, "aabbcc"},
                       {"scalar", "int64", {}, "12345678"},
                       {"none", "float32", {0, 4}, ""},
                       {"pair", "float32", {1, 2}, "ABCDEFGH"}},
                      {{"key", "a \"text\"\n"}, {"broken", "\xFF"}});
  }

  std::string refusal() const {
    return message_of([&] {
      const PositionedFile file(path_);
      check_checksum(file, read_safetensors(file));
    });
  }

  std::filesystem::path path_ = folder_ / "a.safetensors";
};

TEST_F(SafetensorsTest, tensors_and_texts_are_read_as_they_were_written) {
  write_sample();
  const PositionedFile file(path_);
  const Safetensors found = read_safetensors(file);
  ASSERT_EQ(found.tensors.size(), 4U);
  EXPECT_EQ(found.metadata.at("key"), "a \"text\"\n");
  EXPECT_THAT(found.tensors.at("scalar").shape, ElementsAre());
  EXPECT_THAT(found.tensors.at("none").shape, ElementsAre(0, 4));
  const StoredTensor& half = found.tensors.at("half");
  EXPECT_EQ(half.type, "bfloat16");
  std::string values(half.bytes, '\0');
  file.read(half.position, values);
  EXPECT_EQ(values, "aabbcc");
  check_checksum(file, found);
  // Aligned for their type: whoever maps the file computes with them in place.
  EXPECT_EQ(found.tensors.at("scalar").position % 8, 0U);
  EXPECT_EQ(found.tensors.at("pair").position % 4, 0U);
}

TEST_F(SafetensorsTest, the_same_content_has_the_same_bytes) {
  write_sample();
  const std::string first = read_file(path_);
  write_sample();
  EXPECT_EQ(read_file(path_), first);
}

TEST_F(SafetensorsTest, a_file_with_any_byte_damaged_is_refused) {
  write_sample();
  const std::string whole = read_file(path_);
  const size_t key = whole.find(kChecksumKey);
  for (size_t place = 0; place < whole.size(); ++place) {
    // Without its key there is no checksum, as in files of others.
    if (place >= key && place < key + std::string_view(kChecksumKey).size()) continue;
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x01);
    write_file_atomically(path_, damaged);
    ASSERT_NE(refusal(), "") << place;
  }
}

TEST_F(SafetensorsTest, a_file_that_was_cut_off_anywhere_is_refused) {
  write_sample();
  const std::string whole = read_file(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file_atomically(path_, whole.substr(0, size));
    ASSERT_NE(refusal(), "") << size;
  }
}

TEST_F(SafetensorsTest, what_is_no_file_is_refused) {
  EXPECT_THAT(message_of([&] { PositionedFile{folder_ / "nowhere"}; }), HasSubstr("No such file"));
  EXPECT_THAT(message_of([&] { PositionedFile{folder_}; }), HasSubstr("is no file"));
  EXPECT_THAT(message_of([&] {
                write_safetensors(path_, {{"x", "complex64", {1}, "12345678"}});
              }),
              HasSubstr("type complex64"));
}

}  // namespace
}  // namespace lockstep::data
