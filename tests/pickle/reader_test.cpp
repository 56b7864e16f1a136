#include "lockstep/pickle/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::pickle {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// As Python's pickle.dumps(VALUE, protocol=2) writes it.
const Value& value_of(const std::string& text) {
  static Pickle pickle;
  pickle = read("\x80\x02"s + text);
  return *pickle.root;
}

template <typename T>
T get(const std::string& text) {
  return std::get<T>(value_of(text).content);
}

TEST(PickleTest, plain_values_are_what_python_wrote) {
  EXPECT_EQ(get<int64_t>("K\x07."), 7);
  EXPECT_EQ(get<int64_t>("M\x2c\x01."), 300);
  EXPECT_EQ(get<int64_t>("J\xfd\xff\xff\xff."), -3);
  EXPECT_EQ(get<int64_t>("\x8a\x05\x00\x00\x00\x00\x01."s), int64_t{1} << 32U);
  EXPECT_EQ(get<int64_t>("\x8a\x05\x00\x00\x00\x00\xff."s), -(int64_t{1} << 32U));
  EXPECT_EQ(get<double>("G?\xf0\x00\x00\x00\x00\x00\x00."s), 1.0);
  EXPECT_EQ(get<std::string>("X\x03\x00\x00\x00"
                             "abcq\x00."s),
            "abc");
  EXPECT_TRUE(get<bool>("\x88."));
  EXPECT_EQ(value_of("N.").content.index(), 0U);
}

// pickle.dumps({"a": [1, (2, 3)], "b": None}, protocol=2)
TEST(PickleTest, what_is_made_of_values_is_kept_in_order) {
  const auto dict = get<Dict>(
      "}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01K\x02K\x03\x86q\x03"
      "eX\x01\x00\x00\x00"
      "bq\x04Nu."s);
  ASSERT_EQ(dict.size(), 2U);
  EXPECT_EQ(std::get<std::string>(dict[0].first->content), "a");
  EXPECT_EQ(std::get<std::string>(dict[1].first->content), "b");
  const List list = std::get<List>(dict[0].second->content);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(std::get<List>(list[1]->content).size(), 2U);
}

TEST(PickleTest, what_is_cut_off_is_refused) {
  const std::string whole =
      "\x80\x02}q\x00X\x01\x00\x00\x00"
      "aq\x01K\x01s."s;
  ASSERT_EQ(refusal(whole), "accepted");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(refusal(whole.substr(0, size)), "it ends in the middle") << size;
  }
}

TEST(PickleTest, nothing_but_data_is_taken) {
  EXPECT_THAT(refusal("cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."s), HasSubstr("a posix.system"));
  EXPECT_THAT(refusal("cposix\nsystem\n."), HasSubstr("a posix.system"));
  EXPECT_THAT(refusal("](cposix\nsystem\ne."), HasSubstr("a posix.system"));
  EXPECT_THAT(refusal("}K\x01"
                      "cposix\nsystem\ns."),
              HasSubstr("a posix.system"));
  EXPECT_THAT(refusal("K\x01K\x02o."), HasSubstr("the instruction 0x6f"));
}

TEST(PickleTest, more_than_it_holds_is_refused) {
  for (const std::string text : {".", "a.", "K\x01s.", "e.", "t.", "]K\x01u.", "(.", "K\x01(a.", "h\x05."}) {
    EXPECT_THAT(refusal(text), HasSubstr("it asks for")) << text;
  }
}

TEST(PickleTest, what_contains_itself_is_refused) {
  EXPECT_THAT(refusal("]q\x01h\x01"
                      "a."),
              HasSubstr("contains itself"));
  EXPECT_THAT(refusal("}q\x01X\x01\x00\x00\x00"
                      "ah\x01s."s),
              HasSubstr("contains itself"));
}

TEST(PickleTest, levels_have_an_end_and_what_is_shared_is_read_once) {
  const auto nested = [](int levels, const std::string& below) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += "]";
    text += below;
    for (int i = 0; i < levels; ++i) text += "a";
    return text + ".";
  };
  EXPECT_EQ(refusal(nested(kMostLevels - 1, "N")), "accepted");
  EXPECT_THAT(refusal(nested(kMostLevels, "N")), HasSubstr("more than 100 levels"));
  EXPECT_THAT(refusal(nested(1'000'000, "N")), HasSubstr("more than 100 levels"));
  // 60 levels once on their own, then below 60 others.
  const std::string deep = "](]q\x01" + std::string(59, ']') + std::string(59, 'a');
  EXPECT_EQ(refusal(deep + "h\x01"
                           "e."),
            "accepted");
  EXPECT_THAT(refusal(deep + std::string(60, ']') + "h\x01" + std::string(60, 'a') + "e."),
              HasSubstr("more than 100 levels"));
  // Each of 90 lists has the one before it twice: 2 to the power of 90 values, were they not shared.
  std::string shared = "](]q\x01";
  for (int i = 0; i < 90; ++i)
    shared +=
        "](h\x01h\x01"
        "eq\x01";
  EXPECT_EQ(refusal(shared + "e."), "accepted");
}

/// A float tensor on a storage of 6 elements.
std::string tensor(int offset, const std::string& sizes, const std::string& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(("
         "X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
         "0X\x03\x00\x00\x00"
         "cpuK\x06tQ"
         "K"s +
         static_cast<char>(offset) + "(" + sizes + "t(" + strides + "t\x89}tR.";
}

TEST(PickleTest, a_tensor_lies_in_its_storage) {
  const auto found = get<Tensor>(tensor(1, "K\x02K\x02", "K\x03K\x01"));
  EXPECT_EQ(found.type, "torch.FloatStorage");
  EXPECT_EQ(found.key, "0");
  EXPECT_EQ(found.elements, 6);
  EXPECT_EQ(found.sizes, (std::vector<int64_t>{2, 2}));
  const std::string larger = "a tensor larger than its storage";
  EXPECT_THAT(refusal(tensor(2, "K\x02K\x02", "K\x03K\x01")), HasSubstr(larger));
  EXPECT_THAT(refusal(tensor(0, "K\x02", "K\x03K\x01")), HasSubstr(larger));
  EXPECT_THAT(refusal(tensor(0, "J\xff\xff\xff\xff", "K\x01")), HasSubstr(larger));
  EXPECT_THAT(refusal(tensor(0, "K\x02", "J\xff\xff\xff\xff")), HasSubstr(larger));
  const std::string huge = "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"s;
  EXPECT_THAT(refusal(tensor(0, huge + huge, huge + huge)), HasSubstr(larger));
  // Nothing of it exists, and yet it has a size that no one can multiply.
  EXPECT_THAT(refusal(tensor(0, "K\x00"s + huge + huge, "K\x01K\x01K\x01")), HasSubstr(larger));
  EXPECT_EQ(refusal(tensor(0, "K\x00"s, "K\x01")), "accepted");
}

}  // namespace
}  // namespace lockstep::pickle
