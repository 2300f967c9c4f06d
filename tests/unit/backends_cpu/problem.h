// A random attention problem over a paged pool, a plan made by hand for it, and the answer in
// float64. The pool is full of NaN but for the tokens that requests own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_executor.h"
#include "base/float16.h"
#include "contract/params.h"
#include "contract/plan.h"

namespace trencadis::testing {

using contract::Storage;

inline DType dtype_of(Storage storage) {
  return storage == Storage::f32 ? DType::f32 : storage == Storage::f16 ? DType::f16 : DType::bf16;
}

/// A buffer of one storage type that is read and written as double.
class Buffer {
 public:
  Buffer(Storage type, std::int64_t size, double fill) : type_(type), bytes_(size * width()) {
    for (std::int64_t i = 0; i < size; ++i) set(i, fill);
  }

  void set(std::int64_t i, double value) {
    const auto f = static_cast<float>(value);
    const std::uint16_t half =
        type_ == Storage::f16 ? base::float_to_f16(f) : base::float_to_bf16(f);
    if (type_ == Storage::f32)
      std::memcpy(&bytes_[i * 4], &f, 4);
    else
      std::memcpy(&bytes_[i * 2], &half, 2);
  }
  double get(std::int64_t i) const {
    float f;
    std::uint16_t half;
    if (type_ == Storage::f32) return std::memcpy(&f, &bytes_[i * 4], 4), f;
    std::memcpy(&half, &bytes_[i * 2], 2);
    return type_ == Storage::f16 ? base::f16_to_float(half) : base::bf16_to_float(half);
  }
  void* data() { return bytes_.data(); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  std::int64_t width() const { return type_ == Storage::f32 ? 4 : 2; }
  Storage type_;
  std::vector<unsigned char> bytes_;
};

struct Shape {
  int heads_kv = 2, group = 2, dim_qk = 64, dim_vo = 64, page = 16;
  Storage q = Storage::f32, kv = Storage::f32, o = Storage::f32;
  bool hnd = false;
  std::vector<std::int32_t> qo_lens, kv_lens;
  std::int64_t left = -1, right = -1;
  bool use_softmax = true, sinks = false, base_two = false;
  double garbage = std::numeric_limits<double>::quiet_NaN();
  int head_padding = 0;  // elements between heads, in every tensor
  unsigned seed = 1;

  int heads() const { return heads_kv * group; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(dim_qk)); }
};

/// Tensors of a shape; params() points into them.
struct Tensors {
  explicit Tensors(const Shape& s)
      : shape(s),
        row_q(s.dim_qk + s.head_padding),
        row_v(s.dim_vo + s.head_padding),
        tokens(std::accumulate(s.qo_lens.begin(), s.qo_lens.end(), 0)),
        pages(count_pages(s) + 3),
        q(s.q, tokens * s.heads() * row_q, s.garbage),
        k(s.kv, pages * s.page * s.heads_kv * row_q, s.garbage),
        v(s.kv, pages * s.page * s.heads_kv * row_v, s.garbage),
        o(s.o, tokens * s.heads() * row_v, std::numeric_limits<double>::quiet_NaN()),
        lse(tokens * s.heads(), 123.0f) {
    std::mt19937 random(s.seed);
    std::normal_distribution<double> normal;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(pages));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    qo_indptr = {0};
    indptr = {0};
    for (std::size_t b = 0; b < s.kv_lens.size(); ++b) {
      qo_indptr.push_back(qo_indptr.back() + s.qo_lens[b]);
      indptr.push_back(indptr.back() + (s.kv_lens[b] + s.page - 1) / s.page);
    }
    indices.assign(ids.begin(), ids.begin() + indptr.back());
    for (std::int64_t i = 0; i < tokens * s.heads(); ++i)
      for (int d = 0; d < s.dim_qk; ++d) q.set(i * row_q + d, normal(random));
    for (std::size_t b = 0; b < s.kv_lens.size(); ++b)
      for (int t = 0; t < s.kv_lens[b]; ++t)
        for (int h = 0; h < s.heads_kv; ++h) {
          for (int d = 0; d < s.dim_qk; ++d) k.set(kv_row(b, t, h) * row_q + d, normal(random));
          for (int d = 0; d < s.dim_vo; ++d) v.set(kv_row(b, t, h) * row_v + d, normal(random));
        }
    for (int h = 0; h < s.heads(); ++h) sinks.push_back(static_cast<float>(normal(random)));
  }

  static std::int64_t count_pages(const Shape& s) {
    std::int64_t n = 0;
    for (const int length : s.kv_lens) n += (length + s.page - 1) / s.page;
    return n;
  }

  /// Row of the pool of token t of request b, in rows of one head.
  std::int64_t kv_row(std::size_t b, int t, int h) const {
    const std::int64_t block = indices[static_cast<std::size_t>(indptr[b] + t / shape.page)];
    const std::int64_t offset = t % shape.page;
    return shape.hnd ? (block * shape.heads_kv + h) * shape.page + offset
                     : (block * shape.page + offset) * shape.heads_kv + h;
  }

  contract::AttentionParams params() {
    contract::AttentionParams p{};
    const Shape& s = shape;
    const std::int64_t heads = s.heads(), heads_kv = s.heads_kv, page = s.page;
    p.q = q.data(), p.q_stride_token = heads * row_q, p.q_stride_head = row_q;
    p.k = k.data(), p.k_stride_page = page * heads_kv * row_q;
    p.v = v.data(), p.v_stride_page = page * heads_kv * row_v;
    p.k_stride_token = s.hnd ? row_q : heads_kv * row_q;
    p.k_stride_head = s.hnd ? page * row_q : row_q;
    p.v_stride_token = s.hnd ? row_v : heads_kv * row_v;
    p.v_stride_head = s.hnd ? page * row_v : row_v;
    p.o = o.data(), p.o_stride_token = heads * row_v, p.o_stride_head = row_v;
    p.lse = lse.data(), p.lse_stride_token = heads, p.lse_stride_head = 1;
    p.q_type = s.q, p.kv_type = s.kv, p.o_type = s.o;
    p.num_qo_heads = s.heads(), p.num_kv_heads = s.heads_kv;
    p.head_dim_qk = s.dim_qk, p.head_dim_vo = s.dim_vo;
    p.batch = static_cast<std::int32_t>(s.kv_lens.size());
    p.use_softmax = s.use_softmax, p.lse_base_two = s.base_two;
    p.qo_indptr = qo_indptr.data(), p.kv_lens = shape.kv_lens.data();
    p.kv = {indptr.data(), indices.data(), nullptr, shape.kv_lens.data(), page};
    p.bounds = {s.left, s.right};
    p.sm_scale = static_cast<float>(s.scale());
    p.sinks = s.sinks ? sinks.data() : nullptr;
    return p;
  }

  Shape shape;
  std::int64_t row_q, row_v, tokens, pages;
  Buffer q, k, v, o;
  std::vector<float> lse, sinks;
  std::vector<std::int32_t> qo_indptr, indptr, indices;
};

/// A plan of one tile class: each request's rows in blocks of q_rows, each KV range in chunks of
/// `chunk` tokens (0: whole). Heads share items, and each (item, head) is dealt to the queues in
/// turn.
class HandPlan {
 public:
  HandPlan(const Shape& s, int q_rows, int kv_tokens, int chunk, int queues) {
    contract::PlanHeader header{};
    header.num_tile_classes = 1;
    header.tile_classes[0] = {q_rows, kv_tokens};
    header.slot_rows = q_rows;
    std::vector<std::vector<contract::WorkSegment>> dealt(static_cast<std::size_t>(queues));
    std::size_t turn = 0;
    for (std::size_t b = 0; b < s.kv_lens.size(); ++b)
      for (int row = 0; row < s.qo_lens[b] * s.group; row += q_rows) {
        const auto block = static_cast<std::int32_t>(blocks_.size());
        const int rows = std::min(q_rows, s.qo_lens[b] * s.group - row);
        blocks_.push_back({static_cast<std::int32_t>(b), static_cast<std::int32_t>(b), row,
                           static_cast<std::uint16_t>(rows), 0, 0});
        const int length = s.kv_lens[b];
        const int step = chunk > 0 ? chunk : std::max(1, length);
        const int parts = std::max(1, (length + step - 1) / step);
        const auto first = static_cast<std::int32_t>(items_.size());
        for (int i = 0; i < parts; ++i)
          items_.push_back({block, i * step, std::min(length, (i + 1) * step),
                            parts > 1 ? i : contract::kWriteThrough});
        for (int h = 0; h < s.heads_kv; ++h) {
          for (int i = first; i < first + parts; ++i)
            dealt[turn++ % dealt.size()].push_back({h, i, i + 1, header.num_slots});
          if (parts == 1) continue;
          merges_.push_back({block, h, header.num_slots, parts});
          header.num_slots += parts;
        }
      }
    for (const auto& queue : dealt) {
      const auto begin = static_cast<std::int32_t>(segments_.size());
      segments_.insert(segments_.end(), queue.begin(), queue.end());
      queues_.push_back({begin, static_cast<std::int32_t>(segments_.size())});
    }
    write(header);
    partial_o_.assign(static_cast<std::size_t>(header.num_slots) * q_rows * s.dim_vo, NAN);
    partial_lse_.assign(static_cast<std::size_t>(header.num_slots) * q_rows, NAN);
  }

  contract::PlanView view() const {
    return {reinterpret_cast<const contract::PlanHeader*>(bytes_.data())};
  }
  void bind(contract::AttentionParams& p) {
    p.partial_o = partial_o_.data();
    p.partial_lse = partial_lse_.data();
  }

 private:
  template <class T>
  std::int64_t append(const std::vector<T>& section) {
    const std::size_t offset = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(offset + section.size() * sizeof(T));
    if (!section.empty())
      std::memcpy(bytes_.data() + offset, section.data(), section.size() * sizeof(T));
    return static_cast<std::int64_t>(offset);
  }
  void write(contract::PlanHeader header) {
    header.num_row_blocks = static_cast<std::int32_t>(blocks_.size());
    header.num_items = static_cast<std::int32_t>(items_.size());
    header.num_segments = static_cast<std::int32_t>(segments_.size());
    header.num_queues = static_cast<std::int32_t>(queues_.size());
    header.num_merges = static_cast<std::int32_t>(merges_.size());
    bytes_.resize(sizeof header);
    header.row_blocks_offset = append(blocks_);
    header.items_offset = append(items_);
    header.segments_offset = append(segments_);
    header.queues_offset = append(queues_);
    header.merges_offset = append(merges_);
    header.bytes = static_cast<std::int64_t>(bytes_.size());
    std::memcpy(bytes_.data(), &header, sizeof header);
  }

  std::vector<contract::RowBlock> blocks_;
  std::vector<contract::WorkItem> items_;
  std::vector<contract::WorkSegment> segments_;
  std::vector<contract::WorkQueue> queues_;
  std::vector<contract::MergeGroup> merges_;
  std::vector<std::byte> bytes_;
  std::vector<float> partial_o_, partial_lse_;
};

/// o and lse of every row in float64, by the definition.
struct Answer {
  std::vector<double> o, lse;
};
inline Answer solve(const Tensors& t) {
  const Shape& s = t.shape;
  Answer answer;
  for (std::size_t b = 0; b < s.kv_lens.size(); ++b)
    for (int i = 0; i < s.qo_lens[b]; ++i)
      for (int h = 0; h < s.heads(); ++h) {
        const std::int64_t row = (t.qo_indptr[b] + i) * std::int64_t{s.heads()} + h;
        const std::int64_t at = i + s.kv_lens[b] - s.qo_lens[b];
        std::vector<double> logits;
        std::vector<int> keys;
        for (int j = 0; j < s.kv_lens[b]; ++j) {
          if ((s.left >= 0 && j < at - s.left) || (s.right >= 0 && j > at + s.right)) continue;
          double dot = 0;
          for (int d = 0; d < s.dim_qk; ++d)
            dot += t.q.get(row * t.row_q + d) * t.k.get(t.kv_row(b, j, h / s.group) * t.row_q + d);
          logits.push_back(dot * s.scale());
          keys.push_back(j);
        }
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (const double logit : logits) top = std::max(top, logit);
        std::vector<double> o(static_cast<std::size_t>(s.dim_vo), 0.0);
        for (std::size_t j = 0; j < keys.size(); ++j) {
          const double weight = s.use_softmax ? std::exp(logits[j] - top) : logits[j];
          sum += weight;
          for (int d = 0; d < s.dim_vo; ++d)
            o[d] += weight * t.v.get(t.kv_row(b, keys[j], h / s.group) * t.row_v + d);
        }
        const double sink = s.sinks ? std::exp(t.sinks[h] - top) : 0.0;
        for (double& x : o) {
          if (s.use_softmax) x = keys.empty() ? 0.0 : x / (sum + sink);
          answer.o.push_back(x);
        }
        const double lse = top + std::log(sum);
        answer.lse.push_back(keys.empty() ? -std::numeric_limits<double>::infinity()
                             : s.base_two ? lse * std::numbers::log2e
                                          : lse);
      }
  return answer;
}

/// A thread pool and scratch for a shape, on one instruction set.
inline cpu::CpuExecutor make_executor(const Shape& s, const cpu::Microkernels& simd,
                                      int threads = 2) {
  AttentionSpec spec;
  spec.head_dim_qk = s.dim_qk;
  spec.head_dim_vo = s.dim_vo;
  spec.dtype_q = dtype_of(s.q), spec.dtype_kv = dtype_of(s.kv), spec.dtype_o = dtype_of(s.o);
  return {spec, cpu::resolve_variant(spec.variant), simd, threads};
}

}  // namespace trencadis::testing
