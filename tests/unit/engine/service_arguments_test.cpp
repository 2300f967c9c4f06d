// What the functions of kv_cache.h and composition.h refuse by the looks of tensors, on either
// device. Those of a GPU are never read, and no driver is asked for: addresses mean nothing here.
#include <gtest/gtest.h>
#include <trencadis/composition.h>
#include <trencadis/kv_cache.h>

#include <string>

#include "support/expect_error.h"

namespace trencadis::testing {
namespace {

constexpr std::int64_t kTokens = 5, kPages = 4, kPage = 3, kHeads = 2, kDimK = 8, kDimV = 6;
using Shape = std::vector<std::int64_t>;

alignas(64) char memory[64];

TensorView tensor(DType dtype, const Shape& shape, Device device = {DeviceKind::cuda, 0}) {
  return TensorView(memory, dtype, shape, device);
}

/// A call that is right but for what a test changes.
struct Call {
  explicit Call(Device device)
      : k(tensor(DType::bf16, {kTokens, kHeads, kDimK}, device)),
        v(tensor(DType::bf16, {kTokens, kHeads, kDimV}, device)),
        pool{tensor(DType::f16, {kPages, kPage, kHeads, kDimK}, device),
             tensor(DType::f16, {kPages, kPage, kHeads, kDimV}, device)},
        places{.batch_indices = tensor(DType::i32, {kTokens}, device),
               .positions = tensor(DType::i32, {kTokens}, device),
               .indptr = tensor(DType::i32, {3}, device),
               .indices = tensor(DType::i32, {7}, device),
               .num_tokens = tensor(DType::i32, {1}, device),
               .num_refused = tensor(DType::i32, {1}, device)},
        rope{.inv_freq = tensor(DType::f32, {kDimK / 2}, device)} {}

  TensorView k, v;
  KvPool pool;
  TokenPlaces places;
  AppendRope rope;
};

class ServiceArguments : public ::testing::TestWithParam<DeviceKind> {
 protected:
  Device device() const { return {GetParam(), 0}; }
  Device other() const {
    return {GetParam() == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
  }

  template <class Change>
  void refuses(ErrorKind kind, std::initializer_list<std::string> words, Change change) const {
    Call call(device());
    change(call);
    expect_error(kind, words,
                 [&] { append_kv(call.k, call.v, call.pool, call.places, {.rope = call.rope}); });
  }
  template <class Change>
  void invalid(std::initializer_list<std::string> words, Change change) const {
    refuses(ErrorKind::invalid_argument, words, change);
  }
  template <class Change>
  void mismatch(std::initializer_list<std::string> words, Change change) const {
    refuses(ErrorKind::type_mismatch, words, change);
  }
};

TEST_P(ServiceArguments, RowsAndPoolsAgree) {
  invalid({"k is bfloat16[4, 2, 8]", "[5, 2, 8]"},
          [](Call& c) { c.k = c.k.slice(0, 0, kTokens - 1); });
  invalid({"k is missing"}, [](Call& c) { c.k = {}; });
  invalid({"v is bfloat16[5, 1, 6]", "[5, 2, 6]"}, [](Call& c) { c.v = c.v.slice(1, 0, 1); });
  invalid({"v is missing", "pool.v is given"}, [](Call& c) { c.v = {}; });
  invalid({"v is given", "pool.v is missing"}, [](Call& c) { c.pool.v = {}; });
  invalid({"pool.k is float16[3, 2, 8]", "rank 4", "[pages, P, H_kv, D_qk]"},
          [](Call& c) { c.pool.k = c.pool.k.select(0, 0); });
  invalid({"k is", "[5, 3, 8]"}, [](Call& c) { c.pool.layout = KvLayout::hnd; });
  invalid({"pool.v is float16[3, 3, 2, 6]", "pool.k"},
          [](Call& c) { c.pool.v = c.pool.v.slice(0, 0, 3); });
  invalid({"pool.k is float16[4, 0, 2, 8]", "1 token or more"},
          [](Call& c) { c.pool.k = c.pool.k.slice(1, 0, 0); });
  invalid({"v is", "null data pointer"}, [this](Call& c) {
    c.v = TensorView(nullptr, DType::bf16, {kTokens, kHeads, kDimV}, device());
  });
  mismatch({"k is int32", "bfloat16"}, [this](Call& c) {
    c.k = tensor(DType::i32, {kTokens, kHeads, kDimK}, device());
  });
  mismatch({"v is", "expected a tensor on " + to_string(device())}, [this](Call& c) {
    c.v = tensor(DType::bf16, {kTokens, kHeads, kDimV}, other());
  });
}

TEST_P(ServiceArguments, PlacesAreNamedInOneWay) {
  invalid({"no batch_indices and no slots"}, [](Call& c) { c.places.batch_indices = {}; });
  invalid({"slots and other arrays"},
          [this](Call& c) { c.places.slots = tensor(DType::i64, {kTokens}, device()); });
  invalid({"places.positions is int32[4]", "[5]"},
          [](Call& c) { c.places.positions = c.places.positions.slice(0, 0, 4); });
  invalid({"places.indptr is missing"}, [](Call& c) { c.places.indptr = {}; });
  invalid({"places.indptr is int32[0]", "at least 1"},
          [](Call& c) { c.places.indptr = c.places.indptr.slice(0, 0, 0); });
  invalid({"places.num_tokens is int32[7]", "[1]"},
          [](Call& c) { c.places.num_tokens = c.places.indices; });
  mismatch({"places.batch_indices is int64", "int32"},
           [this](Call& c) { c.places.batch_indices = tensor(DType::i64, {kTokens}, device()); });
  mismatch({"places.slots is int32", "int64"},
           [this](Call& c) { c.places = {.slots = tensor(DType::i32, {kTokens}, device())}; });
  mismatch({"places.num_refused is", "expected a tensor on " + to_string(device())},
           [this](Call& c) { c.places.num_refused = tensor(DType::i32, {1}, other()); });
  invalid({"places.indices is", "contiguous"}, [this](Call& c) {
    const std::int64_t shape[] = {7}, strides[] = {2};
    c.places.indices = TensorView(memory, DType::i32, shape, strides, device());
  });
}

TEST_P(ServiceArguments, RopeFitsTheKeys) {
  invalid({"rope.dim is 5", "even"}, [](Call& c) { c.rope.dim = 5; });
  invalid({"rope.dim is 10", "D_qk is 8"}, [](Call& c) { c.rope.dim = 10; });
  invalid({"rope.dim is -2"}, [](Call& c) { c.rope.dim = -2; });
  invalid({"rope.inv_freq is float32[4]", "[2]"}, [](Call& c) { c.rope.dim = 4; });
  invalid({"rope.positions is int32[7]", "[5]"},
          [](Call& c) { c.rope.positions = c.places.indices; });
  invalid({"rope.positions is missing", "slots"},
          [this](Call& c) { c.places = {.slots = tensor(DType::i64, {kTokens}, device())}; });
}

TEST_P(ServiceArguments, PagesAndPairsAgree) {
  const auto refuses_copy = [&](std::initializer_list<std::string> words, const auto& change) {
    const Call source(device());
    Call target(device());
    PagePairs pairs{.from = tensor(DType::i32, {6}, device()),
                    .to = tensor(DType::i32, {6}, device())};
    target.pool.k = TensorView(memory + 32, DType::f32, {9, kPage, kHeads, kDimK}, device());
    target.pool.v = TensorView(memory + 16, DType::f32, {9, kPage, kHeads, kDimV}, device());
    change(target.pool, pairs);
    expect_error(ErrorKind::invalid_argument, words,
                 [&] { copy_pages(source.pool, target.pool, pairs); });
  };
  refuses_copy({"pairs.to is int32[5]", "[6]"},
               [](KvPool&, PagePairs& pairs) { pairs.to = pairs.to.slice(0, 0, 5); });
  refuses_copy({"pairs.from is missing"}, [](KvPool&, PagePairs& pairs) { pairs.from = {}; });
  refuses_copy({"pairs.num_pairs is int32[6]"},
               [](KvPool&, PagePairs& pairs) { pairs.num_pairs = pairs.from; });
  refuses_copy({"target.k is float32[9, 3, 2, 4]", "source.k"},
               [](KvPool& target, PagePairs&) { target.k = target.k.slice(3, 0, 4); });
  refuses_copy({"target.v is missing"}, [](KvPool& target, PagePairs&) { target.v = {}; });
  refuses_copy({"expected two pools, or one"}, [](KvPool& target, PagePairs&) {
    target.k = TensorView(memory, DType::f32, target.k.shape(), target.k.device());
  });
}

TEST_P(ServiceArguments, StatesAgree) {
  const Device d = device();
  const TensorView o = tensor(DType::f32, {4, 2, 8}, d), lse = tensor(DType::f32, {4, 2}, d);
  const TensorView out(memory + 32, DType::f16, {4, 2, 8}, d);
  const auto pair = [&](const TensorView& o_b, const TensorView& lse_b, const TensorView& result,
                        const MergeOptions& options = {}) {
    return [=] { merge_states(o, lse, o_b, lse_b, result, {}, options); };
  };
  const auto expect_invalid = [](std::initializer_list<std::string> words, const auto& call) {
    expect_error(ErrorKind::invalid_argument, words, call);
  };
  expect_invalid({"o_b is float32[4, 2, 4]", "[4, 2, 8]"}, pair(o.slice(2, 0, 4), lse, out));
  expect_invalid({"lse_b is float32[4, 1]", "[4, 2]"}, pair(o, lse.slice(1, 0, 1), out));
  expect_invalid({"out is float16[2, 8]", "rank 3"}, pair(o, lse, out.select(0, 0)));
  expect_invalid({"out is missing"}, pair(o, lse, {}));
  expect_error(ErrorKind::type_mismatch, {"num_rows is float32", "int32"},
               pair(o, lse, out, {.num_rows = lse.select(0, 0)}));
  expect_error(ErrorKind::type_mismatch, {"o_b is float16", "dtype of o_a"}, pair(out, lse, out));
  expect_error(ErrorKind::type_mismatch, {"lse_b is", "expected a tensor on " + to_string(d)},
               pair(o, tensor(DType::f32, {4, 2}, other()), out));

  const TensorView many = tensor(DType::f32, {3, 4, 2, 8}, d);
  expect_invalid({"lse is float32[3, 4, 1]", "[3, 4, 2]"}, [&] {
    merge_states(many, tensor(DType::f32, {3, 4, 1}, d), out, {});
  });
  expect_invalid({"o is float32[4, 2, 8]", "[n_states, n, H, D]"},
                 [&] { merge_states(o, lse, out, {}); });
  expect_invalid({"indptr is int32[3]", "[5]"},
                 [&] { merge_states_ragged(o, lse, tensor(DType::i32, {3}, d), out, {}); });
}

INSTANTIATE_TEST_SUITE_P(Devices, ServiceArguments,
                         ::testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& kind) {
                           return kind.param == DeviceKind::cpu ? "cpu" : "cuda";
                         });

TEST(GpuServiceArguments, WhatKernelsDoNotTake) {
  Call c({DeviceKind::cuda, 0});
  const std::int64_t strides[] = {2 * kHeads * kDimK, 2 * kDimK, 2};
  const TensorView apart(memory, DType::bf16, c.k.shape(), strides, c.k.device());
  expect_error(ErrorKind::invalid_argument, {"k is", "stride 1 in the last dimension"},
               [&] { append_kv(apart, c.v, c.pool, c.places); });
  expect_error(ErrorKind::invalid_argument, {"k is", "stride 1 in the last dimension"},
               [&] { gather_kv(c.pool, c.places, apart, c.v); });
  const TensorView single = tensor(DType::f32, {kTokens, kHeads, kDimV});
  expect_error(ErrorKind::type_mismatch, {"k is bfloat16", "v is float32", "one dtype"},
               [&] { append_kv(c.k, single, c.pool, c.places); });
  const std::int64_t host[] = {0, 0, 0, 0, 0};
  BlockSparseView table;
  const std::int32_t indptr[] = {0, 2, 7};
  table.indptr = std::span<const std::int32_t>(indptr);
  expect_error(ErrorKind::type_mismatch, {"k_pool is", "TokenPlaces"}, [&] {
    append_kv(c.k, c.v, std::span<const std::int64_t>(host), std::span<const std::int64_t>(host),
              c.pool.k, c.pool.v, table);
  });
  const TensorView o = tensor(DType::f32, {2, 2, 8}), lse = tensor(DType::f32, {2, 2});
  expect_error(ErrorKind::type_mismatch, {"out is", "indptr is a tensor"}, [&] {
    merge_states_ragged(o, lse, std::vector<std::int32_t>{0, 1, 2},
                        TensorView(memory + 32, DType::f32, {2, 2, 8}, o.device()), {});
  });
  const TensorView huge(memory, DType::f16, {std::int64_t{1} << 31, kPage, kHeads, kDimK},
                        c.k.device());
  expect_error(ErrorKind::not_supported, {"number of pages is 2147483648"},
               [&] { append_kv(c.k, {}, {.k = huge}, c.places); });
}

}  // namespace
}  // namespace trencadis::testing
