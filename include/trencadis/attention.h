// plan() looks at lengths on the host; run() executes the plan, once a layer.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/plan.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trencadis {

enum class KvLayout : std::uint8_t {
  nhd,  // paged [pages, P, H_kv, D]; ragged [nnz_kv, H_kv, D]
  hnd,  // paged [pages, H_kv, P, D]; ragged [H_kv, nnz_kv, D]
};

enum class BackendKind : std::uint8_t { automatic, cpu, cuda, reference };

std::string_view to_string(BackendKind kind) noexcept;
/// "auto", "cpu", "cuda", "reference". Throws Error(invalid_argument).
BackendKind parse_backend(std::string_view name);

struct AttentionConfig {
  Heads heads = {};
  std::int64_t page_size = 16;  // B_c of the plans that follow
  KvLayout layout = KvLayout::nhd;
  BackendKind backend = BackendKind::automatic;
  int device_index = 0;
  int num_threads = 0;  // CPU; 0: all that the process may use
  Limits limits = {};
  PlanOptions plan = {};
  double sm_scale = 0.0;  // 0: 1 / sqrt(D_qk)
  /// A uint8 tensor [bytes] on the backend's device for plans and partial states, of this object
  /// alone. Undefined: the engine owns one. Its size is checked at construction where limits are
  /// given, else at plan().
  TensorView workspace = {};
  /// The debug mode; $TRENCADIS_DEBUG_CHECKS=1 turns it on for all objects. On CUDA each run()
  /// waits for its stream, checks on the device that the plan there is whole and that its page ids
  /// lie in the pool of k and v, and waits again behind its launch, so that a kernel that fails is
  /// named. It cannot be captured. The CPU, whose plans and page ids stay on the host, checks the
  /// ids anew.
  bool debug_checks = false;
};

/// Arguments of one run(). Nothing here is kept.
struct RunArgs {
  TensorView q = {};    // [nnz_q, H_q, D_qk]
  TensorView k = {};    // the pool, or ragged keys, in the config's layout
  TensorView v = {};    // likewise, with D_vo; strides may differ from k's
  TensorView out = {};  // [nnz_q, H_q, D_vo]; every row is written
  /// float32 [nnz_q, H_q]; undefined: not wanted. The logarithm of the denominator without the
  /// sinks, which belong to a state only after its last merge.
  TensorView lse = {};
  TensorView sinks = {};                     // float32 [H_q]; due iff the variant has sinks
  std::span<const TensorView> tensors = {};  // the variant's extra tensors in declared order
  std::span<const double> scalars = {};      // empty: the spec's values; else one a declared scalar
  void* stream = nullptr;                    // CUDA stream; the CPU runs before it returns
};

/// One attention operator, set up once and used for every step and layer. Not for concurrent use by
/// several threads, nor for runs that overlap on a device, as those of two streams or of graphs on
/// them: they share partial states. Several objects are independent, with workspaces of their own.
class Attention {
 public:
  /// Chooses a backend and obtains the kernels (built in, cached or compiled). Throws
  /// Error(not_supported) with each backend's reason, compile_failed, invalid_argument,
  /// out_of_capacity.
  Attention(const AttentionSpec& spec, const AttentionConfig& config);
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  /// Validates and schedules. On error the previous plan stays in force. On CUDA the plan is copied
  /// in the order of `stream`, which the runs that follow are ordered behind; with limits set, a
  /// graph that captured run() executes it. Throws Error(invalid_argument | out_of_capacity), and
  /// Error(device) where the copy fails.
  void plan(const PlanInput& input, void* stream = nullptr);

  /// The common case: a page table in CSR form. Spans are borrowed until the last run of the plan.
  void plan(IndexSpan qo_indptr, IndexSpan kv_indptr, IndexSpan kv_indices, IndexSpan kv_lens,
            void* stream = nullptr);

  /// One request whose keys and values lie one after another, in tensors of rank 3 from their first
  /// token on: no table is needed. The work is spread over the whole device, decode and prefill
  /// alike. Throws as plan().
  void plan_single(std::int64_t num_qo_tokens, std::int64_t num_kv_tokens, void* stream = nullptr);

  /// Executes the current plan. Throws Error(invalid_argument | type_mismatch) before anything is
  /// written, naming the tensor; Error(device) that names the kernel, where an earlier one failed
  /// those that may have. With debug_checks, before anything is written: Error(invalid_argument)
  /// that names request and page id where that lies beyond the pool, and where the stream is being
  /// captured; Error(internal) where the plan on the device is not as plan() wrote it.
  void run(const RunArgs& args);

  const AttentionSpec& spec() const;
  const AttentionConfig& config() const;
  BackendKind backend() const;
  const DeviceLimits& device_limits() const;
  /// The plan in force. Throws Error(invalid_argument) before the first plan().
  const Plan& current_plan() const;
  std::string explain() const;

  /// Bytes that suffice for every plan within limits: a proven bound. Limits must be set.
  static std::int64_t workspace_bytes(const AttentionSpec& spec, const AttentionConfig& config);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trencadis
