// Whole files, read and written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trencadis::base {

/// Throws Error(io) with the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// Readers see the old bytes or all of the new ones: a temporary file beside `path`, flushed to
/// disk and renamed over it. The directory must exist. Throws Error(io); nothing is left behind.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

}  // namespace trencadis::base
