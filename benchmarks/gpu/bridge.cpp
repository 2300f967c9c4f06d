// A C ABI of one Attention for ctypes, so that a Python program that owns memory, streams and
// graphs can run it beside other libraries. gpu/bridge.py is its other side.
//
// Every function but the destructor and trencadis_bench_error returns 0, or 1 after an exception,
// whose text trencadis_bench_error gives. Not for concurrent use.
#include <trencadis/trencadis.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define TRENCADIS_BENCH_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace trencadis;
using Json = nlohmann::json;

constexpr int kMaxRank = 4;

/// As gpu/bridge.py declares it. Shape and strides in elements.
struct ForeignTensor {
  void* data;
  const char* dtype;
  std::int64_t rank;
  std::int64_t shape[kMaxRank];
  std::int64_t strides[kMaxRank];
};

std::string& last_error() {
  static std::string text;
  return text;
}

template <class Function>
int guarded(Function&& function) {
  try {
    function();
    return 0;
  } catch (const std::exception& error) {
    last_error() = error.what();
  } catch (...) {
    last_error() = "an exception that is no std::exception";
  }
  return 1;
}

void expect_keys(const Json& object, const char* where, std::initializer_list<const char*> known) {
  for (const auto& item : object.items()) {
    const bool found =
        std::any_of(known.begin(), known.end(), [&](const char* key) { return item.key() == key; });
    if (!found) throw std::invalid_argument(std::string(where) + " has no key " + item.key());
  }
}

template <class Enum>
Enum choose(const Json& object, const char* key,
            std::initializer_list<std::pair<const char*, Enum>> choices) {
  const std::string text = object.value(key, choices.begin()->first);
  for (const auto& [name, value] : choices)
    if (text == name) return value;
  throw std::invalid_argument(std::string(key) + " cannot be " + text);
}

AttentionConfig parse_config(const Json& json) {
  expect_keys(json, "the configuration",
              {"spec", "qo_heads", "kv_heads", "page_size", "backend", "limits", "plan"});
  AttentionConfig config;
  config.heads = {json.at("qo_heads").get<int>(), json.at("kv_heads").get<int>()};
  config.page_size = json.at("page_size").get<std::int64_t>();
  config.backend = parse_backend(json.value("backend", "cuda"));

  const Json limits = json.value("limits", Json::object());
  expect_keys(limits, "limits", {"max_batch", "max_qo_tokens", "max_pages", "max_kv_tokens"});
  config.limits.max_batch = limits.value("max_batch", std::int64_t{0});
  config.limits.max_qo_tokens = limits.value("max_qo_tokens", std::int64_t{0});
  config.limits.max_pages = limits.value("max_pages", std::int64_t{0});
  config.limits.max_kv_tokens = limits.value("max_kv_tokens", std::int64_t{0});

  const Json plan = json.value("plan", Json::object());
  expect_keys(plan, "plan", {"split", "scheduler"});
  config.plan.split = choose<SplitMode>(
      plan, "split", {{"automatic", SplitMode::automatic}, {"none", SplitMode::none}});
  config.plan.scheduler = choose<Scheduler>(plan, "scheduler",
                                            {{"automatic", Scheduler::automatic},
                                             {"even_cut", Scheduler::even_cut},
                                             {"longest_first", Scheduler::longest_first},
                                             {"l2_windows", Scheduler::l2_windows}});
  return config;
}

/// Median of the nanoseconds of `count` calls, each by itself.
template <class Function>
std::int64_t median_ns(std::int64_t count, Function&& function) {
  using Clock = std::chrono::steady_clock;
  if (count < 1) throw std::invalid_argument("count is not positive");
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
  for (std::int64_t& sample : samples) {
    const Clock::time_point start = Clock::now();
    function();
    sample = std::chrono::nanoseconds(Clock::now() - start).count();
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace

/// An Attention, the host arrays of its plan and the arguments of its runs.
class TrencadisBench {
 public:
  explicit TrencadisBench(const Json& json)
      : attention_(parse_spec(json.at("spec").dump()), parse_config(json)) {
    const bool cuda = attention_.backend() == BackendKind::cuda;
    device_ = {cuda ? DeviceKind::cuda : DeviceKind::cpu, attention_.config().device_index};
  }

  void set_table(std::int64_t batch, const std::int32_t* qo_indptr, const std::int32_t* kv_indptr,
                 const std::int32_t* kv_indices, const std::int32_t* kv_lens) {
    const auto requests = static_cast<std::size_t>(batch);
    single_ = false;
    qo_indptr_.assign(qo_indptr, qo_indptr + requests + 1);
    kv_indptr_.assign(kv_indptr, kv_indptr + requests + 1);
    kv_lens_.assign(kv_lens, kv_lens + requests);
    kv_indices_.clear();
    if (kv_indices != nullptr) kv_indices_.assign(kv_indices, kv_indices + kv_indptr_.back());
  }
  void set_single(std::int64_t num_qo_tokens, std::int64_t num_kv_tokens) {
    single_ = true;
    num_qo_tokens_ = num_qo_tokens;
    num_kv_tokens_ = num_kv_tokens;
  }
  void plan(void* stream) {
    if (single_)
      attention_.plan_single(num_qo_tokens_, num_kv_tokens_, stream);
    else
      attention_.plan(qo_indptr_, kv_indptr_, kv_indices_, kv_lens_, stream);
  }

  std::int64_t bind(const ForeignTensor& q, const ForeignTensor& k, const ForeignTensor& v,
                    const ForeignTensor& out, std::span<const ForeignTensor> extra) {
    auto binding = std::make_unique<Binding>();
    for (const ForeignTensor& tensor : extra) binding->tensors.push_back(view(tensor));
    binding->args.q = view(q);
    binding->args.k = view(k);
    binding->args.v = view(v);
    binding->args.out = view(out);
    binding->args.tensors = binding->tensors;
    bindings_.push_back(std::move(binding));
    return static_cast<std::int64_t>(bindings_.size()) - 1;
  }
  RunArgs& arguments(std::int64_t binding, void* stream) {
    RunArgs& args = bindings_.at(static_cast<std::size_t>(binding))->args;
    args.stream = stream;
    return args;
  }

  Attention& attention() { return attention_; }
  const char* explain() {
    text_ = attention_.explain();
    return text_.c_str();
  }

 private:
  struct Binding {
    std::vector<TensorView> tensors;
    RunArgs args;
  };

  TensorView view(const ForeignTensor& tensor) const {
    if (tensor.rank < 0 || tensor.rank > kMaxRank) throw std::invalid_argument("rank above 4");
    const auto rank = static_cast<std::size_t>(tensor.rank);
    return {tensor.data, parse_dtype(tensor.dtype), std::span(tensor.shape, rank),
            std::span(tensor.strides, rank), device_};
  }

  Attention attention_;
  Device device_;
  bool single_ = false;
  std::int64_t num_qo_tokens_ = 0, num_kv_tokens_ = 0;
  std::vector<std::int32_t> qo_indptr_, kv_indptr_, kv_indices_, kv_lens_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::string text_;
};

TRENCADIS_BENCH_EXPORT const char* trencadis_bench_error() {
  return last_error().c_str();
}

/// Opens the driver and the device's context, so that what follows does not pay for it.
TRENCADIS_BENCH_EXPORT int trencadis_bench_open_device() {
  return guarded([] { DeviceMemory({DeviceKind::cuda, 0}, 256); });
}

/// {"spec": <the long form of spec_text.h>, "qo_heads", "kv_heads", "page_size", "backend",
/// "limits": {"max_batch", ...}, "plan": {"split", "scheduler"}}
TRENCADIS_BENCH_EXPORT int trencadis_bench_create(const char* json, TrencadisBench** out) {
  return guarded([&] { *out = new TrencadisBench(Json::parse(json)); });
}

TRENCADIS_BENCH_EXPORT void trencadis_bench_destroy(TrencadisBench* bench) {
  delete bench;
}

/// qo_indptr, kv_indptr: [batch + 1]; kv_lens: [batch]; kv_indices: [kv_indptr[batch]], or null
/// where the blocks of the requests lie one after another. Copied.
TRENCADIS_BENCH_EXPORT int trencadis_bench_plan(TrencadisBench* bench, std::int64_t batch,
                                                const std::int32_t* qo_indptr,
                                                const std::int32_t* kv_indptr,
                                                const std::int32_t* kv_indices,
                                                const std::int32_t* kv_lens, void* stream) {
  return guarded([&] {
    bench->set_table(batch, qo_indptr, kv_indptr, kv_indices, kv_lens);
    bench->plan(stream);
  });
}

TRENCADIS_BENCH_EXPORT int trencadis_bench_plan_single(TrencadisBench* bench,
                                                       std::int64_t num_qo_tokens,
                                                       std::int64_t num_kv_tokens, void* stream) {
  return guarded([&] {
    bench->set_single(num_qo_tokens, num_kv_tokens);
    bench->plan(stream);
  });
}

/// `extra`: the variant's tensors in declared order. The memory must outlive the runs.
TRENCADIS_BENCH_EXPORT int trencadis_bench_bind(TrencadisBench* bench, const ForeignTensor* q,
                                                const ForeignTensor* k, const ForeignTensor* v,
                                                const ForeignTensor* out,
                                                const ForeignTensor* extra, std::int64_t num_extra,
                                                std::int64_t* binding) {
  return guarded([&] {
    *binding = bench->bind(*q, *k, *v, *out, {extra, static_cast<std::size_t>(num_extra)});
  });
}

TRENCADIS_BENCH_EXPORT int trencadis_bench_run(TrencadisBench* bench, std::int64_t binding,
                                               void* stream) {
  return guarded([&] { bench->attention().run(bench->arguments(binding, stream)); });
}

/// The median host time of a run(). The stream takes `count` runs without a wait, so that a count
/// beyond the driver's queue of launches measures the device.
TRENCADIS_BENCH_EXPORT int trencadis_bench_time_run(TrencadisBench* bench, std::int64_t binding,
                                                    void* stream, std::int64_t count,
                                                    std::int64_t* nanoseconds) {
  return guarded([&] {
    const RunArgs& args = bench->arguments(binding, stream);
    *nanoseconds = median_ns(count, [&] { bench->attention().run(args); });
  });
}

/// The median host time of the plan that was made last, its copy to the device queued.
TRENCADIS_BENCH_EXPORT int trencadis_bench_time_plan(TrencadisBench* bench, void* stream,
                                                     std::int64_t count,
                                                     std::int64_t* nanoseconds) {
  return guarded([&] { *nanoseconds = median_ns(count, [&] { bench->plan(stream); }); });
}

/// Valid until the next call.
TRENCADIS_BENCH_EXPORT int trencadis_bench_explain(TrencadisBench* bench, const char** text) {
  return guarded([&] { *text = bench->explain(); });
}
