#pragma once

#include "lockstep/results/tables/row_tables.h"

namespace lockstep::fuzz {

/// Makes the report page and every chart as a file. Throws std::logic_error where one is not well-formed.
void draw_all(lockstep::results::Sources sources);

}  // namespace lockstep::fuzz
