#include "jit/entry_format.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

namespace trencadis::jit {
namespace {

using Json = nlohmann::json;

constexpr std::array<char, 8> kMagic = {'t', 'r', 'e', 'n', 'k', 'e', 'r', '1'};

// Little-endian, as every host that Linux and the engine run on.
struct Header {
  std::array<char, 8> magic;
  std::uint64_t metadata_bytes;
  std::uint64_t artifact_bytes;
  std::uint64_t metadata_checksum;
  std::uint64_t artifact_checksum;
  std::uint64_t header_checksum;  // of the fields above
};
static_assert(sizeof(Header) == 48);

std::uint64_t checksum(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t header_checksum(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, header_checksum));
}

std::string_view view(const Artifact& artifact) {
  return {reinterpret_cast<const char*>(artifact.data()), artifact.size()};
}

/// "" or what is wrong with a header that claims to begin a file of this size.
std::string header_problem(const Header& header, std::uint64_t file_bytes) {
  if (header.magic != kMagic) return "it is not a kernel of this cache format";
  if (header.header_checksum != header_checksum(header)) return "its header is damaged";
  const std::uint64_t expected = sizeof(Header) + header.metadata_bytes + header.artifact_bytes;
  if (file_bytes != expected) {
    return fmt::format("it has {} bytes, expected {}", file_bytes, expected);
  }
  return "";
}

/// "" or what is wrong. Fills everything in info but the key, bytes and problem.
std::string parse_metadata(std::string_view text, EntryInfo& info) {
  try {
    const Json metadata = Json::parse(text);
    info.name = metadata.at("name");
    info.compiler = metadata.at("compiler");
    info.architecture = metadata.at("architecture");
    info.source_key = metadata.at("source_key");
    info.library = metadata.at("library");
    const std::string key = metadata.at("key");
    return key == info.key ? "" : "it holds the kernel " + key;
  } catch (const Json::exception& error) {
    return std::string("its metadata cannot be read: ") + error.what();
  }
}

}  // namespace

std::string encode_entry(const EntryInfo& info, const Artifact& artifact) {
  const std::string metadata = Json{
      {"key", info.key},
      {"name", info.name},
      {"compiler", info.compiler},
      {"architecture", info.architecture},
      {"source_key", info.source_key},
      {"library", info.library}}.dump();
  Header header{.magic = kMagic,
                .metadata_bytes = metadata.size(),
                .artifact_bytes = artifact.size(),
                .metadata_checksum = checksum(metadata),
                .artifact_checksum = checksum(view(artifact)),
                .header_checksum = 0};
  header.header_checksum = header_checksum(header);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += metadata;
  bytes += view(artifact);
  return bytes;
}

EntryInfo decode_info(std::string_view beginning, std::int64_t file_bytes, const std::string& key) {
  EntryInfo info{.key = key, .bytes = file_bytes};
  Header header{};
  if (beginning.size() < sizeof header) {
    info.problem = fmt::format("it has {} bytes, less than a header", beginning.size());
    return info;
  }
  std::memcpy(&header, beginning.data(), sizeof header);
  info.problem = header_problem(header, static_cast<std::uint64_t>(file_bytes));
  if (!info.problem.empty()) return info;
  const std::string_view metadata =
      beginning.substr(sizeof header, static_cast<std::size_t>(header.metadata_bytes));
  if (metadata.size() != header.metadata_bytes || checksum(metadata) != header.metadata_checksum) {
    info.problem = "its metadata is damaged";
  } else {
    info.problem = parse_metadata(metadata, info);
  }
  return info;
}

Entry decode_entry(std::string_view bytes, const std::string& key) {
  Entry entry{.info = decode_info(bytes, static_cast<std::int64_t>(bytes.size()), key),
              .artifact = {}};
  if (!entry.info.problem.empty()) return entry;
  Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view code =
      bytes.substr(sizeof header + static_cast<std::size_t>(header.metadata_bytes));
  if (checksum(code) != header.artifact_checksum) {
    entry.info.problem = "its checksum does not match its code";
    return entry;
  }
  const auto* begin = reinterpret_cast<const std::byte*>(code.data());
  entry.artifact.assign(begin, begin + code.size());
  return entry;
}

}  // namespace trencadis::jit
