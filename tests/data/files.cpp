#include "data/files.h"

#include <fstream>

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

void append_number(std::string& bytes, unsigned number) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes.push_back(static_cast<char>(number >> shift));
}

}  // namespace

void FolderTest::write(const std::string& name, const std::string& bytes) const {
  fs::create_directories((folder_ / name).parent_path());
  std::ofstream(folder_ / name, std::ios::binary) << bytes;
}

std::string idx_images(int count, int width, int height) {
  std::string bytes;
  for (const int number : {0x803, count, height, width}) append_number(bytes, static_cast<unsigned>(number));
  for (int i = 0; i < count; ++i) {
    for (int p = 0; p < width * height; ++p) bytes.push_back(static_cast<char>((i * 7 + p) % 256));
  }
  return bytes;
}

std::string idx_labels(int count, int classes) {
  std::string bytes;
  for (const int number : {0x801, count}) append_number(bytes, static_cast<unsigned>(number));
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % classes));
  return bytes;
}

std::string cifar10_records(int count, int first) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>((first + i) % 10));
    for (const int base : {10, 20, 30}) {
      for (int p = 0; p < 1024; ++p) bytes.push_back(static_cast<char>(base + i + p / 32));
    }
  }
  return bytes;
}

}  // namespace lockstep::data
