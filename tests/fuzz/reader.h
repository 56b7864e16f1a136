#pragma once

#include <string_view>

/// Readers of files that others wrote. Each reads `text` as a user's file and does with it all that a user
/// would: shows it, draws it, writes it again. False when the reader refuses it (an lockstep::Error), which
/// is as good. Throws whatever else is thrown, and std::logic_error for a result that must not be; either is
/// a mistake in lockstep.
namespace lockstep::fuzz {

bool reads_batch_message(std::string_view text);
bool reads_collectives_text(std::string_view text);
bool reads_image_file(std::string_view text);
bool reads_network_file(std::string_view text);
bool reads_result_file(std::string_view text);
bool reads_sample_file(std::string_view text);
bool reads_tensor_file(std::string_view text);
bool reads_trace_file(std::string_view text);

}  // namespace lockstep::fuzz
