// The archive around a network: each damaged file is refused with its name, or read as what it was.

#include "lockstep/models/network_archive.h"

#include <fstream>

#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

#include "scratch_folder.h"

namespace lockstep::models {
namespace {

using testing::HasSubstr;

const std::string kGood = LOCKSTEP_REFERENCES "/small.pt2";

/// A file that exists as long as the object.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& content) { std::ofstream(path(), std::ios::binary) << content; }
  std::string path() const { return folder_.path("network.pt2"); }

 private:
  test::ScratchFolder folder_;
};

/// Description and values of a file in one text.
std::string content_of(const std::string& path) {
  const network_file::NetworkFile file = read_network_file(path);
  std::string content = file.name + file.hash;
  for (const auto* tensors : {&file.parameters, &file.buffers}) {
    for (const network_file::Tensor& tensor : *tensors) {
      std::string values(tensor.bytes, '\0');
      char* const place = values.data();
      read_values(file, {&tensor, 1}, {&place, 1});
      content += tensor.name + values;
    }
  }
  return content;
}

void expect_refused(const std::string& path, const std::string& reason) {
  EXPECT_THAT([&] { content_of(path); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr(path), HasSubstr(reason))));
}

TEST(NetworkArchiveTest, files_of_other_kinds_are_refused_with_their_name) {
  expect_refused("/nowhere/mine.pt2", "No such file");
  expect_refused(testing::TempDir(), "not a regular file");
  expect_refused(LOCKSTEP_REFERENCES "/bad_archive.pt2", "not a ZIP archive");
  for (const std::string& text : {std::string(), std::string("resnet50"), read_file(kGood).substr(0, 40000)})
    expect_refused(ScratchFile(text).path(), "not a ZIP archive");
  std::string other;
  caffe2::serialize::PyTorchStreamWriter writer([&other](const void* data, size_t size) {
    other.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", "x", 1);
  writer.writeEndOfFile();
  expect_refused(ScratchFile(other).path(), "not one of lockstep");
}

TEST(NetworkArchiveTest, damaged_content_is_named) {
  std::string bytes = read_file(kGood);
  bytes.at(bytes.find("\"parameters\"")) ^= 1;
  expect_refused(ScratchFile(bytes).path(), "'extra/lockstep.json' is damaged");
}

TEST(NetworkArchiveTest, a_damaged_byte_is_refused_or_changes_nothing) {
  const std::string bytes = read_file(kGood);
  const std::string content = content_of(kGood);
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); at += 397) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const ScratchFile file(damaged);
    try {
      EXPECT_EQ(content_of(file.path()), content) << at;
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lockstep::models
