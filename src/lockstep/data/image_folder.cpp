#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/formats.h"
#include "lockstep/data/image.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

/// Statistics of ImageNet's training images.
constexpr Normalization kImageNetStatistics{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with(".");
}

bool is_image(const fs::directory_entry& entry) {
  const fs::path& path = entry.path();
  std::string ending = path.extension().string();
  for (char& c : ending) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  return !is_hidden(path) && (ending == ".jpg" || ending == ".jpeg" || ending == ".png");
}

/// Sorted names: the order in which a file system lists them differs between machines.
template <typename Wanted>
std::vector<std::string> names_in(const fs::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (wanted(entry)) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> folders_in(const fs::path& folder) {
  return names_in(folder, [](const auto& entry) { return entry.is_directory() && !is_hidden(entry.path()); });
}

std::vector<std::string> images_in(const fs::path& folder) {
  return names_in(folder, is_image);
}

fs::path root_of(const fs::path& folder, Split split) {
  // Class folders are either right here, all for training, or below `train` and `val` (or `test`).
  const bool parted = fs::is_directory(folder / "train");
  if (split == Split::kTraining) return parted ? folder / "train" : folder;
  for (const char* name : {"val", "test"}) {
    if (parted && fs::is_directory(folder / name)) return folder / name;
  }
  throw ConfigError(
      fmt::format("'{}' has no images to evaluate with", folder.string()),
      "Put the images to train with below a folder 'train', the others below 'val', with a folder "
      "per class in both.");
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(fs::path root, std::vector<std::string> classes)
      : root_(std::move(root)), classes_(std::move(classes)) {
    for (const std::string& name : folders_in(root_)) {
      // Classes have the numbers of the training images: one without evaluation images must not shift the
      // others.
      const auto place = std::ranges::find(classes_, name);
      if (place == classes_.end()) {
        throw Error(
            fmt::format("'{}' is a class that the training images do not have", (root_ / name).string()));
      }
      std::vector<std::string> images = images_in(root_ / name);
      if (images.empty()) {
        throw Error(
            fmt::format("'{}' has no image", (root_ / name).string()),
            "A folder is a class, and has files that end in .jpg, .jpeg or .png; remove it, or put some in.");
      }
      for (std::string& image : images) files_.push_back({place - classes_.begin(), std::move(image)});
    }
    if (files_.empty()) {
      throw ConfigError(fmt::format("'{}' has no folder of a class", root_.string()),
                        "Put its images below folders with the names of the training images' classes.");
    }
  }

  std::string kind() const override { return "images"; }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t classes() const override { return static_cast<int64_t>(classes_.size()); }
  int64_t label(int64_t sample) const override { return files_[static_cast<size_t>(sample)].label; }
  Normalization normalization() const override { return kImageNetStatistics; }

  void read(int64_t sample, const ReadOptions& options, uint8_t* out) const override {
    const File& file = files_[static_cast<size_t>(sample)];
    const fs::path path = root_ / classes_[static_cast<size_t>(file.label)] / file.name;
    const auto choose = [&](Dimensions image) {
      // Called once the header is read, before anything is decoded.
      if (!options.augmentation) return centre_view(image);
      Dice dice(*options.augmentation);
      return random_resized_view(image, dice);
    };
    const Viewed viewed =
        decode(read_file(path), path.string(), {.size = options.size, .channels = options.channels}, choose);
    resample(viewed.image, viewed.view, options.size, out);
  }

 private:
  struct File {
    int64_t label;
    std::string name;
  };

  fs::path root_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace

bool has_class_folders(const fs::path& folder) {
  const fs::path root = fs::is_directory(folder / "train") ? folder / "train" : folder;
  return std::ranges::any_of(folders_in(root), [&](const std::string& name) {
    return std::ranges::any_of(fs::directory_iterator(root / name), is_image);
  });
}

std::shared_ptr<const Dataset> open_image_folder(const fs::path& folder, Split split) {
  return std::make_shared<ImageFolder>(root_of(folder, split), folders_in(root_of(folder, Split::kTraining)));
}

}  // namespace lockstep::data
