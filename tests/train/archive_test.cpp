#include "lockstep/train/training/archive.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/train/training/state_dict.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

std::string python_file() {
  return LOCKSTEP_GOLDEN "/../references/state_dict.pt";
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string archive_refusal(const std::string& bytes) {
  try {
    from_archive(bytes, "'a.pt'");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

Dict sample() {
  Dict inner = make_dict();
  inner.insert("text", "words");
  List list = make_list();
  list.push_back(inner);
  list.push_back(int64_t{7});
  Dict dict = make_dict();
  dict.insert("tensor", at::arange(6, at::kFloat).reshape({2, 3}));
  dict.insert("number", at::arange(3, at::kLong).select(0, 2));
  dict.insert("nothing", at::empty({0, 4}, at::kFloat));
  dict.insert("small", int64_t{-3});
  dict.insert("large", int64_t{1} << 62);
  dict.insert("most_negative", std::numeric_limits<int64_t>::min());
  dict.insert("real", 0.1);
  dict.insert("list", list);
  return dict;
}

TEST(ArchiveTest, what_is_written_is_read_again) {
  const Dict found = from_archive(to_archive(sample()), "it").toGenericDict();
  ASSERT_EQ(found.size(), sample().size());
  EXPECT_TRUE(found.at("tensor").toTensor().equal(sample().at("tensor").toTensor()));
  EXPECT_EQ(found.at("number").toTensor().item<int64_t>(), 2);
  EXPECT_EQ(found.at("number").toTensor().dim(), 0);
  EXPECT_EQ(found.at("nothing").toTensor().sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(found.at("small").toInt(), -3);
  EXPECT_EQ(found.at("large").toInt(), int64_t{1} << 62);
  EXPECT_EQ(found.at("most_negative").toInt(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(found.at("real").toDouble(), 0.1);
  EXPECT_EQ(found.at("list").toListRef()[0].toGenericDict().at("text").toStringRef(), "words");
  EXPECT_EQ(found.at("list").toListRef()[1].toInt(), 7);
}

TEST(ArchiveTest, the_same_content_has_the_same_bytes) {
  EXPECT_EQ(to_archive(sample()), to_archive(sample()));
}

TEST(ArchiveTest, a_state_dict_that_python_saved_is_read) {
  const std::vector<replica::NamedTensor> values = read_state_dict(python_file());
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("conv.weight", "conv.bias", "bn.weight", "bn.bias",
                                          "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"));
  EXPECT_TRUE(values[0].value.equal(at::arange(18, at::kFloat).reshape({2, 1, 3, 3})));
  EXPECT_EQ(values[1].value[1].item<float>(), -0.25F);
  // A batch of ones: the convolution gives the sum of its weights and the bias, and a tenth of that is kept.
  EXPECT_FLOAT_EQ(values[4].value[0].item<float>(), 0.1F * (36 + 0.5F));
  EXPECT_EQ(values[6].value.item<int64_t>(), 1);
}

// Every length, so that each part of the format ends in the middle once.
TEST(ArchiveTest, a_file_cut_off_anywhere_is_refused) {
  for (const std::string& whole : {bytes_of(python_file()), to_archive(sample())}) {
    ASSERT_GT(whole.size(), 1000U);
    ASSERT_EQ(archive_refusal(whole), "accepted");
    for (size_t size = 0; size < whole.size(); size += 7) {
      ASSERT_THAT(archive_refusal(whole.substr(0, size)),
                  HasSubstr("'a.pt' is cut off, damaged, or was not written"))
          << size;
    }
  }
}

// Whatever the damage does: an error of lockstep, or values.
TEST(ArchiveTest, a_damaged_file_does_no_harm) {
  const std::string whole = bytes_of(python_file());
  for (size_t place = 0; place < whole.size(); ++place) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    archive_refusal(damaged);
  }
}

TEST(ArchiveTest, a_foreign_file_is_refused) {
  EXPECT_THAT(archive_refusal("model: resnet18\n"), HasSubstr("was not written by torch.save"));
  EXPECT_THAT(archive_refusal(""), HasSubstr("was not written by torch.save"));
}

TEST(ArchiveTest, nothing_but_data_is_taken) {
  // A call of os.system, as pickle.dumps writes it.
  const std::string whole = bytes_of(python_file());
  const std::string harmless = "torch._utils\n_rebuild_tensor_v2\n";
  std::string evil = "posix\nsystem\n";
  evil.insert(0, harmless.size() - evil.size(), 'x');
  std::string changed = whole;
  changed.replace(changed.find(harmless), harmless.size(), evil);
  EXPECT_THAT(archive_refusal(changed), HasSubstr("posix.system"));
}

}  // namespace
}  // namespace lockstep::train
