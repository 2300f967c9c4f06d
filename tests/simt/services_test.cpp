// append_kv, gather_kv, copy_pages and merge_states on a device from end to end on the host: the
// fake driver's launches run the kernels emulated, and what they write is what the CPU writes.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "codegen/cuda_service_source.h"
#include "codegen/cuda_source.h"
#include "contract/append.h"
#include "contract/merge.h"
#include "cuda/entry/append.h"
#include "cuda/entry/copy_pages.h"
#include "cuda/entry/merge_states.h"
#include "jit/nvrtc.h"
#include "simt/launch.h"
#include "support/expect_error.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/host_tensor.h"

namespace trencadis::testing {
namespace {

using codegen::Service;
using ptx::BFloat;
using ptx::Half;

constexpr int kMultiprocessors = 16;  // the attribute

template <class Tag>
constexpr DType kDType = DType::f32;
template <>
constexpr DType kDType<Half> = DType::f16;
template <>
constexpr DType kDType<BFloat> = DType::bf16;

/// Since the test began.
struct Launches {
  int count = 0;
  unsigned largest_grid = 0;
};

template <class Params, auto kKernel>
void run_emulated(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
                  void** parameters, void* user) {
  auto& launches = *static_cast<Launches*>(user);
  ++launches.count;
  launches.largest_grid = std::max(launches.largest_grid, grid);
  const auto& params = *static_cast<const Params*>(parameters[0]);
  try {
    simt::launch({.ctas = static_cast<int>(grid),
                  .threads = static_cast<int>(block),
                  .shared_bytes = shared_bytes,
                  .seed = static_cast<std::uint64_t>(launches.count)},
                 [&] { kKernel(params); });
  } catch (const std::exception& error) {
    ADD_FAILURE() << function << ": " << error.what();
  }
}

TensorView on_device(const TensorView& view) {
  if (!view.defined()) return view;
  return TensorView(view.data(), view.dtype(), view.shape(), view.strides(), {DeviceKind::cuda, 0});
}
KvPool on_device(const KvPool& pool) {
  return {on_device(pool.k), on_device(pool.v), pool.layout};
}
TokenPlaces on_device(const TokenPlaces& places) {
  return {.batch_indices = on_device(places.batch_indices),
          .positions = on_device(places.positions),
          .indptr = on_device(places.indptr),
          .indices = on_device(places.indices),
          .slots = on_device(places.slots),
          .num_tokens = on_device(places.num_tokens),
          .num_refused = on_device(places.num_refused)};
}

class ServicesTest : public ::testing::Test {
 protected:
  static const FakeCuda& fake() {
    static const FakeCuda instance;
    return instance;
  }

  static void SetUpTestSuite() { setenv("TRENCADIS_LIBCUDA", FakeCuda::path().c_str(), 1); }

  void SetUp() override {
    if (const jit::CompilerDescription nvrtc = jit::describe_nvrtc(); !nvrtc.available)
      GTEST_SKIP() << "the backend compiles what it loads: " << nvrtc.reason;
    fake().set_attribute(kMultiprocessors, 1);
    use_pages<BFloat, BFloat>();
    use_pages<float, Half>();
    use_pages<Half, float>();
    use_pages<Half, Half>();
    use_merges<float, float>();
    use_merges<float, BFloat>();
    use_merges<BFloat, BFloat>();
    use_merges<Half, Half>();
  }

  template <class From, class To>
  void use_pages() {
    use<contract::AppendParams, &entry::append<From, To>, From, To>(Service::append);
    use<contract::PagedTokens, &entry::gather<From, To>, From, To>(Service::gather);
    use<contract::CopyPagesParams, &entry::copy_pages<From, To>, From, To>(Service::copy_pages);
  }
  template <class In, class Out>
  void use_merges() {
    using Params = contract::MergeStatesParams;
    use<Params, &entry::merge_states<In, Out, collective::PairOfStates>, In, Out>(
        Service::merge_pair);
    use<Params, &entry::merge_states<In, Out, collective::StackedStates>, In, Out>(
        Service::merge_stacked);
    use<Params, &entry::merge_states<In, Out, collective::RaggedStates>, In, Out>(
        Service::merge_ragged);
  }
  template <class Params, auto kKernel, class From, class To>
  void use(Service service) {
    fake().on_launch(codegen::service_symbol(service, kDType<From>, kDType<To>), {sizeof(Params)},
                     run_emulated<Params, kKernel>, &launches_);
  }

  void* stream() { return &stream_; }

  Launches launches_;

 private:
  char stream_ = 0;  // its address is the handle
};

/// Tokens and pages of random values, and places of a few requests.
struct Tokens {
  static constexpr std::int64_t kTokens = 9, kPages = 8, kPage = 3, kHeads = 2;

  Tokens(DType rows, DType pages, KvLayout layout, std::int64_t dim_qk = 16,
         std::int64_t dim_vo = 8)
      : k(rows, {kTokens, kHeads, dim_qk}),
        v(rows, {kTokens, kHeads, dim_vo}),
        pool_layout(layout),
        pool(pages, layout == KvLayout::nhd
                        ? std::vector<std::int64_t>{kPages, kPage, kHeads, dim_qk + dim_vo}
                        : std::vector<std::int64_t>{kPages, kHeads, kPage, dim_qk + dim_vo}) {
    std::mt19937 random(6);
    std::normal_distribution<double> normal;
    for (const HostTensor* tensor : {&k, &v, &pool})
      fill(tensor->whole(), [&] { return normal(random); });
    set(k.whole(), {0, 1, 2}, 1e6);  // beyond float16
  }

  /// Keys and values side by side in a row.
  KvPool pages() const {
    const std::int64_t dim = k.whole().size(2);
    return {pool.whole().slice(3, 0, dim), pool.whole().slice(3, dim, pool.whole().size(3)),
            pool_layout};
  }

  TokenPlaces by_position() {
    return with_counts({.batch_indices = array(batch_indices),
                        .positions = array(positions),
                        .indptr = array(indptr),
                        .indices = array(indices)});
  }
  TokenPlaces by_slot() { return with_counts({.slots = array(slots)}); }

  template <class T>
  static TensorView array(std::vector<T>& values) {
    return TensorView(values.data(), sizeof(T) == 8 ? DType::i64 : DType::i32,
                      {static_cast<std::int64_t>(values.size())});
  }

  HostTensor k, v;
  KvLayout pool_layout;
  HostTensor pool;
  std::vector<std::int32_t> batch_indices{0, 0, 2, -1, 1, 2, 3, 1, 0};
  std::vector<std::int32_t> positions{0, 5, 3, 0, 1, -1, 0, 9, 2};
  std::vector<std::int32_t> indptr{0, 2, 4, 7}, indices{6, 0, 3, 5, 2, 7, 1};
  std::vector<std::int64_t> slots{5, 0, 23, -1, 11, 24, 7, 1LL << 40, 9};
  std::int32_t num_tokens = 8, num_refused = 0;

 private:
  TokenPlaces with_counts(TokenPlaces places) {
    places.num_tokens = TensorView(&num_tokens, DType::i32, {1});
    places.num_refused = TensorView(&num_refused, DType::i32, {1});
    return places;
  }
};

/// Of one shape: bit for bit, or within a rounding of what is near 1 or larger.
void expect_same(const HostTensor& device, const HostTensor& host, double tolerance = 0) {
  const std::vector<double> a = to_doubles(device.whole()), b = to_doubles(host.whole());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * std::fmax(1, std::fabs(b[i])))
        << "element " << i << ": " << a[i] << ", the CPU's is " << b[i];
  }
}

struct AppendCase {
  DType rows, pages;
  KvLayout layout;
  bool by_slot;
};

const std::vector<AppendCase> kAppendCases{{DType::bf16, DType::bf16, KvLayout::nhd, false},
                                           {DType::bf16, DType::bf16, KvLayout::hnd, true},
                                           {DType::f32, DType::f16, KvLayout::hnd, false},
                                           {DType::f32, DType::f16, KvLayout::nhd, true},
                                           {DType::f16, DType::f32, KvLayout::nhd, false}};

TEST_F(ServicesTest, AppendWritesWhatTheCpuWrites) {
  for (const AppendCase& c : kAppendCases) {
    Tokens host(c.rows, c.pages, c.layout), device(c.rows, c.pages, c.layout);
    append_kv(host.k.whole(), host.v.whole(), host.pages(),
              c.by_slot ? host.by_slot() : host.by_position());
    append_kv(on_device(device.k.whole()), on_device(device.v.whole()), on_device(device.pages()),
              on_device(c.by_slot ? device.by_slot() : device.by_position()), {.stream = stream()});
    expect_same(device.pool, host.pool);
    EXPECT_EQ(device.num_refused, 2);
    EXPECT_EQ(host.num_refused, 2);
  }
  EXPECT_EQ(launches_.count, 5);
}

TEST_F(ServicesTest, KeysTurnAsOnTheCpu) {
  std::vector<float> inv_freq{1.0f, 0.1f, 0.01f};
  std::vector<std::int32_t> far{100'000, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const AppendCase& c : kAppendCases) {
    Tokens host(c.rows, c.pages, c.layout), device(c.rows, c.pages, c.layout);
    AppendRope rope{.inv_freq = TensorView(inv_freq.data(), DType::f32, {3}),
                    .dim = 6,
                    .interleaved = c.layout == KvLayout::hnd};
    if (c.by_slot) rope.positions = Tokens::array(far);
    append_kv(host.k.whole(), host.v.whole(), host.pages(),
              c.by_slot ? host.by_slot() : host.by_position(), {.rope = rope});
    rope.inv_freq = on_device(rope.inv_freq);
    rope.positions = on_device(rope.positions);
    append_kv(on_device(device.k.whole()), on_device(device.v.whole()), on_device(device.pages()),
              on_device(c.by_slot ? device.by_slot() : device.by_position()),
              {.rope = rope, .stream = stream()});
    expect_same(device.pool, host.pool, c.pages == DType::f32 ? 1e-6 : 1e-2);
  }
}

TEST_F(ServicesTest, GatherIsTheInverseOfAppend) {
  for (const AppendCase& c : kAppendCases) {
    Tokens t(c.rows, c.pages, c.layout);
    const TokenPlaces places = on_device(c.by_slot ? t.by_slot() : t.by_position());
    const HostTensor host_k = t.k, host_v = t.v;
    gather_kv(t.pages(), c.by_slot ? t.by_slot() : t.by_position(), host_k.whole(), host_v.whole());
    const HostTensor device_k = t.k, device_v = t.v;
    gather_kv(on_device(t.pages()), places, on_device(device_k.whole()),
              on_device(device_v.whole()), stream());
    expect_same(device_k, host_k);
    expect_same(device_v, host_v);
    if (c.rows != c.pages) continue;
    append_kv(on_device(t.k.whole()), on_device(t.v.whole()), on_device(t.pages()), places);
    gather_kv(on_device(t.pages()), places, on_device(device_k.whole()),
              on_device(device_v.whole()));
    gather_kv(t.pages(), c.by_slot ? t.by_slot() : t.by_position(), host_k.whole(), host_v.whole());
    expect_same(device_k, host_k);
    expect_same(device_v, host_v);
  }
}

TEST_F(ServicesTest, PagesMoveAsOnTheCpu) {
  for (const AppendCase& c : kAppendCases) {
    const Tokens source(c.rows, c.rows, c.layout);
    const Tokens host(c.rows, c.pages, KvLayout::nhd), device(c.rows, c.pages, KvLayout::nhd);
    std::vector<std::int32_t> from{0, 7, -1, 3, 8, 2, 1}, to{7, 1, 2, -1, 3, 5, 9};
    std::int32_t refused_host = 0, refused = 0, count = 6;
    const auto pairs = [&](std::int32_t& counter, auto place) {
      return PagePairs{.from = place(Tokens::array(from)),
                       .to = place(Tokens::array(to)),
                       .num_pairs = place(TensorView(&count, DType::i32, {1})),
                       .num_refused = place(TensorView(&counter, DType::i32, {1}))};
    };
    copy_pages(source.pages(), host.pages(), pairs(refused_host, [](auto view) { return view; }));
    copy_pages(on_device(source.pages()), on_device(device.pages()),
               pairs(refused, [](const TensorView& view) { return on_device(view); }), stream());
    expect_same(device.pool, host.pool);
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(refused_host, 1);
  }
}

/// States [states, rows, H, D] with some that are empty.
struct States {
  States(DType in, DType out_dtype)
      : o(in, {3, 5, 2, 24}),
        lse(DType::f32, {3, 5, 2}),
        out(out_dtype, {5, 2, 24}),
        out_lse(DType::f32, {5, 2}) {
    std::mt19937 random(2);
    std::normal_distribution<double> normal;
    fill(o.whole(), [&] { return normal(random); });
    fill(lse.whole(), [&] { return random() % 5 == 0 ? -kInf : 40 * normal(random); });
    fill(lse.whole().select(1, 3), -kInf);  // a row of none
    fill(o.whole().select(0, 1).select(0, 3), kNan);
  }
  HostTensor o, lse, out, out_lse;
};

TEST_F(ServicesTest, MergesAreThoseOfTheCpu) {
  using Merge = std::function<void(const States&, const std::function<TensorView(TensorView)>&,
                                   MergeOptions)>;
  std::int32_t num_rows = 4;
  std::vector<std::int32_t> indptr{0, 2, 2, 5, 9, 15};
  const Merge pair = [&](const States& s, const auto& place, MergeOptions options) {
    merge_states(place(s.o.whole().select(0, 0)), place(s.lse.whole().select(0, 0)),
                 place(s.o.whole().select(0, 2)), place(s.lse.whole().select(0, 2)),
                 place(s.out.whole()), place(s.out_lse.whole()), options);
  };
  const Merge stacked = [&](const States& s, const auto& place, MergeOptions options) {
    merge_states(place(s.o.whole()), place(s.lse.whole()), place(s.out.whole()),
                 place(s.out_lse.whole()), options);
  };
  const Merge ragged = [&](const States& s, const auto& place, MergeOptions options) {
    const TensorView o(s.o.whole().data(), s.o.whole().dtype(), {15, 2, 24});
    const TensorView lse(s.lse.whole().data(), DType::f32, {15, 2});
    merge_states_ragged(place(o), place(lse), place(Tokens::array(indptr)), place(s.out.whole()),
                        place(s.out_lse.whole()), options);
  };
  for (const auto& [in, out] :
       {std::pair{DType::f32, DType::f32}, {DType::f32, DType::bf16}, {DType::bf16, DType::bf16}})
    for (const Merge& merge : {pair, stacked, ragged})
      for (const LseBase base : {LseBase::natural, LseBase::two}) {
        const States host(in, out), device(in, out);
        MergeOptions options{.base = base, .out_base = LseBase::two};
        options.num_rows = TensorView(&num_rows, DType::i32, {1});
        merge(
            host, [](const TensorView& view) { return view; }, options);
        options.num_rows = on_device(options.num_rows);
        options.stream = stream();
        merge(
            device, [](const TensorView& view) { return on_device(view); }, options);
        expect_same(device.out, host.out, out == DType::f32 ? 2e-6 : 8e-3);
        const std::vector<double> a = to_doubles(device.out_lse.whole());
        const std::vector<double> b = to_doubles(host.out_lse.whole());
        for (std::size_t i = 0; i < a.size(); ++i) {
          if (std::isfinite(b[i]))
            EXPECT_NEAR(a[i], b[i], 2e-5) << i;
          else
            EXPECT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
        }
      }
  EXPECT_EQ(launches_.count, 18);
}

TEST_F(ServicesTest, MergesInPlaceWithoutAnLse) {
  const States host(DType::bf16, DType::bf16), device(DType::bf16, DType::bf16);
  merge_states(host.o.whole(), host.lse.whole(), host.o.whole().select(0, 0), {});
  merge_states(on_device(device.o.whole()), on_device(device.lse.whole()),
               on_device(device.o.whole().select(0, 0)), {});
  expect_same(device.o, host.o, 8e-3);
}

TEST_F(ServicesTest, NothingToDoLaunchesNothing) {
  Tokens t(DType::bf16, DType::bf16, KvLayout::nhd);
  append_kv(on_device(t.k.whole().slice(0, 0, 0)), on_device(t.v.whole().slice(0, 0, 0)),
            on_device(t.pages()), {.slots = on_device(Tokens::array(t.slots).slice(0, 0, 0))});
  std::vector<std::int32_t> none;
  const TensorView pages(none.data(), DType::i32, {0}, {DeviceKind::cuda, 0});
  copy_pages(on_device(t.pages()), on_device(t.pages()), {.from = pages, .to = pages});
  const States s(DType::bf16, DType::bf16);
  merge_states(on_device(s.o.whole().slice(1, 0, 0)), on_device(s.lse.whole().slice(1, 0, 0)),
               on_device(s.out.whole().slice(0, 0, 0)), {});
  EXPECT_EQ(launches_.count, 0);
}

TEST_F(ServicesTest, WorkGoesIntoTheStreamAndGridsAreBounded) {
  Tokens t(DType::bf16, DType::bf16, KvLayout::nhd);
  const Tokens before = t;
  fake().hold(stream());
  append_kv(on_device(t.k.whole()), on_device(t.v.whole()), on_device(t.pages()),
            on_device(t.by_slot()), {.stream = stream()});
  EXPECT_EQ(fake().queued(stream()), 1);
  expect_same(t.pool, before.pool);
  fake().release(stream());
  EXPECT_EQ(launches_.count, 1);
  EXPECT_FALSE(std::ranges::equal(t.pool.bytes(), before.pool.bytes()));
  EXPECT_EQ(fake().current_device(), -1);

  const States s(DType::bf16, DType::bf16);
  const HostTensor o(DType::bf16, {300, 2, 128}, 1.0), lse(DType::f32, {300, 2}, 0.0);
  merge_states(on_device(o.whole()), on_device(lse.whole()), on_device(o.whole()),
               on_device(lse.whole()), on_device(o.whole()), {});
  EXPECT_GT(launches_.largest_grid, 1u);
  EXPECT_LE(launches_.largest_grid, 8u);  // what one multiprocessor holds
}

// Kernels of dtypes that no other test here uses, so that none are loaded when it begins.
TEST_F(ServicesTest, AnAttentionPreparesWhatACaptureNeeds) {
  Tokens t(DType::f16, DType::f16, KvLayout::nhd);
  const KvPool pool = on_device(t.pages());
  const TokenPlaces places = on_device(t.by_slot());
  const auto append = [&] {
    append_kv(on_device(t.k.whole()), on_device(t.v.whole()), pool, places, {.stream = stream()});
  };
  fake().begin_capture(stream());
  expect_error(ErrorKind::invalid_argument, {"float16 to float16", "not loaded", "captured"},
               append);
  fake().end_capture(stream());

  const int modules = fake().count("module");
  fake().set_global(codegen::kSharedBytesSymbol, 1024);
  AttentionSpec spec;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o = DType::f16;
  AttentionConfig config;
  config.backend = BackendKind::cuda;
  FakeCuda::Graph graph = nullptr;
  {
    const Attention attention(spec, config);
    EXPECT_EQ(fake().count("module"), modules + 3);
    fake().begin_capture(stream());
    append();
    graph = fake().end_capture(stream());
    ASSERT_NE(graph, nullptr) << "append_kv() did what a graph cannot hold";
    EXPECT_EQ(launches_.count, 0);
  }
  // Only what was launched stays: the graph needs it.
  EXPECT_EQ(fake().count("module"), modules + 1);
  for (const std::int64_t slot : {3, 10}) {
    fill(t.pool.whole(), kNan);
    t.num_tokens = 1;
    t.slots[0] = slot;
    fake().replay(graph, stream());
    const TensorView k = t.pages().k;
    EXPECT_EQ(get(k, {slot / 3, slot % 3, 0, 0}), get(t.k.whole(), {0, 0, 0}));
    std::int64_t written = 0;
    for (const double x : to_doubles(t.pool.whole())) written += !std::isnan(x);
    EXPECT_EQ(written, 2 * (16 + 8));
  }
}

}  // namespace
}  // namespace trencadis::testing
