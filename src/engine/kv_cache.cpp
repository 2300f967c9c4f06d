// The functions of kv_cache.h: checks, then the backend of the tensors' device.
#include <trencadis/kv_cache.h>

#include "backends/cpu/append.h"
#include "backends/cpu/copy_pages.h"
#include "backends/cuda/append.h"
#include "backends/cuda/copy_pages.h"
#include "base/check.h"
#include "engine/kv_arguments.h"

namespace trencadis {
namespace {

bool on_cpu(const TensorView& tensor) {
  return tensor.device().kind == DeviceKind::cpu;
}

/// The table of the form with host arrays, as far as shapes tell.
void check_table(const BlockSparseView& table) {
  base::check(!table.indptr.empty(), "the table's indptr is empty, expected [requests + 1]");
  base::check(
      table.row_requests.empty() && table.positions.empty(),
      "the table lists blocks by row and position; expected a page table, one row a request");
}

}  // namespace

void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const TokenPlaces& places, const AppendOptions& options) {
  const Device device = pool.k.device();
  const std::int64_t tokens = engine::check_places(places, device);
  engine::check_tokens({}, k, v, pool, tokens);
  if (options.rope) engine::check_rope(*options.rope, places, pool.k.size(3), tokens, device);
  if (on_cpu(pool.k))
    cpu::append_kv(k, v, pool, cpu::host_places(places, pool),
                   options.rope ? cpu::host_rope(*options.rope, places, pool) : cpu::HostRope{});
  else
    cuda::append_kv(k, v, pool, places, options);
}

void append_kv(const TensorView& k_new, const TensorView& v_new, IndexSpan batch_indices,
               IndexSpan positions, const TensorView& k_pool, const TensorView& v_pool,
               const BlockSparseView& table, KvLayout layout) {
  const KvPool pool{.k = k_pool, .v = v_pool, .layout = layout};
  const std::size_t tokens = batch_indices.size();
  base::check(positions.size() == tokens, "positions has {} entries, batch_indices {}",
              positions.size(), tokens);
  check_table(table);
  if (!on_cpu(k_pool))
    base::fail(ErrorKind::type_mismatch,
               "k_pool is {}, expected a tensor on the CPU: with a GPU's pool, give TokenPlaces on "
               "it",
               k_pool);
  engine::check_tokens({.k = "k_new", .v = "v_new", .pool_k = "k_pool", .pool_v = "v_pool"}, k_new,
                       v_new, pool, static_cast<std::int64_t>(tokens));
  cpu::HostPlaces places = cpu::host_places({}, pool);
  base::check(places.page_size == table.block_cols,
              "k_pool has pages of {} tokens, the table's are {}", places.page_size,
              table.block_cols);
  places.batch_indices = batch_indices;
  places.positions = positions;
  places.indptr = table.indptr;
  places.indices = table.indices;
  places.indexed = !table.indices.empty();
  places.tokens = tokens;
  cpu::append_kv(k_new, v_new, pool, places, {});
}

void gather_kv(const KvPool& pool, const TokenPlaces& places, const TensorView& k,
               const TensorView& v, void* stream) {
  const std::int64_t tokens = engine::check_places(places, pool.k.device());
  engine::check_tokens({}, k, v, pool, tokens);
  if (on_cpu(pool.k))
    cpu::gather_kv(pool, cpu::host_places(places, pool), k, v);
  else
    cuda::gather_kv(pool, places, k, v, stream);
}

void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs, void* stream) {
  engine::check_pages(source, target, pairs);
  if (on_cpu(source.k))
    cpu::copy_pages(source, target, pairs);
  else
    cuda::copy_pages(source, target, pairs, stream);
}

}  // namespace trencadis
