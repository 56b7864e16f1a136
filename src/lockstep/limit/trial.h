#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "lockstep/limit/limit.h"
#include "lockstep/limit/pages.h"

namespace lockstep::limit {

/// The one processor that oneDNN computes on.
const dnnl::engine& processor();

/// One way to compute something: primitives, oneDNN's or our own, one after the other, on operands of their
/// own.
class Trial {
 public:
  using Operands = std::unordered_map<int, dnnl::memory>;

  /// An operand that gets small random values, or, for `ones`, values about 1 (variances, scales).
  dnnl::memory operand(const dnnl::memory::desc& desc, bool ones = false);

  /// One more primitive behind those that are there.
  template <typename Descriptor>
  void add(const Descriptor& descriptor, const dnnl::primitive& primitive, Operands operands) {
    note(descriptor.impl_info_str(), operands);
    steps_.push_back([primitive, operands = std::move(operands)](dnnl::stream& stream) {
      primitive.execute(stream, operands);
    });
  }
  /// One of our own. The operands have memory when it runs.
  void add(const std::string& implementation, std::function<void()> compute, const Operands& operands);

  /// Of all operands, each counted once for every primitive that has it.
  int64_t bytes() const { return bytes_; }
  const std::string& implementation() const { return implementation_; }
  /// Gives the operands that have none memory. Before the first run.
  void allocate();
  /// Gives the memory back. After the last run.
  void release();
  void run(dnnl::stream& stream) const;

  /// Whether it is the same computation as another.
  bool equals(const Trial& other) const;

 private:
  using Step = std::function<void(dnnl::stream& stream)>;

  void note(const std::string& implementation, const Operands& operands);

  struct Operand {
    dnnl::memory memory;
    bool ones;
  };

  std::vector<Pages> pages_;
  std::vector<Operand> operands_;
  std::vector<Step> steps_;
  std::string implementation_;
  int64_t bytes_ = 0;
};

/// A way to lay out images.
struct Layout {
  const char* name;
  dnnl::memory::format_tag tag;
};

/// For primitives that take what they are given, and for those that may be asked what they like best.
const std::vector<Layout>& plain_layouts();
const std::vector<Layout>& layouts_or_any();
/// Rows and columns of a linear layer.
const std::vector<Layout>& matrix_layouts();

/// Fills a trial for one layout; throws dnnl::error where there is no implementation.
using Prepare = std::function<void(Trial& trial, dnnl::memory::format_tag tag)>;

/// The best of the ways over the layouts. Throws Error where there is none.
PartLimit measure_best(Work work, Direction direction, const std::vector<Layout>& layouts,
                       const std::vector<Prepare>& ways, const LimitOptions& options);

}  // namespace lockstep::limit
