#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::data {

enum class Split { kTraining, kEvaluation };

struct ReadOptions {
  /// Height and width of the sample.
  int size = 224;
  /// 1 or 3; other data are converted.
  int channels = 3;
  /// The seed of this sample's random crop and mirroring; without it the center is taken, unmirrored.
  std::optional<uint64_t> augmentation;
};

/// Mean and standard deviation of values in [0, 1], per channel, for normalization.
struct Normalization {
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};
};

/// Labelled images. All methods may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// "MNIST", "CIFAR-10", "images".
  virtual std::string kind() const = 0;
  virtual int64_t size() const = 0;
  /// Labels are below this.
  virtual int64_t classes() const = 0;
  virtual int64_t label(int64_t sample) const = 0;
  virtual Normalization normalization() const = 0;

  /// Writes one image to `out`: size x size pixels, channels interleaved. The same bits for the same options.
  /// Throws Error that names the file.
  virtual void read(int64_t sample, const ReadOptions& options, uint8_t* out) const = 0;
};

/// Opens the data set in `folder`. Its contents decide the kind:
///   train-images-idx3-ubyte, ...   MNIST's IDX files (t10k-* for evaluation), any size of images
///   data_batch_1.bin, ...          CIFAR-10's binary files (test_batch.bin for evaluation)
///   CLASS/IMAGE.jpg or .png        a folder per class; with `train` and `val` (or `test`) above them where
///                                  there is something to evaluate with
/// Throws ConfigError if none or several of these are there, and Error that names the file for damaged ones.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& folder, Split split);

}  // namespace lockstep::data
