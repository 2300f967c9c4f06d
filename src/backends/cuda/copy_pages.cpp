#include "backends/cuda/copy_pages.h"

#include <algorithm>

#include "backends/cuda/service_arguments.h"
#include "backends/cuda/service_kernels.h"
#include "contract/append.h"

namespace trencadis::cuda {

void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs, void* stream) {
  const std::int64_t page_size = page_size_of(source.k, source.layout);
  const std::int64_t heads = heads_of(source.k, source.layout);
  if (pairs.from.size(0) == 0 || heads == 0) return;
  const contract::CopyPagesParams params{
      .k_from = paged_rows(source.k, source.layout),
      .v_from = paged_rows(source.v, source.layout),
      .k_to = paged_rows(target.k, target.layout),
      .v_to = paged_rows(target.v, target.layout),
      .from = pairs.from.data_as<const std::int32_t>(),
      .to = pairs.to.data_as<const std::int32_t>(),
      .num_pairs = pairs.num_pairs.data_as<const std::int32_t>(),
      .num_refused = pairs.num_refused.data_as<std::int32_t>(),
      .capacity = pairs.from.size(0),
      .from_pages = count32("the number of the source's pages", source.k.size(0)),
      .to_pages = count32("the number of the target's pages", target.k.size(0)),
      .page_size = count32("P", page_size),
      .num_kv_heads = count32("H_kv", heads),
      .head_dim_qk = count32("D_qk", dim_of(source.k)),
      .head_dim_vo = count32("D_vo", dim_of(source.v))};
  count32("P times H_kv", page_size * heads);  // rows of a page
  const DType from = source.k.dtype(), to = target.k.dtype();
  launch_service(
      {.service = codegen::Service::copy_pages,
       .from = from,
       .to = to,
       .ordinal = source.k.device().index,
       .bytes = static_cast<double>(params.capacity) * static_cast<double>(page_size * heads) *
                (static_cast<double>(params.head_dim_qk) + params.head_dim_vo) *
                static_cast<double>(std::max(size_of(from), size_of(to))),
       .stream = stream},
      &params);
}

}  // namespace trencadis::cuda
