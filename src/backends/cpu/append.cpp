#include "backends/cpu/append.h"

#include <utility>
#include <vector>

#include "backends/cpu/host_tensor.h"
#include "backends/cpu/row_copy.h"
#include "base/check.h"
#include "variant/math.h"

namespace trencadis::cpu {
namespace {

/// A token's place in the pool; page < 0: none.
struct Place {
  std::int64_t page = -1;
  std::int64_t offset = 0;
};

class PlaceFinder {
 public:
  explicit PlaceFinder(const HostPlaces& places) : p_(places) {}

  Place find(std::size_t i) { return p_.by_slot ? by_slot(i) : by_position(i); }

  std::int32_t refused() const { return refused_; }

 private:
  template <class... Args>
  Place refuse(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
    if (p_.num_refused == nullptr) base::fail(kind, text, std::forward<Args>(args)...);
    ++refused_;
    return {};
  }

  Place by_slot(std::size_t i) {
    const std::int64_t slot = p_.slots[i];
    if (slot < 0) return {};
    if (slot / p_.page_size >= p_.pages)
      return refuse(ErrorKind::invalid_argument,
                    "slots[{}] is {}, expected less than the {} tokens of the pool", i, slot,
                    p_.pages * p_.page_size);
    return {.page = slot / p_.page_size, .offset = slot % p_.page_size};
  }

  Place by_position(std::size_t i) {
    const std::int64_t request = p_.batch_indices[i];
    const std::int64_t position = p_.positions[i];
    if (request < 0 || position < 0) return {};
    const auto requests = static_cast<std::int64_t>(p_.indptr.size()) - 1;
    if (request >= requests)
      return refuse(ErrorKind::invalid_argument,
                    "batch_indices[{}] is {}, expected less than the {} requests", i, request,
                    requests);
    const std::int64_t begin = p_.indptr[static_cast<std::size_t>(request)];
    const std::int64_t owned = blocks_of(request, begin);
    const std::int64_t block = position / p_.page_size;
    if (block >= owned)
      return refuse(
          ErrorKind::out_of_capacity,
          "positions[{}] is {} and needs page {} of request {}, which has {} pages of {} tokens", i,
          position, block, request, owned, p_.page_size);
    const std::int64_t entry = begin + block;
    const std::int64_t page = p_.indexed ? p_.indices[static_cast<std::size_t>(entry)] : entry;
    if (page < 0 || page >= p_.pages)
      return refuse(ErrorKind::invalid_argument,
                    "{}[{}] is {}, expected a page of the pool, 0 to {}",
                    p_.indexed ? "indices" : "block", entry, page, p_.pages - 1);
    return {.page = page, .offset = position % p_.page_size};
  }

  /// A table that is wrong is an error even where refused tokens are counted.
  std::int64_t blocks_of(std::int64_t request, std::int64_t begin) const {
    const std::int64_t end = p_.indptr[static_cast<std::size_t>(request) + 1];
    base::check(begin >= 0 && end >= begin,
                "indptr[{}] is {} and indptr[{}] is {}, expected 0 or more, ascending", request,
                begin, request + 1, end);
    base::check(!p_.indexed || end <= static_cast<std::int64_t>(p_.indices.size()),
                "indptr[{}] is {}, expected at most the {} entries of indices", request + 1, end,
                p_.indices.size());
    return end - begin;
  }

  const HostPlaces& p_;
  std::int32_t refused_ = 0;
};

/// All are found before anything is written.
std::vector<Place> find_all(const HostPlaces& places) {
  PlaceFinder finder(places);
  std::vector<Place> found(places.tokens);
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = finder.find(i);
  if (places.num_refused != nullptr)
    *places.num_refused = count_on(*places.num_refused, finder.refused());
  return found;
}

/// Keys with their leading elements rotated. The angles of a token serve all its heads.
class RotatedKeys {
 public:
  RotatedKeys(const HostRope& rope, const TensorView& rows)
      : rope_(rope),
        rows_(rows),
        turns_(static_cast<std::size_t>(rope.dim / 2)),
        values_(2 * turns_.size()) {}

  void turn_to(std::size_t token) {
    const auto position = static_cast<int>(rope_.positions[token]);
    for (std::size_t pair = 0; pair < turns_.size(); ++pair)
      turns_[pair] = variant::rotation(position, rope_.inv_freq[pair]);
  }

  std::span<float> rotated(const char* row) {
    load_row(rows_, row, values_);
    for (std::size_t pair = 0; pair < turns_.size(); ++pair) {
      float& x = values_[rope_.interleaved ? 2 * pair : pair];
      float& y = values_[rope_.interleaved ? 2 * pair + 1 : pair + turns_.size()];
      const variant::Rotation turn = turns_[pair];
      const float rotated_x = x * turn.cos - y * turn.sin;
      y = y * turn.cos + x * turn.sin;
      x = rotated_x;
    }
    return values_;
  }

 private:
  const HostRope& rope_;
  const TensorView& rows_;
  std::vector<variant::Rotation> turns_;
  std::vector<float> values_;
};

/// One of keys and values, from rows into pages.
void append_rows(const TensorView& rows, const PagedRows& pages, const std::vector<Place>& places,
                 const HostRope& rope) {
  RowCopy copy(rows, pages.tensor);
  RotatedKeys keys(rope, rows);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].page < 0) continue;
    if (rope.dim > 0) keys.turn_to(i);
    for (std::int64_t h = 0; h < pages.heads; ++h) {
      const char* from = at(rows, static_cast<std::int64_t>(i), h);
      char* to = pages.row(places[i].page, places[i].offset, h);
      if (rope.dim > 0) copy.store(keys.rotated(from), to);
      copy.copy(from, to, rope.dim);
    }
  }
}

void gather_rows(const PagedRows& pages, const TensorView& rows, const std::vector<Place>& places) {
  RowCopy copy(pages.tensor, rows);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].page < 0) continue;
    for (std::int64_t h = 0; h < pages.heads; ++h)
      copy.copy(pages.row(places[i].page, places[i].offset, h),
                at(rows, static_cast<std::int64_t>(i), h));
  }
}

}  // namespace

HostPlaces host_places(const TokenPlaces& places, const KvPool& pool) {
  HostPlaces host;
  host.batch_indices = index_span(places.batch_indices);
  host.positions = index_span(places.positions);
  host.indptr = index_span(places.indptr);
  host.indices = index_span(places.indices);
  host.indexed = places.indices.defined();
  host.slots = index_span(places.slots);
  host.by_slot = places.slots.defined();
  host.tokens = static_cast<std::size_t>(count_of(
      "num_tokens", places.num_tokens,
      static_cast<std::int64_t>(host.by_slot ? host.slots.size() : host.batch_indices.size())));
  host.page_size = PagedRows(pool.k, pool.layout).page_size;
  host.pages = pool.k.size(0);
  host.num_refused = places.num_refused.data_as<std::int32_t>();
  return host;
}

HostRope host_rope(const AppendRope& rope, const TokenPlaces& places, const KvPool& pool) {
  return {.inv_freq = rope.inv_freq.data_as<float>(),
          .positions = index_span(rope.positions.defined() ? rope.positions : places.positions),
          .dim = rope.dim == 0 ? pool.k.size(3) : rope.dim,
          .interleaved = rope.interleaved};
}

void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const HostPlaces& places, const HostRope& rope) {
  const std::vector<Place> found = find_all(places);
  append_rows(k, PagedRows(pool.k, pool.layout), found, rope);
  if (v.defined()) append_rows(v, PagedRows(pool.v, pool.layout), found, {});
}

void gather_kv(const KvPool& pool, const HostPlaces& places, const TensorView& k,
               const TensorView& v) {
  const std::vector<Place> found = find_all(places);
  gather_rows(PagedRows(pool.k, pool.layout), k, found);
  if (v.defined()) gather_rows(PagedRows(pool.v, pool.layout), v, found);
}

}  // namespace trencadis::cpu
