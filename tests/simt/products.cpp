#include "simt/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "simt/float16.h"

namespace trencadis::simt {
namespace {

constexpr int kRows = 16;      // of a warp
constexpr int kDepth = 16;     // of one product: what is summed over
constexpr int kColumns = 128;  // at most

/// A matrix in shared memory, as its bits say.
struct Place {
  std::uint64_t start, slab, group;

  Place(const char* operation, std::uint64_t bits)
      : start((bits & 0x3fff) << 4),
        slab((bits >> 16 & 0x3fff) << 4),
        group((bits >> 32 & 0x3fff) << 4) {
    if (bits >> 62 != 1) fail(operation, "the matrix is not in the 128-byte swizzle");
  }
};

/// Eight elements, whose place without the swizzle is given: that turns the chunks of 16 bytes by
/// the bits of the address above them.
const char* chunk(const char* operation, std::uint64_t place) {
  const std::uint64_t swizzled = place ^ (place >> 7 & 7) << 4;
  return shown_shared(operation, swizzled);
}

template <class Element>
void widen(const char* from, float* to, int stride) {
  std::uint16_t elements[8];
  std::memcpy(elements, from, sizeof elements);
  for (int i = 0; i < 8; ++i) to[i * stride] = ptx::Format<Element>::widen(elements[i]);
}

/// `count` rows of the matrix from row `first` on, 16 columns of each, into columns of `to`.
template <class Element>
void read_rows(const char* operation, const Place& at, int first, int count, float* to,
               int stride) {
  for (int i = 0; i < count; ++i) {
    const auto row = static_cast<std::uint64_t>(first + i);
    const std::uint64_t place = at.start + row / 8 * at.group + row % 8 * 128;
    for (int half = 0; half < 2; ++half) {
      widen<Element>(chunk(operation, place + static_cast<std::uint64_t>(half) * 16),
                     to + 8 * half * stride + i, stride);
    }
  }
}

/// 16 rows of the matrix, into rows of `to`.
template <class Element>
void read_columns(const char* operation, const Place& at, int columns, float* to) {
  for (std::uint64_t row = 0; row < kDepth; ++row) {
    for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(columns); n += 8) {
      const std::uint64_t place =
          at.start + n / 64 * at.slab + row / 8 * at.group + row % 8 * 128 + n % 64 * 2;
      widen<Element>(chunk(operation, place), to + row * static_cast<std::uint64_t>(columns) + n,
                     1);
    }
  }
}

/// The row operand in registers, transposed: a[k][row].
template <class Element>
void read_registers(const unsigned* const* lanes, float (&a)[kDepth][kRows]) {
  for (int l = 0; l < kWarpSize; ++l) {
    for (int r = 0; r < 4; ++r) {
      const int row = l / 4 + r % 2 * 8;
      const int k = 2 * (l % 4) + r / 2 * 8;
      a[k][row] = ptx::Format<Element>::widen(lanes[l][r] & 0xffffu);
      a[k + 1][row] = ptx::Format<Element>::widen(lanes[l][r] >> 16);
    }
  }
}

template <class Element>
void read(const WarpgroupCall& call, const unsigned* const* rows, int warp,
          float (&a)[kDepth][kRows], float* b) {
  const Place at_b(call.operation, call.b);
  if (call.kind == WarpgroupCall::Kind::multiply_rows) {
    const Place at_a(call.operation, call.a);
    read_rows<Element>(call.operation, at_a, kRows * (warp % 4), kRows, a[0], kRows);
    read_rows<Element>(call.operation, at_b, 0, 8 * call.tiles, b, 8 * call.tiles);
  } else {
    read_registers<Element>(rows, a);
    read_columns<Element>(call.operation, at_b, 8 * call.tiles, b);
  }
}

/// The place in the warp's rows of a lane's accumulator.
std::size_t place_of(int lane, int tile, int c, int columns) {
  const int row = lane / 4 + c / 2 * 8;
  return static_cast<std::size_t>(row * columns + 8 * tile + 2 * (lane % 4) + c % 2);
}

}  // namespace

void Products::clear() {
  products_.clear();
  groups_.clear();
  for (Accumulators& each : storage_) each.products = 0;
  begun_ = false;
}

void Products::issue(const WarpgroupCall* const* lanes) {
  Product product{.call = *lanes[0], .accumulators = take(lanes), .rows = {}};
  for (int l = 0; l < kWarpSize; ++l) product.rows[l] = lanes[l]->rows;
  storage_[product.accumulators].products += 1;
  products_.push_back(product);
}

/// Those under way, if they are the same, or others.
std::size_t Products::take(const WarpgroupCall* const* lanes) {
  const WarpgroupCall& call = *lanes[0];
  const int columns = 8 * call.tiles;
  std::size_t taken = storage_.size();
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const Accumulators& each = storage_[i];
    if (each.products == 0) {
      taken = i;
      continue;
    }
    const bool is_same =
        each.columns == columns &&
        std::equal(lanes, lanes + kWarpSize, each.lanes,
                   [](const WarpgroupCall* lane, const float* d) { return lane->d == d; });
    if (is_same) return i;
    for (int l = 0; l < kWarpSize; ++l) {
      const bool apart = lanes[l]->d + columns / 2 <= each.lanes[l] ||
                         each.lanes[l] + each.columns / 2 <= lanes[l]->d;
      if (!apart) fail(call.operation, "some of the accumulators are those of products under way");
    }
  }

  if (!begun_) fail(call.operation, "no begin_products since the latest wait_products");
  if (taken == storage_.size()) storage_.emplace_back();
  Accumulators& mine = storage_[taken];
  mine.columns = columns;
  mine.sums.resize(static_cast<std::size_t>(kRows * columns));
  for (int l = 0; l < kWarpSize; ++l) {
    float* const d = mine.lanes[l] = lanes[l]->d;
    for (int tile = 0; tile < call.tiles; ++tile) {
      for (int c = 0; c < 4; ++c) mine.sums[place_of(l, tile, c, columns)] = d[4 * tile + c];
    }
    std::memset(d, 0xff, static_cast<std::size_t>(call.tiles) * 4 * sizeof(float));
  }
  return taken;
}

void Products::give_back(Accumulators& accumulators) {
  for (int l = 0; l < kWarpSize; ++l) {
    for (int i = 0; i < accumulators.columns / 2; ++i) {
      accumulators.lanes[l][i] = accumulators.sums[place_of(l, i / 4, i % 4, accumulators.columns)];
    }
  }
}

void Products::wait(int pending) {
  begun_ = false;
  const std::size_t kept = std::min(static_cast<std::size_t>(pending), groups_.size());
  const std::size_t ended = groups_.size() - kept;
  if (ended == 0) return;
  const std::size_t done = groups_[ended - 1];
  for (std::size_t i = 0; i < done; ++i) {
    if (!products_[i].performed) perform(products_[i]);
    Accumulators& accumulators = storage_[products_[i].accumulators];
    accumulators.products -= 1;
    if (accumulators.products == 0) give_back(accumulators);
  }
  products_.erase(products_.begin(), products_.begin() + static_cast<std::ptrdiff_t>(done));
  groups_.erase(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(ended));
  for (std::size_t& end : groups_) end -= done;
}

void Products::perform() {
  for (Product& product : products_) {
    if (!product.performed) perform(product);
  }
}

void Products::perform(Product& product) {
  const WarpgroupCall& call = product.call;
  const int columns = 8 * call.tiles;
  float a[kDepth][kRows];
  float b[kDepth * kColumns];
  const int warp = place().thread / kWarpSize;
  if (call.is_half) {
    read<ptx::Half>(call, product.rows, warp, a, b);
  } else {
    read<ptx::BFloat>(call, product.rows, warp, a, b);
  }
  float* const sums = storage_[product.accumulators].sums.data();
  if (call.number == 0) std::fill(sums, sums + kRows * columns, 0.0f);
  // Summed apart first, as hardware does and mma.h.
  for (int i = 0; i < kRows; ++i) {
    float product_row[kColumns] = {};
    for (int k = 0; k < kDepth; ++k) {
      const float factor = a[k][i];
      const float* const row = b + k * columns;
      for (int j = 0; j < columns; ++j) product_row[j] += factor * row[j];
    }
    for (int j = 0; j < columns; ++j) sums[i * columns + j] += product_row[j];
  }
  product.performed = true;
}

}  // namespace trencadis::simt
