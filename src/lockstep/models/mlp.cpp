#include "lockstep/models/mlp.h"

#include <vector>

#include <fmt/format.h>

#include "lockstep/kernels/linear.h"

namespace lockstep::models {
namespace {

constexpr int64_t kInputs = 3 * 32 * 32;

class Mlp : public Model {
 public:
  Mlp(const ModelOptions& options, const std::vector<int64_t>& widths)
      : Model(replica::Parameters(options.seed, options.memory_format)),
        hidden_(build_hidden(parameters_, widths)),
        last_(parameters_, fmt::format("fc{}", widths.size() + 1), widths.back(), kCifar10Classes) {}

  Output forward(const at::Tensor& images, const kernels::Context& context) override {
    at::Tensor x = images.flatten(1);
    for (const kernels::LinearRelu& layer : hidden_) x = layer(x, context);
    return {last_(x, context)};
  }

 private:
  static std::vector<kernels::LinearRelu> build_hidden(replica::Parameters& parameters,
                                                       const std::vector<int64_t>& widths) {
    std::vector<kernels::LinearRelu> layers;
    int64_t in = kInputs;
    for (const int64_t out : widths) {
      layers.emplace_back(parameters, fmt::format("fc{}", layers.size() + 1), in, out);
      in = out;
    }
    return layers;
  }

  std::vector<kernels::LinearRelu> hidden_;
  kernels::Linear last_;
};

}  // namespace

std::unique_ptr<Model> create_mlp(const ModelOptions& options) {
  return std::make_unique<Mlp>(options, std::vector<int64_t>{512, 512, 512});
}

std::unique_ptr<Model> create_trivial(const ModelOptions& options) {
  return std::make_unique<Mlp>(options, std::vector<int64_t>{16});
}

}  // namespace lockstep::models
