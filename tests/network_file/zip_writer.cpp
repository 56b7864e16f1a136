#include "network_file/zip_writer.h"

#include <cstdint>
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "lockstep/network_file/stored_zip.h"

namespace lockstep::network_file {
namespace {

template <typename Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}
std::string u16(size_t number) {
  return bytes_of(static_cast<uint16_t>(number));
}
std::string u32(size_t number) {
  return bytes_of(static_cast<uint32_t>(number));
}

}  // namespace

Entries entries_of(const std::string& path) {
  const StoredZip zip(path);
  Entries entries;
  for (const char* name :
       {"extra/lockstep.json", "extra/lockstep.values", "models/b2_fp32.json",
        "data/constants/b2_fp32_constants_config.json", "data/weights/b2_fp32_weights_config.json"}) {
    entries[name] = zip.read(name, 1 << 30);
  }
  return entries;
}

std::string zip_of(const Entries& entries, const Oddity& oddity) {
  std::string archive, directory;
  for (const auto& [name, content] : entries) {
    const std::string full = oddity.folder + "/" + name;
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    const std::string common = u16(20) + u16(oddity.flags) + u16(oddity.method) + u32(0) + u32(checksum) +
                               u32(content.size()) + u32(content.size()) + u16(full.size()) + u16(0);
    directory +=
        "PK\x01\x02" + u16(20) + common + u16(0) + u16(0) + u16(0) + u32(0) + u32(archive.size()) + full;
    archive += "PK\x03\x04" + common + full + content;
  }
  return archive + directory + "PK\x05\x06" + u32(0) + u16(entries.size()) + u16(entries.size()) +
         u32(directory.size()) + u32(archive.size()) + u16(0);
}

TemporaryFile::TemporaryFile(const std::string& content) {
  static int number = 0;
  path_ =
      testing::TempDir() + "network." + std::to_string(getpid()) + "." + std::to_string(number++) + ".pt2";
  std::ofstream(path_, std::ios::binary) << content;
}

TemporaryFile::~TemporaryFile() {
  std::remove(path_.c_str());
}

}  // namespace lockstep::network_file
