#include "lockstep/strategies/powersgd.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/strategies/tensor_buffer.h"

namespace lockstep::strategies {
namespace {

/// Calls of sum() from one measurement of what is left out to the next: it reads all gradients twice.
constexpr int64_t kMeasureEvery = 16;

/// Makes the columns of a contiguous fp32 matrix orthonormal (modified Gram-Schmidt); a column that depends
/// on those before it becomes zero.
void orthogonalize(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  auto* const values = matrix.mutable_data_ptr<float>();
  std::vector<std::vector<double>> basis(static_cast<size_t>(columns));
  const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  for (int64_t column = 0; column < columns; ++column) {
    std::vector<double>& own = basis[static_cast<size_t>(column)];
    for (int64_t row = 0; row < rows; ++row) own.push_back(values[row * columns + column]);
    const double before = product(own, own);
    for (int64_t other = 0; other < column; ++other) {
      const std::vector<double>& base = basis[static_cast<size_t>(other)];
      const double share = product(own, base);
      for (size_t i = 0; i < own.size(); ++i) own[i] -= share * base[i];
    }
    const double norm = std::sqrt(product(own, own));
    // What remains of a dependent column is rounding.
    const double scale = norm * norm > 1e-14 * before ? 1 / norm : 0;
    for (int64_t row = 0; row < rows; ++row) {
      double& value = own[static_cast<size_t>(row)];
      value *= scale;
      values[row * columns + column] = static_cast<float>(value);
    }
  }
}

/// Views of the parts of a flat buffer, one after the other.
class Parts {
 public:
  explicit Parts(int64_t count) : flat_(at::empty({count}, at::kFloat)) {}

  at::Tensor next(at::IntArrayRef shape) {
    const int64_t count = c10::multiply_integers(shape);
    at::Tensor part = flat_.narrow(0, begin_, count).view(shape);
    begin_ += count;
    return part;
  }
  const at::Tensor& flat() const { return flat_; }

 private:
  at::Tensor flat_;
  int64_t begin_ = 0;
};

}  // namespace

std::optional<at::Tensor> matrix_to_factor(const at::Tensor& tensor, int rank) {
  if (tensor.dim() < 2) return std::nullopt;
  int64_t outermost = 0;
  for (int64_t i = 1; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && (tensor.size(outermost) == 1 || tensor.stride(i) > tensor.stride(outermost)))
      outermost = i;
  }
  const int64_t rows = tensor.size(outermost), columns = tensor.numel() / rows;
  if (2 * rank * (rows + columns) > rows * columns) return std::nullopt;
  return tensor.as_strided({rows, columns}, {columns, 1});
}

at::Tensor first_factor(size_t index, int64_t columns, int rank) {
  return at::randn({columns, rank}, at::detail::createCPUGenerator(index));
}

PowerSgd::PowerSgd(const StrategyContext& context)
    : group_(context.host_communicator()), activities_(context.activities), rank_(context.options.powersgd) {}

PowerSgd::Memory& PowerSgd::memory_of(size_t index, const at::Tensor& matrix) {
  Memory& memory = memory_[index];
  if (!memory.error.defined()) {
    memory = {at::zeros(matrix.sizes(), matrix.options()), first_factor(index, matrix.size(1), rank_)};
  }
  return memory;
}

void PowerSgd::all_reduce(const at::Tensor& sums) {
  const double begin_s = now_s();
  const ActivityScope communicating(activities_, Activity::kCommunicating);
  group_.all_reduce(buffer_of(sums), comm::ReduceOp::kSum)->wait();
  waited_s_ += now_s() - begin_s;
  payload_bytes_ += static_cast<double>(sums.nbytes());
}

void PowerSgd::sum(const std::vector<IndexedGradient>& gradients) {
  const at::NoGradGuard no_grad;
  const double begin_s = now_s(), waited_before_s = waited_s_;
  struct Factored {
    at::Tensor gradient;
    Memory& memory;
    at::Tensor left = {}, right = {};
  };
  std::vector<Factored> matrices;
  std::vector<at::Tensor> whole;
  int64_t first_count = 0, second_count = 0;
  for (const auto& [index, gradient] : gradients) {
    if (const auto matrix = matrix_to_factor(gradient, rank_)) {
      matrices.push_back({*matrix, memory_of(index, *matrix)});
      first_count += matrix->size(0) * rank_;
      second_count += matrix->size(1) * rank_;
    } else {
      whole.push_back(gradient.as_strided({gradient.numel()}, {1}));
      first_count += gradient.numel();
    }
  }
  Parts first(first_count), second(second_count);
  const auto on_device = [](const at::Tensor& factor, const Factored& matrix) {
    return factor.to(matrix.gradient.device());
  };
  const bool measures = calls_++ % kMeasureEvery == 0;
  for (Factored& matrix : matrices) {
    // The memory takes M until what is left out is known.
    const at::Tensor& all = matrix.memory.error.add_(matrix.gradient);
    if (measures) factored_ += all.square().sum().item<double>();
    matrix.left = first.next({all.size(0), rank_});
    matrix.left.copy_(at::mm(all, on_device(matrix.memory.factor, matrix)));
  }
  std::vector<at::Tensor> sums;
  for (const at::Tensor& gradient : whole) {
    sums.push_back(first.next(gradient.sizes()));
    sums.back().copy_(gradient);
  }
  all_reduce(first.flat());
  for (size_t i = 0; i < whole.size(); ++i) whole[i].copy_(sums[i]);
  for (Factored& matrix : matrices) {
    orthogonalize(matrix.left);
    const at::Tensor& all = matrix.memory.error;
    matrix.right = second.next({all.size(1), rank_});
    matrix.right.copy_(at::mm(all.t(), on_device(matrix.left, matrix)));
  }
  if (second_count > 0) all_reduce(second.flat());
  for (Factored& matrix : matrices) {
    const at::Tensor left = on_device(matrix.left, matrix);
    const at::Tensor right = on_device(matrix.right, matrix).t();
    at::mm_out(matrix.gradient, left, right);
    matrix.memory.error.addmm_(left, right, 1, -1.0 / group_.size());
    if (measures) left_out_ += matrix.memory.error.square().sum().item<double>();
    // A column without a gradient keeps its direction.
    matrix.memory.factor = at::where(matrix.right.ne(0).any(0), matrix.right, matrix.memory.factor);
  }
  computing_s_ += now_s() - begin_s - (waited_s_ - waited_before_s);
}

int64_t PowerSgd::buffer_bytes() const {
  int64_t bytes = 0;
  for (const auto& [index, memory] : memory_)
    bytes += static_cast<int64_t>(memory.error.nbytes() + memory.factor.nbytes());
  return bytes;
}

std::vector<Measured> PowerSgd::measured() const {
  std::vector<Measured> all{{"payload_bytes", payload_bytes_}, {"compression_s", computing_s_}};
  if (factored_ > 0) {
    all.push_back({"share_left_out", std::sqrt(left_out_ / factored_), Measured::Over::kMean});
  }
  return all;
}

void PowerSgd::save(replica::State& state) const {
  for (const auto& [index, memory] : memory_) {
    state.add(fmt::format("powersgd_error.{}", index), memory.error);
    state.add(fmt::format("powersgd_factor.{}", index), memory.factor);
  }
}

void PowerSgd::restore(const replica::State& state, const std::vector<at::Tensor>& parameters) {
  for (const replica::NamedTensor& tensor : state.tensors) {
    if (!tensor.name.starts_with("powersgd_error.")) continue;
    const std::string number = tensor.name.substr(tensor.name.find('.') + 1);
    const size_t index = std::stoul(number);
    const auto matrix =
        index < parameters.size() ? matrix_to_factor(parameters[index].detach(), rank_) : std::nullopt;
    if (!matrix) throw Error("the state has low-rank memory of a parameter that is not factored");
    Memory& memory = memory_of(index, *matrix);
    state.copy_to(tensor.name, memory.error);
    state.copy_to("powersgd_factor." + number, memory.factor);
  }
}

}  // namespace lockstep::strategies
