// Tokens in rows and in pages for kernels that move them: the cases, places that a seed draws, and
// tensors of a case's strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "contract/append.h"
#include "simt/launch.h"
#include "simt/strided.h"

namespace trencadis::simt {

/// What differs from case to case. Tensors are [n, H, D] and, in the order of a layout,
/// [pages, P, H, D].
struct Case {
  int page_size = 16;
  int heads = 2;
  int dim_qk = 32;
  int dim_vo = 24;
  bool hnd = false;
  std::int64_t row_padding = 0;  // elements between rows
  std::int64_t padding = 0;      // and between those of pages
  std::int64_t shift = 0;        // elements before the first, of both
  bool use_slots = false;
  bool indexed = true;  // false: request r's pages are indptr[r] + j
  int ctas = 3;
  std::uint64_t seed = 1;

  Layout rows() const { return {.padding = row_padding, .shift = shift}; }
  Layout pages() const {
    return {.order = hnd ? std::vector{0, 2, 1, 3} : std::vector{0, 1, 2, 3},
            .padding = padding,
            .shift = shift};
  }
  LaunchConfig launch_config() const { return {.ctas = ctas, .threads = 64, .seed = seed}; }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "P " << c.page_size << " H " << c.heads << " D " << c.dim_qk << ", " << c.dim_vo
             << (c.hnd ? " HND" : " NHD") << " padding " << c.row_padding << ", " << c.padding
             << " shift " << c.shift
             << (c.use_slots ? " slots"
                 : c.indexed ? " table"
                             : " contiguous")
             << " CTAs " << c.ctas << " seed " << c.seed;
}

/// Aligned and not, in either layout, of every page size, through each way to name a place.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  std::uint64_t seed = 0;
  for (const int page_size : {1, 3, 16})
    for (const bool hnd : {false, true})
      for (const std::int64_t odd : {0, 1, 8})
        all.push_back({.page_size = page_size,
                       .hnd = hnd,
                       .row_padding = seed % 2 == 0 ? 1 : 8,
                       .padding = odd,
                       .shift = odd,
                       .use_slots = (seed + 1) % 3 == 0,
                       .indexed = seed % 2 == 0,
                       .ctas = 1 + static_cast<int>(seed % 4),
                       .seed = ++seed});
  all.push_back({.heads = 1, .dim_qk = 576, .dim_vo = 0, .seed = 40});  // latent: keys alone
  all.push_back({.heads = 5, .dim_qk = 7, .dim_vo = 130, .seed = 41});
  // Aligned rows that are not whole runs.
  all.push_back({.dim_qk = 7, .dim_vo = 15, .row_padding = 1, .padding = 1, .seed = 43});
  all.push_back({.heads = 3, .dim_qk = 8, .dim_vo = 8, .ctas = 7, .seed = 42});
  return all;
}

/// Places of `count` tokens of a few requests, each in a page of its own; some are skipped.
/// Behind them, up to the capacity, are places that nobody may touch.
struct Places {
  static constexpr int kRequests = 4;
  static constexpr int kCount = 29;
  static constexpr int kCapacity = 37;

  explicit Places(const Case& c) {
    std::mt19937 random(static_cast<unsigned>(c.seed));
    const int pages_each = 12 / c.page_size + 1;
    pages = kRequests * pages_each + 3;
    std::vector<std::int32_t> permuted(static_cast<std::size_t>(pages));
    std::iota(permuted.begin(), permuted.end(), 0);
    if (c.indexed) std::shuffle(permuted.begin(), permuted.end(), random);
    indices = permuted;
    for (int r = 0; r <= kRequests; ++r) indptr.push_back(r * pages_each);

    std::vector<std::pair<int, int>> places;  // request, position
    for (int r = 0; r < kRequests; ++r)
      for (int at = 0; at < pages_each * c.page_size; ++at) places.emplace_back(r, at);
    std::shuffle(places.begin(), places.end(), random);
    for (int i = 0; i < kCapacity; ++i) {
      const auto [request, position] = places[static_cast<std::size_t>(i)];
      const int page =
          indices[static_cast<std::size_t>(request * pages_each + position / c.page_size)];
      const int skip = i % 7;  // 3: no request, 5: no position
      batch_indices.push_back(skip == 3 ? -1 : request);
      positions.push_back(skip == 5 ? -1 : position);
      const std::int64_t slot = std::int64_t{page} * c.page_size + position % c.page_size;
      slots.push_back(skip == 3 || skip == 5 ? -1 : slot);
    }
  }

  contract::TokenPlaces params(const Case& c) {
    contract::TokenPlaces p{};
    if (c.use_slots) {
      p.slots = slots.data();
    } else {
      p.batch_indices = batch_indices.data();
      p.positions = positions.data();
      p.indptr = indptr.data();
      p.indices = c.indexed ? indices.data() : nullptr;
    }
    p.num_tokens = &count;
    p.num_refused = &refused;
    p.capacity = kCapacity;
    p.num_requests = kRequests;
    p.num_pages = pages;
    p.page_size = c.page_size;
    return p;
  }

  /// visit(token, page, offset) for those that have a place.
  template <class Visit>
  void for_each(const Case& c, Visit visit) const {
    for (int i = 0; i < count; ++i) {
      const std::int64_t slot = slots[static_cast<std::size_t>(i)];
      if (slot >= 0) visit(i, slot / c.page_size, slot % c.page_size);
    }
  }

  int pages = 0;
  int count = kCount;
  int refused = 0;
  std::vector<std::int32_t> batch_indices, positions, indptr, indices;
  std::vector<std::int64_t> slots;
};

template <class Tag>
contract::TokenRows rows_of(Strided<Tag>& t) {
  return {t.data(), t.stride(0), t.stride(1)};
}
template <class Tag>
contract::PagedRows pages_of(Strided<Tag>& t) {
  return {t.data(), t.stride(0), t.stride(1), t.stride(2)};
}

/// Rows and pages of keys and values, filled where they are read.
template <class Rows, class Pages>
struct Tensors {
  Tensors(const Case& c, const Places& places)
      : k_rows({Places::kCapacity, c.heads, c.dim_qk}, c.rows()),
        v_rows({Places::kCapacity, c.heads, c.dim_vo}, c.rows()),
        k_pool({places.pages, c.page_size, c.heads, c.dim_qk}, c.pages()),
        v_pool({places.pages, c.page_size, c.heads, c.dim_vo}, c.pages()) {}

  contract::PagedTokens params(const Case& c, Places& places) {
    return {.k_rows = rows_of(k_rows),
            .v_rows = rows_of(v_rows),
            .k_pool = pages_of(k_pool),
            .v_pool = pages_of(v_pool),
            .places = places.params(c),
            .num_kv_heads = c.heads,
            .head_dim_qk = c.dim_qk,
            .head_dim_vo = c.dim_vo,
            .unused = 0};
  }

  Strided<Rows> k_rows, v_rows;
  Strided<Pages> k_pool, v_pool;
};

}  // namespace trencadis::simt
