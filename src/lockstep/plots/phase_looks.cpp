#include "lockstep/plots/phase_looks.h"

#include <algorithm>
#include <string>

#include "lockstep/plots/text.h"

namespace lockstep::plots {

const std::array<PhaseLook, 7>& phase_looks() {
  using Look = LegendEntry::Sample;
  using Times = results::PhaseTimes;
  // Computation is cool and plain, communication warm and hatched, so that losses stand out.
  static const std::array<PhaseLook, 7> kLooks{{
      {"input", &Times::input_s, Colour::kPurple, Look::kSwatch, Colour::kOnBright},
      {"forward", &Times::forward_s, Colour::kSky, Look::kSwatch, Colour::kOnBright},
      {"backward", &Times::backward_s, Colour::kBlue, Look::kSwatch, Colour::kOnBlue},
      {"waiting for others", &Times::waiting_s, Colour::kVermillion, Look::kRising, Colour::kOnBright},
      {"transfer", &Times::transfer_s, Colour::kOrange, Look::kFalling, Colour::kOnBright},
      {"optimizer", &Times::optimizer_s, Colour::kGreen, Look::kSwatch, Colour::kOnBright},
      {"other", &Times::other_s, Colour::kGrey, Look::kSwatch, Colour::kOnBright},
  }};
  return kLooks;
}

std::vector<const PhaseLook*> phases_in(const std::vector<const results::PhaseTimes*>& means) {
  std::vector<const PhaseLook*> found;
  for (const PhaseLook& look : phase_looks()) {
    const auto takes_time = [&](const results::PhaseTimes* mean) { return positive(mean->*look.seconds); };
    if (std::ranges::any_of(means, takes_time)) found.push_back(&look);
  }
  return found;
}

LegendEntry legend_entry(const PhaseLook& look) {
  return {std::string(look.name), {.colour = look.fill}, look.sample};
}

void draw_phase(Canvas& canvas, const Box& box, const PhaseLook& look, std::string_view tooltip) {
  // The hatch lies above and lets the pointer through to the tooltip.
  canvas.rect(box, look.fill, 1, 0, tooltip);
  if (look.sample != LegendEntry::Sample::kSwatch)
    canvas.hatch(box, look.sample == LegendEntry::Sample::kRising);
}

}  // namespace lockstep::plots
