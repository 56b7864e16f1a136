#pragma once

#include <string>

#include "lockstep/measure/compare.h"

namespace lockstep::measure {

/// "slower", or "slower within these launches" with one launch a side; the reason in brackets.
inline std::string verdict_words(const Comparison& row) {
  std::string words(verdict_text(row.verdict));
  if (row.differs() && row.within_launches) words += " within these launches";
  return row.reason.empty() ? words : words + " (" + row.reason + ")";
}

}  // namespace lockstep::measure
