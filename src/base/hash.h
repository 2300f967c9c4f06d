// XXH3 over lists of fields.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trencadis::base {

/// Hashes fields one after another. Each is preceded by its length, so that ("ab", "c") and
/// ("a", "bc") differ. Not for secrets: XXH3 withstands accidents, not adversaries.
class FieldHasher {
 public:
  FieldHasher() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

  FieldHasher& add(std::string_view field) {
    const std::uint64_t length = field.size();
    XXH3_128bits_update(state_.get(), &length, sizeof length);
    XXH3_128bits_update(state_.get(), field.data(), field.size());
    return *this;
  }

  /// 32 hex digits, most significant first.
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace trencadis::base
