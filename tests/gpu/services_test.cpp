// append_kv, gather_kv and copy_pages on the device write what they write on the CPU, and nothing
// else.
#include <gtest/gtest.h>
#include <trencadis/error.h>
#include <trencadis/kv_cache.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "gpu/twin.h"

namespace trencadis::testing {
namespace {

using Types = std::pair<DType, DType>;  // rows and pages

const std::vector<Types> kTypes{{DType::bf16, DType::bf16},
                                {DType::f32, DType::f32},
                                {DType::f32, DType::f16},
                                {DType::f16, DType::f32},
                                {DType::bf16, DType::f16}};

struct Case {
  std::int64_t page_size = 16, heads = 2, dim_qk = 32, dim_vo = 24;
  KvLayout layout = KvLayout::nhd;
  std::int64_t row_padding = 0;  // elements between rows
  std::int64_t padding = 0;      // and between those of pages
  std::int64_t shift = 0;        // elements before the first, of both
  bool use_slots = false;
  bool indexed = true;  // false: request r's pages are indptr[r] + j
  unsigned seed = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "P " << c.page_size << " H " << c.heads << " D " << c.dim_qk << ", " << c.dim_vo
             << (c.layout == KvLayout::hnd ? " HND" : " NHD") << " padding " << c.row_padding
             << ", " << c.padding << " shift " << c.shift
             << (c.use_slots ? " slots"
                 : c.indexed ? " table"
                             : " contiguous")
             << " seed " << c.seed;
}

/// Aligned and not, in either layout, of every page size, through each way to name a place.
std::vector<Case> cases() {
  std::vector<Case> all;
  unsigned seed = 0;
  for (const std::int64_t page_size : {1, 3, 16})
    for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd})
      for (const std::int64_t odd : {0, 1, 8}) {
        all.push_back({.page_size = page_size,
                       .layout = layout,
                       .row_padding = seed % 2 == 0 ? 1 : 8,
                       .padding = odd,
                       .shift = odd,
                       .use_slots = (seed + 1) % 3 == 0,
                       .indexed = seed % 2 == 0,
                       .seed = seed + 1});
        ++seed;
      }
  all.push_back({.heads = 1, .dim_qk = 576, .dim_vo = 0, .seed = 40});  // latent: keys alone
  all.push_back({.heads = 5, .dim_qk = 7, .dim_vo = 130, .seed = 41});
  all.push_back({.dim_qk = 7, .dim_vo = 15, .row_padding = 1, .padding = 1, .seed = 43});
  all.push_back({.page_size = 64, .heads = 8, .dim_qk = 128, .dim_vo = 128, .seed = 42});
  return all;
}

constexpr std::int64_t kRequests = 4, kCount = 29, kCapacity = 37;

/// Places of kCount tokens, each in a page of its own; some are skipped, two do not exist. Behind
/// them, up to the capacity, are places that nobody may touch.
struct Places {
  explicit Places(const Case& c) {
    std::mt19937 random(c.seed);
    const std::int64_t pages_each = 12 / c.page_size + 1;
    pages = kRequests * pages_each + 3;
    indices.resize(static_cast<std::size_t>(pages));
    std::iota(indices.begin(), indices.end(), 0);
    if (c.indexed) std::shuffle(indices.begin(), indices.end(), random);
    for (std::int64_t r = 0; r <= kRequests; ++r)
      indptr.push_back(static_cast<std::int32_t>(r * pages_each));
    std::vector<std::pair<std::int32_t, std::int32_t>> all;  // request, position
    for (std::int64_t r = 0; r < kRequests; ++r)
      for (std::int64_t at = 0; at < pages_each * c.page_size; ++at)
        all.emplace_back(static_cast<std::int32_t>(r), static_cast<std::int32_t>(at));
    std::shuffle(all.begin(), all.end(), random);
    for (std::size_t i = 0; i < kCapacity; ++i) {
      const auto [request, position] = all[i];
      const auto entry = static_cast<std::size_t>(request * pages_each + position / c.page_size);
      const std::size_t kind = i % 7;  // 3: no request, 5: no position
      const bool beyond = i == 8 || i == 15;
      batch_indices.push_back(kind == 3 ? -1 : i == 8 ? kRequests : request);
      positions.push_back(kind == 5 ? -1
                          : i == 15 ? static_cast<std::int32_t>(pages_each * c.page_size)
                                    : position);
      slots.push_back(kind == 3 || kind == 5 ? -1
                      : beyond ? (i == 8 ? pages * c.page_size : std::int64_t{1} << 40)
                               : indices[entry] * c.page_size + position % c.page_size);
    }
  }
  std::int64_t pages = 0;
  std::vector<std::int32_t> batch_indices, positions, indptr, indices;
  std::vector<std::int64_t> slots;
};

/// The same on both sides, with counts of their own.
struct TwinPlaces {
  explicit TwinPlaces(const Case& c)
      : values(c),
        use_slots(c.use_slots),
        indexed(c.indexed),
        batch_indices(values.batch_indices),
        positions(values.positions),
        indptr(values.indptr),
        indices(values.indices),
        slots(values.slots),
        count(std::vector<std::int32_t>{kCount}),
        refused(std::vector<std::int32_t>{0}) {}

  template <class Place>
  TokenPlaces at(const Place& place) const {
    TokenPlaces places;
    if (use_slots) {
      places.slots = place(slots);
    } else {
      places.batch_indices = place(batch_indices);
      places.positions = place(positions);
      places.indptr = place(indptr);
      if (indexed) places.indices = place(indices);
    }
    places.num_tokens = place(count);
    places.num_refused = place(refused);
    return places;
  }

  Places values;
  bool use_slots, indexed;
  TwinArray batch_indices, positions, indptr, indices, slots, count, refused;
};

struct Tensors {
  Tensors(const Case& c, Types types, std::int64_t pages)
      : has_values(c.dim_vo > 0),
        layout(c.layout),
        k_rows(types.first, {kCapacity, c.heads, c.dim_qk}, rows(c)),
        v_rows(types.first, {kCapacity, c.heads, std::max<std::int64_t>(c.dim_vo, 1)}, rows(c)),
        k_pool(types.second, shape(c, pages, c.dim_qk), paged(c)),
        v_pool(types.second, shape(c, pages, std::max<std::int64_t>(c.dim_vo, 1)), paged(c)) {}

  static Layout rows(const Case& c) { return {.padding = c.row_padding, .shift = c.shift}; }
  static Layout paged(const Case& c) { return {.padding = c.padding, .shift = c.shift}; }
  static std::vector<std::int64_t> shape(const Case& c, std::int64_t pages, std::int64_t dim) {
    if (c.layout == KvLayout::nhd) return {pages, c.page_size, c.heads, dim};
    return {pages, c.heads, c.page_size, dim};
  }
  template <class Place>
  KvPool pool(const Place& place) const {
    return {place(k_pool), has_values ? place(v_pool) : TensorView(), layout};
  }
  template <class Place>
  TensorView values(const Place& place) const {
    return has_values ? place(v_rows) : TensorView();
  }

  bool has_values;
  KvLayout layout;
  Twin k_rows, v_rows, k_pool, v_pool;
};

template <class Options>
void check_append(const Case& c, Types types, const Options& options_at, double steps) {
  SCOPED_TRACE(::testing::Message()
               << c << ", " << to_string(types.first) << " to " << to_string(types.second));
  const TwinPlaces places(c);
  Tensors t(c, types, places.values.pages);
  std::mt19937 random(7);
  t.k_rows.fill(random);
  t.v_rows.fill(random);
  call_on_both([&](const auto& place) {
    append_kv(place(t.k_rows), t.values(place), t.pool(place), places.at(place), options_at(place));
  });
  EXPECT_TRUE(t.k_pool.agree(steps));
  EXPECT_TRUE(t.v_pool.agree());
  EXPECT_EQ(places.refused.on_host(), 2);
  EXPECT_EQ(places.refused.fetched(), 2);
}

TEST(GpuServices, AppendWritesWhatTheCpuWrites) {
  for (const Case& c : cases())
    for (const Types& types : kTypes)
      check_append(
          c, types, [](const auto&) { return AppendOptions{}; }, 0);
}

TEST(GpuServices, KeysTurnAsOnTheCpu) {
  for (const Case& c : cases())
    for (const Types& types : kTypes)
      for (const bool interleaved : {false, true}) {
        const std::int64_t dim =
            (interleaved ? c.dim_qk : std::min<std::int64_t>(c.dim_qk, 6)) & ~1;
        HostTensor host_freq(DType::f32, {dim / 2});
        std::int64_t pair = 0;
        fill(host_freq.whole(), [&] {
          return std::pow(10000.0, -2.0 * static_cast<double>(pair++) / static_cast<double>(dim));
        });
        const DeviceTensor device_freq(host_freq.whole());
        std::vector<std::int32_t> far;
        for (std::int32_t i = 0; i < kCapacity; ++i) far.push_back(100'000 * (i % 9) + i);
        const TwinArray positions(far);
        check_append(
            c, types,
            [&](const auto& place) {
              const bool there = place(positions).data() != positions.host().data();
              AppendRope rope;
              rope.inv_freq = there ? device_freq.view() : host_freq.whole();
              rope.dim = static_cast<int>(dim);
              rope.interleaved = interleaved;
              if (c.use_slots || interleaved) rope.positions = place(positions);
              return AppendOptions{.rope = rope};
            },
            // Sines are within two ulps on either side; the format rounds them once more.
            types.second == DType::f32 ? 16 : 2);
      }
}

TEST(GpuServices, GatherReadsWhatTheCpuReads) {
  for (const Case& c : cases())
    for (const Types& types : kTypes) {
      SCOPED_TRACE(::testing::Message()
                   << c << ", " << to_string(types.second) << " to " << to_string(types.first));
      const TwinPlaces places(c);
      Tensors t(c, types, places.values.pages);
      std::mt19937 random(8);
      t.k_pool.fill(random);
      t.v_pool.fill(random);
      call_on_both([&](const auto& place) {
        gather_kv(t.pool(place), places.at(place), place(t.k_rows), t.values(place));
      });
      EXPECT_TRUE(t.k_rows.agree());
      EXPECT_TRUE(t.v_rows.agree());
      EXPECT_EQ(places.refused.fetched(), places.refused.on_host());
    }
}

TEST(GpuServices, PagesMoveAsOnTheCpu) {
  constexpr std::int64_t kPages = 16;
  const TwinArray from(std::vector<std::int32_t>{0, 5, -1, 3, 4, 99, 5, 2, 7, 1, 1, 1});
  const TwinArray to(std::vector<std::int32_t>{8, 9, 10, -1, 4, 1, 12, 11, 13, 14, 15, 6});
  for (const Case& c : cases())
    for (const Types& types : kTypes)
      for (const bool in_place : {false, true}) {
        if (in_place && types.first != types.second) continue;
        SCOPED_TRACE(::testing::Message()
                     << c << ", " << to_string(types.first) << " to " << to_string(types.second));
        Case other = c;
        other.layout = c.layout == KvLayout::nhd ? KvLayout::hnd : KvLayout::nhd;
        other.padding = c.row_padding;
        Tensors source(c, {types.first, types.first}, kPages);
        Tensors target(other, {types.second, types.second}, kPages);
        std::mt19937 random(11);
        source.k_pool.fill(random);
        source.v_pool.fill(random);
        const TwinArray count(std::vector<std::int32_t>{9}), refused(std::vector<std::int32_t>{0});
        call_on_both([&](const auto& place) {
          PagePairs pairs{.from = place(from), .to = place(to)};
          pairs.num_pairs = place(count);
          pairs.num_refused = place(refused);
          copy_pages(source.pool(place), (in_place ? source : target).pool(place), pairs);
        });
        for (Tensors* tensors : {&source, &target}) {
          EXPECT_TRUE(tensors->k_pool.agree());
          EXPECT_TRUE(tensors->v_pool.agree());
        }
        EXPECT_EQ(refused.on_host(), 1);
        EXPECT_EQ(refused.fetched(), 1);
      }
}

TEST(GpuServices, ConversionsSaturateAndKeepNaN) {
  Case c{.page_size = 1, .heads = 1, .dim_qk = 16, .dim_vo = 16};
  for (const std::int64_t padding : {0, 1}) {
    c.padding = c.row_padding = padding;
    const TwinPlaces places(c);
    Tensors t(c, {DType::f32, DType::f16}, places.values.pages);
    const std::vector<double> values{1e30, -1e30, kInf, -kInf, kNan, 65519, 65520, 1};
    for (Twin* rows : {&t.k_rows, &t.v_rows}) {
      std::size_t i = 0;
      fill(rows->host(), [&] { return values[i++ % 8]; });
      rows->bring();
    }
    call_on_both([&](const auto& place) {
      append_kv(place(t.k_rows), place(t.v_rows), t.pool(place), places.at(place));
    });
    EXPECT_TRUE(t.k_pool.agree());
    EXPECT_TRUE(t.v_pool.agree());
  }
}

TEST(GpuServices, ACapturedAppendReadsTheSlotsOfItsReplay) {
  Case c{.use_slots = true};
  TwinPlaces places(c);
  Tensors t(c, {DType::bf16, DType::bf16}, places.values.pages);
  std::mt19937 random(3);
  t.k_rows.fill(random);
  t.v_rows.fill(random);
  DeviceStream stream(device_under_test());
  const auto on_device = [](const auto& twin) { return twin.device(); };
  const auto append = [&] {
    append_kv(on_device(t.k_rows), on_device(t.v_rows), t.pool(on_device), places.at(on_device),
              {.stream = stream.handle()});
  };
  const auto append_on_host = [&] {
    const auto on_host = [](const auto& twin) { return twin.host(); };
    append_kv(on_host(t.k_rows), on_host(t.v_rows), t.pool(on_host), places.at(on_host));
  };
  append();  // a capture does not load kernels
  append_on_host();
  const DeviceGraph graph(stream, append);
  for (const std::int64_t slot : {3, 40}) {
    stream.synchronize();
    places.slots.set_both(0, static_cast<double>(slot));
    graph.launch(stream);
    append_on_host();
    stream.synchronize();
    EXPECT_TRUE(t.k_pool.agree());
    EXPECT_TRUE(t.v_pool.agree());
  }
}

// A pool of 12 GiB, of which three pages exist.
TEST(GpuServices, OffsetsBeyond32Bits) {
  constexpr std::int64_t kPageStride = (std::int64_t{1} << 31) + 64;  // elements
  if (device_under_test().kind != DeviceKind::cuda) GTEST_SKIP() << "of a device";
  try {
    const DeviceMemory memory(device_under_test(), (2 * kPageStride + 64) * 2);
    const std::int64_t shape[] = {3, 1, 1, 8}, strides[] = {kPageStride, 8, 8, 1};
    const KvPool pool{.k = TensorView(memory.data(), DType::f16, shape, strides, memory.device())};
    std::mt19937 random(4);
    Twin rows(DType::f16, {1, 1, 8}), gathered(DType::f16, {1, 1, 8});
    rows.fill(random);
    const TwinArray slots(std::vector<std::int64_t>{2});
    append_kv(rows.device(), {}, pool, {.slots = slots.device()});
    gather_kv(pool, {.slots = slots.device()}, gathered.device(), {});
    fill(gathered.host(), [&, values = to_doubles(rows.host()), i = std::size_t{0}]() mutable {
      return values[i++];
    });
    EXPECT_TRUE(gathered.agree());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_capacity) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace trencadis::testing
