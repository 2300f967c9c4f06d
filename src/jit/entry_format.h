// The bytes of a cache entry: a fixed header, metadata as JSON, the artifact. Everything is covered
// by a checksum, so that an entry is known to be whole before a byte of it runs.
#pragma once

#include <string>
#include <string_view>

#include "jit/disk_cache.h"

namespace trencadis::jit {

/// The file's bytes.
std::string encode_entry(const EntryInfo& info, const Artifact& artifact);

/// The inverse, for the entry that is to have the key. Damage is told in info.problem.
Entry decode_entry(std::string_view bytes, const std::string& key);

/// Bytes from the beginning of a file that hold every header and all but absurd metadata.
inline constexpr std::size_t kHeaderReadBytes = 16384;

/// The metadata alone, from the first bytes of a file of `file_bytes`; the artifact is not looked
/// at.
EntryInfo decode_info(std::string_view beginning, std::int64_t file_bytes, const std::string& key);

}  // namespace trencadis::jit
