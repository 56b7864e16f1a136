#include "lockstep/strategies/fusion.h"

#include <algorithm>

namespace lockstep::strategies {

Fusion::Fusion(const replica::FlatMemory& memory, int64_t cap_bytes, bool fixed)
    : memory_(memory), cap_(cap_bytes / 4) {
  if (!fixed) return;
  fixed_ = pack(memory.order());
  pack_of_.resize(memory.order().size());
  for (size_t i = 0; i < fixed_.size(); ++i) {
    for (const size_t tensor : fixed_[i].tensors) pack_of_[tensor] = i;
    missing_.push_back(fixed_[i].tensors.size());
  }
}

std::vector<replica::Range> Fusion::packs_of(const std::vector<size_t>& tensors) {
  std::vector<replica::Range> full;
  if (fixed_.empty()) {
    std::vector<size_t> in_order = tensors;
    std::ranges::sort(in_order, {}, [this](size_t tensor) { return memory_.range_of(tensor).begin; });
    for (const Pack& pack : pack(in_order)) full.push_back(pack.range);
    return full;
  }
  for (const size_t tensor : tensors) {
    const size_t pack = pack_of_[tensor];
    if (--missing_[pack] > 0) continue;
    full.push_back(fixed_[pack].range);
    missing_[pack] = fixed_[pack].tensors.size();
  }
  return full;
}

std::vector<Fusion::Pack> Fusion::pack(const std::vector<size_t>& tensors) const {
  std::vector<Pack> packs;
  for (const size_t tensor : tensors) {
    const replica::Range range = memory_.range_of(tensor);
    const bool fits = !packs.empty() && packs.back().range.end == range.begin &&
                      packs.back().range.count() + range.count() <= cap_;
    if (!fits) packs.push_back({{range.begin, range.begin}, {}});
    packs.back().range.end = range.end;
    packs.back().tensors.push_back(tensor);
  }
  return packs;
}

}  // namespace lockstep::strategies
