#include "serving/batcher.h"

#include <algorithm>
#include <utility>

#include "output/failure.h"

namespace trencadis::app {
namespace {

void check_positive(const char* name, std::int64_t value) {
  if (value < 1) fail(ErrorKind::invalid_argument, "{} is {}, expected at least 1", name, value);
}

std::int32_t narrow(std::size_t size) {
  return static_cast<std::int32_t>(size);
}

void clear(Step& step) {
  step.lines.clear();
  step.qo_indptr.assign(1, 0);
  step.kv_indptr.assign(1, 0);
  step.kv_indices.clear();
  step.kv_lens.clear();
  step.batch_indices.clear();
  step.positions.clear();
  step.decode_tokens = step.prompt_tokens = 0;
}

}  // namespace

BlockSparseView Step::page_table(std::int64_t page_size) const {
  BlockSparseView table;
  table.block_cols = page_size;
  table.indptr = kv_indptr;
  table.indices = kv_indices;
  table.kv_lens = kv_lens;
  return table;
}

bool Batcher::Running::is_done() const {
  return kv_len >= request.input_tokens && generated >= request.output_tokens;
}

Batcher::Batcher(const BatcherOptions& options, std::string trace_name, Source source)
    : options_(options),
      trace_name_(std::move(trace_name)),
      source_(std::move(source)),
      pages_(options.num_pages) {
  check_positive("the batch", options.max_batch);
  check_positive("the prompt chunk", options.chunk_tokens);
  check_positive("the page size", options.page_size);
  if (!(options.step_time_s >= 0.0))
    fail(ErrorKind::invalid_argument, "the step time is {} s, expected 0 or more",
         options.step_time_s);
  fetch();
}

std::int64_t Batcher::pages_needed(const TraceRequest& request, std::int64_t page_size) {
  const std::int64_t tokens =
      request.input_tokens + std::max<std::int64_t>(request.output_tokens - 1, 0);
  return (tokens + page_size - 1) / page_size;
}

void Batcher::check_fits(const TraceRequest& request, std::int64_t page_size,
                         std::int64_t num_pages, const std::string& trace_name) {
  const std::int64_t needed = pages_needed(request, page_size);
  if (needed > num_pages)
    fail(ErrorKind::out_of_capacity,
         "{}:{}: the request needs {} pages of {} tokens and the whole KV pool has {}; raise "
         "--pool-tokens to at least {}",
         trace_name, request.line, needed, page_size, num_pages, needed * page_size);
}

void Batcher::fetch() {
  waiting_ = source_();
  if (waiting_) check_fits(*waiting_, options_.page_size, pages_.num_pages(), trace_name_);
}

bool Batcher::has_arrived(const TraceRequest& request) const {
  return options_.step_time_s == 0.0 || request.arrival_s <= clock_s_;
}

void Batcher::retire() {
  for (Running& running : running_) {
    if (!running.is_done()) continue;
    pages_.release(running.pages);
    ++finished_;
  }
  std::erase_if(running_, [](const Running& running) { return running.is_done(); });
}

void Batcher::admit() {
  if (running_.empty() && waiting_) clock_s_ = std::max(clock_s_, waiting_->arrival_s);
  while (waiting_ && has_arrived(*waiting_) &&
         static_cast<std::int64_t>(running_.size()) < options_.max_batch &&
         pages_.try_reserve(pages_needed(*waiting_, options_.page_size))) {
    running_.push_back({*waiting_, {}, 0, 0});
    fetch();
  }
}

void Batcher::add_to_step(Running& running, std::int64_t tokens, Step& step) {
  const std::int32_t request = narrow(step.kv_lens.size());
  for (std::int64_t i = 0; i < tokens; ++i) {
    step.batch_indices.push_back(request);
    step.positions.push_back(static_cast<std::int32_t>(running.kv_len + i));
  }
  running.kv_len += tokens;
  while (static_cast<std::int64_t>(running.pages.size()) * options_.page_size < running.kv_len)
    running.pages.push_back(pages_.take());
  step.lines.push_back(running.request.line);
  step.qo_indptr.push_back(narrow(step.positions.size()));
  step.kv_indices.insert(step.kv_indices.end(), running.pages.begin(), running.pages.end());
  step.kv_indptr.push_back(narrow(step.kv_indices.size()));
  step.kv_lens.push_back(static_cast<std::int32_t>(running.kv_len));
}

bool Batcher::next(Step& step) {
  retire();
  admit();
  if (running_.empty()) return false;

  clear(step);
  step.index = steps_++;
  std::int64_t chunk_left = options_.chunk_tokens;
  for (Running& running : running_) {
    const std::int64_t prompt_left = running.request.input_tokens - running.kv_len;
    const bool decodes = running.generated > 0;
    const std::int64_t tokens = decodes ? 1 : std::min(prompt_left, chunk_left);
    if (tokens == 0) continue;  // its prompt waits for a later step
    add_to_step(running, tokens, step);
    (decodes ? step.decode_tokens : step.prompt_tokens) += tokens;
    if (!decodes) chunk_left -= tokens;
    // The step that computes the prompt's last token yields the first token of the answer.
    if (decodes || running.kv_len == running.request.input_tokens) ++running.generated;
  }
  clock_s_ += options_.step_time_s;
  return true;
}

}  // namespace trencadis::app
