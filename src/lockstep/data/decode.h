#pragma once

#include "lockstep/data/jpeg.h"

namespace lockstep::data {

/// A JPEG or PNG image, as its first bytes tell. Throws Error that names `name` for what is neither, damaged,
/// truncated or too large.
Viewed decode(std::string_view bytes, const std::string& name, const DecodeOptions& options,
              const ChooseView& choose);

}  // namespace lockstep::data
