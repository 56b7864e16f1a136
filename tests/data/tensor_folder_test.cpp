#include "lockstep/data/tensor_folder.h"

#include <array>
#include <cstring>

#include <gmock/gmock.h>

#include "data/files.h"
#include "data/messages.h"
#include "data/tensor_bytes.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TensorFolderTest : public FolderTest {
 protected:
  std::string refusal() const {
    return message_of([&] { find_tensors(folder_, {"a", "x"}); });
  }
};

const std::string kPair =
    R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},)"
    R"( "b": {"dtype": "I64", "shape": [2], "data_offsets": [16, 32]}})";

TEST_F(TensorFolderTest, finds_tensors_of_both_formats_by_name) {
  write("labels.npy", npy("<i8", "3,", std::string(24, '\0')));
  write("more.safetensors", safetensors_with(kPair, std::string(32, '\0')));
  write("notes.txt", "not a tensor");
  write("file_names.npy", npy("<U2", "3,", std::string(24, 'a')));
  write("mean.npy", npy("<f4", "", "abcd"));
  const StoredTensors all = find_tensors(folder_, {"labels", "a", "b"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all.at("labels").type, "int64");
  EXPECT_THAT(all.at("labels").shape, ElementsAre(3));
  EXPECT_EQ(all.at("labels").bytes_per_sample(), 8U);
  EXPECT_EQ(all.at("a").type, "float32");
  EXPECT_THAT(all.at("a").shape, ElementsAre(2, 2));
  EXPECT_EQ(all.at("a").bytes_per_sample(), 8U);
  EXPECT_EQ(all.at("b").position, 8 + kPair.size() + 16);
  EXPECT_TRUE(has_tensor_files(folder_));
}

TEST_F(TensorFolderTest, reads_any_sample) {
  write("x.npy", npy("<i2", "3, 2", bytes_of<int16_t>({1, 2, 3, 4, 5, 6})));
  const SampleFile file(find_tensors(folder_, {"x"}).at("x"));
  std::array<int16_t, 2> pair{};
  for (const int64_t sample : {2, 0, 1}) {
    std::array<char, 4> bytes{};
    file.read(sample, bytes);
    std::memcpy(pair.data(), bytes.data(), bytes.size());
    EXPECT_THAT(pair, ElementsAre(2 * sample + 1, 2 * sample + 2));
  }
}

TEST_F(TensorFolderTest, says_when_a_file_shrinks_while_it_is_read) {
  write("x.npy", npy("<i2", "2,", "abcd"));
  const SampleFile file(find_tensors(folder_, {"x"}).at("x"));
  write("x.npy", "");
  std::array<char, 2> bytes{};
  EXPECT_THAT(message_of([&] { file.read(1, bytes); }), HasSubstr("has become shorter"));
}

TEST_F(TensorFolderTest, a_folder_without_tensors_is_refused) {
  EXPECT_FALSE(has_tensor_files(folder_));
  EXPECT_FALSE(has_tensor_files(folder_ / "nowhere"));
  EXPECT_THAT(refusal(), HasSubstr("holds no tensors; Files NAME.npy or *.safetensors"));
  EXPECT_THAT(message_of([&] { find_tensors(folder_ / "nowhere", {}); }), HasSubstr("there is no folder"));
}

TEST_F(TensorFolderTest, one_name_in_two_files_is_refused) {
  write("a.npy", npy("<f4", "1,", "abcd"));
  write("pair.safetensors", safetensors_with(kPair, std::string(32, '\0')));
  EXPECT_THAT(refusal(), HasSubstr("the tensor 'a' is in '"));
}

struct Damaged {
  std::string file;
  std::string bytes;
  std::string text;
};

std::string one_tensor(const std::string& facts) {
  return safetensors_with("{\"x\": {" + facts + "}}", "abcd");
}

TEST_F(TensorFolderTest, damaged_files_are_refused_with_their_name) {
  const std::string sound = npy("<f4", "1,", "abcd");
  const std::string longest = little_endian(uint64_t{1} << 63U, 8) + "{}";
  const std::vector<Damaged> cases{
      {"x.npy", "", "no file of NumPy's"},
      {"x.npy", "PK\x03\x04", "no file of NumPy's"},
      {"x.npy", sound.substr(0, 9), "the file ends in it"},
      {"x.npy", sound.substr(0, 40), "the file ends in it"},
      {"x.npy", sound.substr(0, sound.size() - 1), "has 3 bytes of values, but its header announces 4"},
      {"x.npy", "\x93NUMPY\x09" + sound.substr(7), "version 9"},
      {"x.npy", npy(">f4", "1,", "abcd"), "values of type >f4"},
      {"x.npy", npy("|O", "1,", "abcd"), "values of type |O"},
      {"x.npy", npy("", "1,", "abcd"), "values of type "},
      {"x.npy", npy("<f4", "", "abcd"), "has no samples"},
      {"x.npy", npy("<f4", "0,", ""), "has no samples"},
      {"x.npy", npy("<f4", "-1,", "abcd"), "a shape that no file can have"},
      {"x.npy", npy("<f4", "1, -1", "abcd"), "a shape that no file can have"},
      {"x.npy", npy("<f4", "4611686018427387904, 4", "abcd"), "a shape that no file can have"},
      {"x.npy", npy("<f4", "99999999999999999999", "abcd"), "a shape that is none"},
      {"x.npy", npy("<f4", "1, x", "abcd"), "a shape that is none"},
      {"x.npy", npy_with("{'descr': [('a', '<f4')]}", "abcd"), "no type"},
      {"x.npy", npy_with("{'descr': '<f4'}", "abcd"), "no order"},
      {"x.npy", npy_with("{'descr': '<f4', 'fortran_order': False}", "abcd"), "no shape"},
      {"x.npy", npy_with("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "abcd"),
       "first dimension"},
      {"x.npy", npy("<f4", std::string(5000, ' '), "abcd"), "longer than any description"},
      {"x.safetensors", "", "the file ends in it"},
      {"x.safetensors", longest, "longer than any description"},
      {"x.safetensors", safetensors_with("{", ""), "no description of tensors"},
      {"x.safetensors", safetensors_with("[]", ""), "holds no tensors"},
      {"x.safetensors", safetensors_with("[1]", ""), "no description of tensors"},
      {"x.safetensors", safetensors_with("{\"x\": 1}", ""), "no description of tensors"},
      {"x.safetensors", one_tensor(R"("dtype": "F8", "shape": [1], "data_offsets": [0, 4])"), "type F8"},
      {"x.safetensors", one_tensor(R"("dtype": "F32", "shape": [1])"), "no description of tensors"},
      {"x.safetensors", one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 8])"),
       "beyond the end"},
      {"x.safetensors", one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])"),
       "0 bytes of values"},
      {"x.safetensors", one_tensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 4])"), "announces 8"},
  };
  for (const Damaged& damaged : cases) {
    SCOPED_TRACE(damaged.text);
    write(damaged.file, damaged.bytes);
    const std::string said = refusal();
    EXPECT_THAT(said, HasSubstr(damaged.text));
    EXPECT_THAT(said, HasSubstr(folder_.string()));
    std::filesystem::remove(folder_ / damaged.file);
  }
}

}  // namespace
}  // namespace lockstep::data
