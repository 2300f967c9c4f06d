// The debug mode over the fake driver: the kernel that checks plans is emulated, images and page
// ids are damaged where they lie, and the error says whose they are.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda_source.h"
#include "contract/plan_image.h"
#include "simt/emulated_device.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/split_modes.h"

namespace trencadis::testing {
namespace {

using contract::ImageBlock;
using contract::ImageItem;
using contract::ImageQueue;
using contract::ImageSlot;
using contract::PlanImage;
using contract::WorkSegment;

const std::vector<Lengths> kMixed{{1, 900}, {20, 64}, {1, 0}, {40, 41}, {3, 2}, {1, 1}};

ProblemBuilder builder(std::vector<Lengths> lengths = kMixed) {
  ProblemBuilder b;
  b.heads(4, 2).dims(64).dtype(DType::bf16).page_size(16).lengths(std::move(lengths));
  return b;
}

/// Keys at every third block.
Problem with_positions() {
  BlockSparse matrix;
  matrix.block_cols = 8;
  matrix.indptr = {0, 6, 9};
  matrix.indices = {4, 9, 2, 7, 1, 11, 3, 5, 0};
  matrix.positions = {0, 3, 6, 9, 12, 15, 1, 2, 7};
  matrix.kv_lens = {45, 24};
  return builder({{40, 140}, {3, 64}}).page_size(8).causal().matrix(matrix).build();
}

AttentionConfig checked_config(const Problem& problem) {
  AttentionConfig config = cuda_config(problem);
  config.debug_checks = true;
  return config;
}

/// A problem planned into memory of the caller's, where its image begins.
struct Planned {
  explicit Planned(const Problem& of, void* on_stream) : problem(of), stream(on_stream) {
    AttentionConfig config = checked_config(problem);
    config.workspace = memory.view();
    attention = std::make_unique<Attention>(problem.spec, config);
    plan();
  }
  void plan() { attention->plan(problem.plan_input(), stream); }
  Output run() { return run_on_device(*attention, problem, stream); }

  PlanImage& image() { return *static_cast<PlanImage*>(memory.view().data()); }
  template <class T>
  T* at(std::int64_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory.view().data()) + offset);
  }
  ImageItem* items() { return at<ImageItem>(image().items_offset); }
  WorkSegment* segments() { return at<WorkSegment>(image().segments_offset); }
  ImageQueue* queues() { return at<ImageQueue>(sizeof(PlanImage)); }
  ImageSlot* slots() { return at<ImageSlot>(image().slots_offset); }
  std::int32_t* arrivals() { return at<std::int32_t>(image().arrivals_offset); }
  ImageBlock* empty() { return at<ImageBlock>(image().empty_offset); }
  std::int32_t* pages() { return at<std::int32_t>(image().pages_offset); }
  std::int32_t* positions() { return at<std::int32_t>(image().positions_offset); }
  /// An item that writes a partial state.
  int piece() {
    int i = 0;
    while (items()[i].slot == contract::kWriteThrough) ++i;
    return i;
  }
  /// An item that was cut into others is in no segment.
  bool is_read(std::int64_t item) {
    const std::int64_t count = (image().items_offset - image().segments_offset) / 16;
    return std::any_of(segments(), segments() + count, [&](const WorkSegment& segment) {
      return segment.item_begin <= item && item < segment.item_end;
    });
  }
  /// The first item of a request.
  int item_of(int request) {
    int i = 0;
    while (items()[i].block.request != request) ++i;
    return i;
  }

  CallersMemory memory{std::int64_t{1} << 20};
  const Problem& problem;
  void* stream;
  std::unique_ptr<Attention> attention;
};

class DebugChecksTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (!IsSkipped()) use(plain_bf16());
  }
  /// Plans are checked, and nothing runs them.
  void only_check() { fake().on_launch(codegen::kAttentionSymbol, {}, nullptr, nullptr); }
  int attention_launches() const {
    int count = 0;
    for (const Launch& launch : launches) count += launch.function == codegen::kAttentionSymbol;
    return count;
  }
};

std::string number(std::int64_t value) {
  return std::to_string(value);
}

TEST_F(DebugChecksTest, RunsAreThoseOfTheOrdinaryMode) {
  const Problem problem = builder().causal().build();
  Attention plain(problem.spec, cuda_config(problem));
  plain.plan(problem.plan_input(), stream());
  const Output expected = run_on_device(plain, problem, stream());
  const std::vector<Launch> ordinary = std::exchange(launches, {});
  Attention checked(problem.spec, checked_config(problem));
  EXPECT_TRUE(checked.config().debug_checks);
  checked.plan(problem.plan_input(), stream());
  for (int layer = 0; layer < 2; ++layer)
    EXPECT_TRUE(same_bits(run_on_device(checked, problem, stream()), expected));
  EXPECT_TRUE(close_to_reference(expected, problem));
  ASSERT_EQ(ordinary.size(), 1u) << "nothing is added to the ordinary mode";
  ASSERT_EQ(launches.size(), 4u);
  for (const std::size_t i : {0u, 2u}) {
    EXPECT_EQ(launches[i].function, "trencadis_check_plan");
    EXPECT_EQ(launches[i + 1].function, ordinary[0].function);
    EXPECT_EQ(launches[i + 1].grid, ordinary[0].grid);
    EXPECT_EQ(launches[i + 1].shared_bytes, ordinary[0].shared_bytes);
  }
}

TEST_F(DebugChecksTest, EveryPlanOfTheEnginePasses) {
  only_check();
  std::vector<Problem> problems;
  PlanOptions longest, fixed;
  longest.scheduler = Scheduler::longest_first;
  fixed.split = SplitMode::fixed;
  fixed.fixed_split_tokens = 128;
  const std::vector<Lengths> batches[] = {
      {}, {{1, 0}, {0, 0}}, {{1, 5}}, kMixed, {{90, 90}, {0, 5}, {300, 2000}, {7, 7}}};
  for (const PlanOptions& options : {PlanOptions{}, unsplit(), invariant(), longest, fixed})
    for (const std::vector<Lengths>& batch : batches)
      for (const std::int64_t page : {1, 7, 64})
        problems.push_back(builder(batch).page_size(page).causal().plan(options).build());
  for (const std::int64_t page : {1, 16})
    problems.push_back(builder().ragged().page_size(page).build());
  problems.push_back(with_positions());
  problems.push_back(builder().wide_indices().build());
  std::int64_t merges = 0;
  for (const Problem& problem : problems) {
    Attention attention(problem.spec, checked_config(problem));
    attention.plan(problem.plan_input(), stream());
    launches.clear();
    EXPECT_NO_THROW(run_on_device(attention, problem, stream()));
    EXPECT_EQ(launches.size(), 1u) << "the check; the other is not emulated";
    merges += attention.current_plan().stats().merges;
  }
  EXPECT_GT(merges, 0);
}

TEST_F(DebugChecksTest, APageIdBeyondThePoolIsNamedWithItsRequest) {
  Problem problem = builder().build();
  const std::int64_t pages = problem.k.size(0);
  // Page 2 of request 1 in the caller's table; the first wrong one is told.
  const int entry = problem.matrix.indptr[1] + 2;
  problem.matrix.indices[entry] = static_cast<int>(pages);
  problem.matrix.indices[problem.matrix.indptr[3]] = 1 << 30;
  const auto expect_named = [&](Attention& attention) {
    expect_error(
        ErrorKind::invalid_argument,
        {"kv_indices[" + number(entry) + "] is " + number(pages) +
             " on the device (request 1, page 2 of its row), expected 0 to " + number(pages - 1) +
             ": k and v hold " + number(16 * pages) + " tokens in pages of 16",
         "nothing was run"},
        [&] { run_on_device(attention, problem, stream()); });
    EXPECT_EQ(attention_launches(), 0);
  };
  Attention attention(problem.spec, checked_config(problem));
  attention.plan(problem.plan_input(), stream());
  expect_named(attention);
  expect_named(attention);  // and again, as nothing has changed

  Attention ordinary(problem.spec, cuda_config(problem));
  ordinary.plan(problem.plan_input(), stream());
  expect_error(ErrorKind::invalid_argument, {"k is", "as the plan's page ids need"},
               [&] { run_on_device(ordinary, problem, stream()); });
}

TEST_F(DebugChecksTest, TheSameOnTheCpu) {
  Problem problem = builder().build();
  problem.config.backend = BackendKind::cpu;
  problem.config.debug_checks = true;
  Attention attention(problem.spec, problem.config);
  attention.plan(problem.plan_input());
  EXPECT_TRUE(close_to_reference(run(attention, problem), problem));
  // After plan(), which borrows the table.
  const int entry = problem.matrix.indptr[3] + 1;
  for (const int page : {-1, static_cast<int>(problem.k.size(0))}) {
    problem.matrix.indices[entry] = page;
    expect_error(
        ErrorKind::invalid_argument,
        {"kv_indices[" + number(entry) + "] is " + number(page) +
         " (request 3, page 1 of its row), expected 0 to " + number(problem.k.size(0) - 1)},
        [&] { run(attention, problem); });
  }
}

TEST_F(DebugChecksTest, APageIdThatChangesAfterPlanIsFound) {
  const Problem problem = builder().build();
  Planned planned(problem, stream());
  EXPECT_TRUE(close_to_reference(planned.run(), problem));
  const ImageItem& item = planned.items()[planned.item_of(3)];
  std::int32_t& id = planned.pages()[item.block.first_page + 1];
  for (const std::int32_t wrong : {-1, 1 << 30, static_cast<int>(problem.k.size(0))}) {
    const std::int32_t right = std::exchange(id, wrong);
    expect_error(ErrorKind::invalid_argument,
                 {"kv_indices[" + number(item.block.first_page + 1) + "] is " + number(wrong),
                  "(request 3, page 1 of its row)"},
                 [&] { planned.run(); });
    id = right;
  }
  EXPECT_TRUE(close_to_reference(planned.run(), problem));
  // Behind the last token nothing is read.
  id = 1 << 30;
  planned.plan();
  EXPECT_TRUE(close_to_reference(planned.run(), problem)) << "plan() brings the table anew";
}

TEST_F(DebugChecksTest, EveryPageThatIsReadIsChecked) {
  only_check();
  const Problem problem = builder({{1, 700}, {20, 64}, {1, 0}, {1, 3}}).page_size(1).build();
  Planned planned(problem, stream());
  for (int request : {0, 1, 3}) {
    const int begin = problem.matrix.indptr[request], end = problem.matrix.indptr[request + 1];
    for (int entry = begin; entry < end; ++entry) {
      const std::int32_t right = std::exchange(planned.pages()[entry], -7);
      expect_error(ErrorKind::invalid_argument,
                   {"kv_indices[" + number(entry) + "] is -7 on the device (request " +
                    number(request) + ", page " + number(entry - begin) + " of its row)"},
                   [&] { planned.run(); });
      planned.pages()[entry] = right;
    }
  }
  EXPECT_NO_THROW(planned.run());
}

TEST_F(DebugChecksTest, ContiguousTokensBeyondTheTensorsAreNamed) {
  use(plain_bf16());
  Problem problem = builder({{2, 100}, {5, 33}}).ragged().page_size(16).build();
  Attention attention(problem.spec, checked_config(problem));
  attention.plan(problem.plan_input(), stream());
  const std::int64_t tokens = problem.k.size(0);
  EXPECT_NO_THROW(run_on_device(attention, problem, stream()));
  problem.v = problem.v.slice(0, 0, tokens - 20);
  expect_error(ErrorKind::invalid_argument,
               {"request 1 reads block", "they hold " + number(tokens - 20) + " tokens"},
               [&] { run_on_device(attention, problem, stream()); });
}

TEST_F(DebugChecksTest, EveryPartOfADamagedPlanIsNamed) {
  const Problem problem = builder().causal().build();
  Planned planned(problem, stream());
  ASSERT_GT(planned.attention->current_plan().stats().merges, 0);
  ASSERT_EQ(planned.image().num_empty, 1);
  const int piece = planned.piece(), prefill = planned.item_of(3);
  ImageItem& item = planned.items()[prefill];
  const std::string of_item = " of item " + number(prefill) + " (request 3) is ";
  WorkSegment& segment = planned.segments()[0];
  ImageQueue& queue = planned.queues()[1];
  ImageSlot& slot = planned.slots()[0];
  const struct {
    std::int32_t* word;
    std::int32_t value;
    std::string text;
  } damages[] = {
      {&planned.image().num_queues, 77, "num_queues of the header is 77, expected "},
      {&planned.image().slot_rows, 0, "slot_rows of the header is 0, expected "},
      {&segment.kv_head, 2, "kv_head of segment 0 (request 0) is 2, expected 0 to 1;"},
      {&segment.item_begin, -5, "item_begin of segment 0 (request 0) is -5, expected 0 to "},
      {&segment.item_end, 9999, "item_end of segment 0 (request 0) is 9999, expected "},
      {&segment.slot_base, -1, "slot_base of segment 0 (request 0) is -1, expected 0 to "},
      {&item.block.request, 6, "request" + of_item + "6, expected 0 to 5;"},
      {&item.block.qo_begin, -1, "qo_begin" + of_item + "-1, expected 0 to 66;"},
      {&item.block.qo_len, 45, "qo_len" + of_item + "45, expected 1 to 44;"},
      {&item.block.first_row, 80, "first_row" + of_item + "80, expected 0;"},
      {&item.block.kv_len, -41, "kv_len" + of_item + "-41, expected 0 to 2147483647;"},
      {&item.block.first_page, 999999, "first_page" + of_item + "999999, expected 0 to "},
      {&item.kv_begin, -1, "kv_begin" + of_item + "-1, expected 0 to 40;"},
      {&item.kv_end, 42, "kv_end" + of_item + "42, expected 1 to 41;"},
      {&planned.items()[piece].slot, 9999,
       "slot of item " + number(piece) + " (request 0) is 9999, expected 0 to "},
      {&queue.segment_begin, 0, "segment_begin of queue 1 (request "},
      {&queue.segment_end, 9999, ") is 9999, expected "},
      {&queue.first_segment.kv_head, 50, "first_segment.kv_head of queue 1 (request "},
      {&queue.first_item.kv_end, 1 << 20, "first_item.kv_end of queue 1 (request "},
      {&slot.merge, 1000, "merge of slot 0 (request 0) is 1000, expected 0 to "},
      {&slot.slot_begin, -3, "slot_begin of slot 0 (request 0) is -3, expected 0;"},
      {&slot.slot_count, 1000, "slot_count of slot 0 (request 0) is 1000, expected 1 to "},
      {&planned.arrivals()[0], 1, "the arrivals of merge 0 (request 0) is 1, expected 0;"},
      {&planned.empty()[0].qo_begin, 5000,
       "qo_begin of empty row block 0 (request 2) is 5000, expected 0 to 66;"},
  };
  for (const auto& [word, value, text] : damages) {
    const std::int32_t right = std::exchange(*word, value);
    expect_error(ErrorKind::internal,
                 {"the plan on the device is not as plan() wrote it: ", text, "nothing was run"},
                 [&] { planned.run(); });
    *word = right;
  }
  const struct {
    std::int64_t* word;
    std::string text;
  } offsets[] = {{&planned.image().segments_offset, "segments_offset of the header is 1,"},
                 {&planned.image().items_offset, "items_offset of the header is 1,"},
                 {&planned.image().slots_offset, "slots_offset of the header is 1,"},
                 {&planned.image().arrivals_offset, "arrivals_offset of the header is 1,"},
                 {&planned.image().empty_offset, "empty_offset of the header is 1,"},
                 {&planned.image().pages_offset, "pages_offset of the header is 1,"},
                 {&planned.image().positions_offset, "positions_offset of the header is 1,"}};
  for (const auto& [word, text] : offsets) {
    const std::int64_t right = std::exchange(*word, 1);
    expect_error(ErrorKind::internal, {text, "expected " + number(right)}, [&] { planned.run(); });
    *word = right;
  }
  item.block.row_count = 500;
  expect_error(ErrorKind::internal, {"row_count" + of_item + "500, expected 1 to "},
               [&] { planned.run(); });
  planned.plan();
  item.block.tile_class = 9;
  expect_error(ErrorKind::internal, {"tile_class" + of_item + "9, expected 0 to 1;"},
               [&] { planned.run(); });
  planned.plan();
  EXPECT_TRUE(close_to_reference(planned.run(), problem)) << "after the next plan()";
}

TEST_F(DebugChecksTest, APositionBeyondTheRequestIsNamed) {
  const Problem problem = with_positions();
  Planned planned(problem, stream());
  EXPECT_TRUE(close_to_reference(planned.run(), problem));
  for (const std::int32_t wrong : {-1, 8}) {  // 64 keys are blocks 0 to 7
    const std::int32_t right = std::exchange(planned.positions()[8], wrong);
    expect_error(ErrorKind::internal,
                 {"the position of entry 8 of the page table (request 1) is " + number(wrong) +
                  ", expected 0 to 7;"},
                 [&] { planned.run(); });
    planned.positions()[8] = right;
  }
}

// Every word of an image, whatever it holds then: an error, or one of those that no kernel reads or
// that are in bounds. Nothing is read outside of the image, or the emulation would have crashed.
TEST_F(DebugChecksTest, AnyWordOfAnImage) {
  only_check();
  const Problem problem = builder({{1, 900}, {20, 64}, {1, 0}}).causal().build();
  Planned planned(problem, stream());
  ASSERT_GT(planned.attention->current_plan().stats().merges, 0);
  const std::int64_t words = planned.image().bytes / 4;
  std::vector<std::int32_t> image(static_cast<std::size_t>(words));
  std::memcpy(image.data(), &planned.image(), image.size() * 4);
  const PlanImage header = planned.image();
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  int passed_least = 0, passed_most = 0;
  for (std::int64_t w = 0; w < words; ++w) {
    for (const std::int32_t value : {kLeast, kMost}) {
      std::int32_t& word = planned.at<std::int32_t>(0)[w];
      word = value;
      try {
        planned.run();
        const bool in_items = w * 4 >= header.items_offset && w * 4 < header.slots_offset;
        const auto item_word = static_cast<std::size_t>((w * 4 - header.items_offset) % 48);
        const bool unread =
            item_word == offsetof(ImageBlock, unused) || item_word == offsetof(ImageItem, unused);
        const bool in_bounds = value == kMost && item_word == offsetof(ImageBlock, kv_len);
        const bool uncut =
            item_word == offsetof(ImageItem, slot) &&
            !planned.is_read((w * 4 - header.items_offset) / std::int64_t{sizeof(ImageItem)});
        EXPECT_TRUE(!in_items || unread || in_bounds || uncut) << "word at byte " << item_word;
        (value == kLeast ? passed_least : passed_most) += 1;
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::internal ||
                    error.kind() == ErrorKind::invalid_argument)
            << error.what();
      }
      word = image[static_cast<std::size_t>(w)];
    }
  }
  // Unused words of the header, queues, items, slots and empty blocks, and the padding behind ids.
  EXPECT_LT(passed_least, words / 5) << "of " << words;
  EXPECT_LT(passed_most, words / 5) << "of " << words;
  // All of it at once.
  std::memset(static_cast<void*>(&planned.image()), 0xff, static_cast<std::size_t>(header.bytes));
  expect_error(ErrorKind::internal, {"num_queues of the header is -1, expected "},
               [&] { planned.run(); });
}

TEST_F(DebugChecksTest, ARunIsNotCaptured) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 80;
  limits.max_pages = 200;
  const Problem problem = builder().limits(limits).build();
  Attention attention(problem.spec, checked_config(problem));
  attention.plan(problem.plan_input(), stream());
  FixedTensors tensors(problem);
  launches.clear();
  fake().begin_capture(stream());
  expect_error(ErrorKind::invalid_argument,
               {"run() was called while its stream is being captured, in the debug mode",
                "config.debug_checks", "TRENCADIS_DEBUG_CHECKS"},
               [&] { attention.run(tensors.args(problem, stream())); });
  EXPECT_NE(fake().end_capture(stream()), nullptr) << "the capture goes on";
  EXPECT_TRUE(launches.empty());
}

TEST_F(DebugChecksTest, TheEnvironmentTurnsItOn) {
  const Problem problem = builder().build();
  const auto is_on = [&] {
    return Attention(problem.spec, cuda_config(problem)).config().debug_checks;
  };
  EXPECT_FALSE(is_on());
  setenv("TRENCADIS_DEBUG_CHECKS", "1", 1);
  EXPECT_TRUE(is_on());
  setenv("TRENCADIS_DEBUG_CHECKS", "0", 1);
  EXPECT_FALSE(is_on());
  setenv("TRENCADIS_DEBUG_CHECKS", "yes", 1);
  expect_error(ErrorKind::invalid_argument, {"TRENCADIS_DEBUG_CHECKS is 'yes', expected 1 or 0"},
               is_on);
  unsetenv("TRENCADIS_DEBUG_CHECKS");
}

// A kernel that fails: in the debug mode at its launch, else at whichever call comes next, with the
// launches that it may have been.
TEST_F(DebugChecksTest, AKernelThatFailsIsNamed) {
  const Problem problem = builder().build();
  const std::string kernel = "trencadis_attention of cuda_bfloat16_d64_Chain";
  const std::string grid = "grid 4 of 384 threads, stream 0x";
  {
    Attention attention(problem.spec, checked_config(problem));
    attention.plan(problem.plan_input(), stream());
    fake().fault(codegen::kAttentionSymbol, 700);
    expect_error(ErrorKind::device,
                 {kernel + " failed while it ran on cuda:0 (" + grid,
                  "): CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"},
                 [&] { run_on_device(attention, problem, stream()); });
    fake().fault(codegen::kAttentionSymbol, 0);
    EXPECT_TRUE(close_to_reference(run_on_device(attention, problem, stream()), problem));
    // Before the run, by another.
    fake().fault("trencadis_check_plan", 719);
    expect_error(ErrorKind::device, {"trencadis_check_plan of cuda_check_plan failed while it ran"},
                 [&] { run_on_device(attention, problem, stream()); });
    fake().fault("trencadis_check_plan", 0);
  }
  Attention attention(problem.spec, cuda_config(problem));
  attention.plan(problem.plan_input(), stream());
  fake().fault(codegen::kAttentionSymbol, 700);
  EXPECT_NO_THROW(run_on_device(attention, problem, stream())) << "the launch itself succeeds";
  expect_error(ErrorKind::device,
               {"cuStreamIsCapturing failed: CUDA_ERROR_ILLEGAL_ADDRESS",
                "a kernel that was launched before this call failed, one of the last on cuda:0: " +
                    kernel + " (" + grid,
                "TRENCADIS_DEBUG_CHECKS=1"},
               [&] { attention.plan(problem.plan_input(), stream()); });
  fake().fault(codegen::kAttentionSymbol, 0);
}

}  // namespace
}  // namespace trencadis::testing
