#pragma once

#include <CLI/App.hpp>

#include "lockstep/results/tables/render.h"

namespace lockstep::cli {

/// Adds --style, --markdown and --epoch-size: how tables are written.
void add_style_flags(CLI::App& command, results::RenderOptions& how, const std::string& group = "Options");

/// Prints everything about a record: header (unless it was printed before), tables, closing words.
void print_record(const results::RunRecord& record, const results::RenderOptions& how, bool with_header);

/// Prints how a record was measured: versions, machines, warnings.
void print_header(const results::RunRecord& record, const results::RenderOptions& how);

}  // namespace lockstep::cli
