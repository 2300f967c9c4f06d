#include "engine/kv_arguments.h"

#include <array>

#include "base/check.h"
#include "engine/argument.h"

namespace trencadis::engine {
namespace {

using base::check;

constexpr int kPageRank = 4;

int token_dim(KvLayout layout) {
  return layout == KvLayout::nhd ? 1 : 2;
}

/// What a GPU's kernels ask for beyond that.
void check_rows_of_kernels(const char* name, const TensorView& tensor) {
  if (tensor.device().kind == DeviceKind::cuda) Argument(name, tensor).expect_unit_stride();
}

void check_one_dtype(const char* k_name, const TensorView& k, const char* v_name,
                     const TensorView& v) {
  if (k.device().kind != DeviceKind::cuda || k.dtype() == v.dtype()) return;
  base::fail(ErrorKind::type_mismatch, "{} is {} and {} is {}, expected one dtype on a GPU", k_name,
             k, v_name, v);
}

void check_pool(const char* k_name, const char* v_name, const KvPool& pool, Device device) {
  const TensorView &k = pool.k, &v = pool.v;
  const bool nhd = pool.layout == KvLayout::nhd;
  const Argument keys(k_name, k);
  keys.expect_floating(device, kPageRank,
                       nhd ? "[pages, P, H_kv, D_qk]" : "[pages, H_kv, P, D_qk]");
  check(k.size(token_dim(pool.layout)) > 0, "{} is {}, expected pages of 1 token or more", k_name,
        k);
  check_rows_of_kernels(k_name, k);
  if (!v.defined()) return;
  const Argument values(v_name, v);
  values.expect_floating(device, kPageRank,
                         nhd ? "[pages, P, H_kv, D_vo]" : "[pages, H_kv, P, D_vo]");
  for (const int dim : {0, 1, 2})
    check(v.size(dim) == k.size(dim), "{} is {}, expected the pages, page size and heads of {}, {}",
          v_name, v, k_name, k);
  check_rows_of_kernels(v_name, v);
  check_one_dtype(k_name, k, v_name, v);
}

void check_rows(const char* name, const TensorView& rows, const TensorView& pages, KvLayout layout,
                std::int64_t tokens) {
  const Argument argument(name, rows);
  argument.expect_floating(pages.device(), 3, "[tokens, H_kv, D]");
  argument.expect_shape(std::array{tokens, pages.size(3 - token_dim(layout)), pages.size(3)});
  check_rows_of_kernels(name, rows);
}

/// A count or a counter that may be left out.
void check_number(const char* name, const TensorView& tensor, Device device) {
  if (tensor.defined()) Argument(name, tensor).expect_array(DType::i32, device, 1);
}

}  // namespace

void check_tokens(const KvNames& names, const TensorView& k, const TensorView& v,
                  const KvPool& pool, std::int64_t tokens) {
  check_pool(names.pool_k, names.pool_v, pool, pool.k.device());
  check(v.defined() == pool.v.defined(), "{} is {}, but {} is {}: expected both or neither",
        names.v, v.defined() ? "given" : "missing", names.pool_v,
        pool.v.defined() ? "given" : "missing");
  check_rows(names.k, k, pool.k, pool.layout, tokens);
  if (!v.defined()) return;
  check_rows(names.v, v, pool.v, pool.layout, tokens);
  check_one_dtype(names.k, k, names.v, v);
}

std::int64_t check_places(const TokenPlaces& places, Device device) {
  check_number("places.num_tokens", places.num_tokens, device);
  check_number("places.num_refused", places.num_refused, device);
  if (places.slots.defined()) {
    check(!places.batch_indices.defined() && !places.positions.defined() &&
              !places.indptr.defined() && !places.indices.defined(),
          "places has slots and other arrays beside them, expected one way to name a place");
    Argument("places.slots", places.slots).expect_array(DType::i64, device);
    return places.slots.size(0);
  }
  check(places.batch_indices.defined(),
        "places has no batch_indices and no slots, expected one of them");
  Argument("places.batch_indices", places.batch_indices).expect_array(DType::i32, device);
  const std::int64_t capacity = places.batch_indices.size(0);
  Argument("places.positions", places.positions).expect_array(DType::i32, device, capacity);
  const Argument indptr("places.indptr", places.indptr);
  indptr.expect_array(DType::i32, device);
  indptr.expect_at_least(0, 1, "entries");
  if (places.indices.defined())
    Argument("places.indices", places.indices).expect_array(DType::i32, device);
  return capacity;
}

void check_rope(const AppendRope& rope, const TokenPlaces& places, std::int64_t head_dim,
                std::int64_t tokens, Device device) {
  const std::int64_t dim = rope.dim == 0 ? head_dim : rope.dim;
  check(dim > 0 && dim % 2 == 0 && dim <= head_dim,
        "rope.dim is {} and D_qk is {}, expected an even number of at most D_qk elements to "
        "rotate{}",
        rope.dim, head_dim, rope.dim == 0 ? "; 0 means all of them" : "");
  Argument("rope.inv_freq", rope.inv_freq).expect_array(DType::f32, device, dim / 2);
  if (rope.positions.defined())
    Argument("rope.positions", rope.positions).expect_array(DType::i32, device, tokens);
  else
    check(!places.slots.defined(),
          "rope.positions is missing: expected with slots, which tell no positions");
}

void check_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs) {
  const Device device = source.k.device();
  check_pool("source.k", "source.v", source, device);
  check_pool("target.k", "target.v", target, device);
  check(source.v.defined() == target.v.defined(),
        "source.v is {}, but target.v is {}: expected both or neither",
        source.v.defined() ? "given" : "missing", target.v.defined() ? "given" : "missing");
  const auto check_like = [&](const char* name, const TensorView& to, const char* from_name,
                              const TensorView& from) {
    const int token_to = token_dim(target.layout), token_from = token_dim(source.layout);
    check(to.size(token_to) == from.size(token_from) &&
              to.size(3 - token_to) == from.size(3 - token_from) && to.size(3) == from.size(3),
          "{} is {}, expected the page size, heads and head dim of {}, {}", name, to, from_name,
          from);
  };
  check_like("target.k", target.k, "source.k", source.k);
  if (source.v.defined()) check_like("target.v", target.v, "source.v", source.v);

  // Two views that begin in one place are one pool, whose pages are known by number.
  const auto same = [&](const TensorView& a, const TensorView& b) {
    return a.data() == b.data() && a.num_elements() > 0 && b.num_elements() > 0;
  };
  const auto alike = [&](const TensorView& a, const TensorView& b) {
    return a.dtype() == b.dtype() && source.layout == target.layout &&
           std::ranges::equal(a.strides(), b.strides());
  };
  if (same(source.k, target.k) || (source.v.defined() && same(source.v, target.v)))
    check(same(source.k, target.k) && alike(source.k, target.k) &&
              (!source.v.defined() || (same(source.v, target.v) && alike(source.v, target.v))),
          "source is {} and {}, target {} and {}: expected two pools, or one with the same dtype, "
          "layout and strides",
          source.k, source.v, target.k, target.v);

  Argument("pairs.from", pairs.from).expect_array(DType::i32, device);
  Argument("pairs.to", pairs.to).expect_array(DType::i32, device, pairs.from.size(0));
  check_number("pairs.num_pairs", pairs.num_pairs, device);
  check_number("pairs.num_refused", pairs.num_refused, device);
}

}  // namespace trencadis::engine
