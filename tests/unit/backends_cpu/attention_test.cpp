// The executor against attention by its definition in float64, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "backends/cpu/microkernels.h"
#include "problem.h"
#include "support/scale.h"

namespace trencadis::testing {
namespace {

class AttentionTest : public ::testing::TestWithParam<const cpu::Microkernels*> {
 protected:
  const cpu::Microkernels& simd() const { return *GetParam(); }

  void run(Tensors& t, int q_rows, int kv_tokens = 64, int chunk = 0, int queues = 3) {
    HandPlan plan(t.shape, q_rows, kv_tokens, chunk, queues);
    contract::AttentionParams params = t.params();
    plan.bind(params);
    make_executor(t.shape, simd()).run(plan.view(), params, nullptr);
  }

  /// Every element of o and lse against the answer. Inputs are read as they are stored, so what is
  /// left is fp32 accumulation and the rounding of the output.
  void expect_answer(const Tensors& t, const Answer& answer, const std::string& what) {
    const double ulp = t.shape.o == Storage::f32   ? 0
                       : t.shape.o == Storage::f16 ? std::ldexp(1.0, -11)
                                                   : std::ldexp(1.0, -8);
    double worst = 0, worst_lse = 0;
    for (std::int64_t row = 0; row < t.tokens * t.shape.heads(); ++row) {
      for (int d = 0; d < t.shape.dim_vo; ++d) {
        const double got = t.o.get(row * t.row_v + d);
        const double want = answer.o[static_cast<std::size_t>(row * t.shape.dim_vo + d)];
        ASSERT_TRUE(std::isfinite(got)) << what << " row " << row << " dim " << d;
        worst = std::max(worst, std::abs(got - want) - ulp * std::abs(want));
      }
      const double want = answer.lse[static_cast<std::size_t>(row)];
      const double got = t.lse[static_cast<std::size_t>(row)];
      if (!t.shape.use_softmax) continue;
      if (std::isinf(want))
        EXPECT_EQ(got, want) << what << " row " << row;
      else
        worst_lse = std::max(worst_lse, std::abs(got - want));
    }
    const double length = std::accumulate(t.shape.kv_lens.begin(), t.shape.kv_lens.end(), 1);
    const double scale = t.shape.use_softmax ? 1.0 : std::sqrt(length);
    EXPECT_LE(worst, 4e-6 * scale) << what;
    EXPECT_LE(worst_lse, 4e-6) << what;
  }

  void check(const Shape& shape, int q_rows, int kv_tokens = 64, int chunk = 0) {
    Tensors t(shape);
    check(t, solve(t), q_rows, kv_tokens, chunk);
  }
  void check(Tensors& t, const Answer& answer, int q_rows, int kv_tokens, int chunk) {
    run(t, q_rows, kv_tokens, chunk);
    const Shape& s = t.shape;
    expect_answer(t, answer,
                  ::testing::PrintToString(std::vector<int>{s.heads_kv, s.group, s.dim_qk, s.dim_vo,
                                                            s.page, static_cast<int>(s.kv), q_rows,
                                                            kv_tokens, chunk}));
  }
};

Shape small() {
  Shape s;
  s.qo_lens = {1, 3, 0, 7, 40};
  s.kv_lens = {33, 5, 9, 100, 70};
  return s;
}

TEST_P(AttentionTest, EveryStorageTypeTileClassAndSplit) {
  for (const Storage type : {Storage::f32, Storage::f16, Storage::bf16}) {
    Shape s = small();
    s.q = s.kv = s.o = type;
    const Answer answer = solve(Tensors(s));
    for (const int q_rows : {1, 16, 32, 64, 128})
      for (const int kv_tokens : {32, 64, 128})
        for (const int chunk : {0, 23}) {
          Tensors t(s);
          check(t, answer, q_rows, kv_tokens, chunk);
        }
  }
}

TEST_P(AttentionTest, MixedStorageTypes) {
  for (const Storage q : {Storage::f32, Storage::f16, Storage::bf16})
    for (const Storage kv : {Storage::f32, Storage::f16, Storage::bf16}) {
      Shape s = small();
      s.q = q, s.kv = kv, s.o = Storage::f32;
      check(s, 16);
      check(s, 64);
    }
}

// H2, and head dims of keys and values that differ.
TEST_P(AttentionTest, H2EveryHeadDim) {
  for (int dim = 16; dim <= 512; dim += 8) {
    Shape s;
    s.dim_qk = dim;
    s.dim_vo = dim % 16 == 0 ? dim : 528 - dim;
    s.kv = dim % 3 == 0 ? Storage::f32 : dim % 3 == 1 ? Storage::bf16 : Storage::f16;
    s.qo_lens = {1, 9};
    s.kv_lens = {19, 21};
    check(s, 16);
    check(s, 32);
  }
  for (const int dim : {1, 3, 5, 17, 100}) {
    Shape s = small();
    s.dim_qk = dim, s.dim_vo = dim + 1;
    s.kv = Storage::bf16;
    check(s, 16);
    check(s, 64);
  }
}

// A3
TEST_P(AttentionTest, A3EveryPageSizeAndLayout) {
  for (const int page : {1, 2, 3, 5, 8, 16, 24, 32, 48, 64, 96, 128, 160, 256, 512, 1024})
    for (const bool hnd : {false, true}) {
      Shape s = small();
      s.page = page, s.hnd = hnd, s.kv = Storage::bf16, s.head_padding = 8;
      check(s, 16, 64, 37);
      check(s, 64);
    }
}

// H1
TEST_P(AttentionTest, H1EveryGroupSize) {
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32, 40, 64, 128})
    for (const int heads_kv : {1, 3}) {
      Shape s;
      s.heads_kv = heads_kv, s.group = group, s.dim_qk = s.dim_vo = 32, s.kv = Storage::bf16;
      s.qo_lens = {1, 5};
      s.kv_lens = {40, 11};
      check(s, 16);
      check(s, 128);
      s.right = 0;
      check(s, 16, 32, 7);
    }
}

// M1, M2 and windows that open and close inside tiles; more queries than keys.
TEST_P(AttentionTest, BoundsOnBoundaryTiles) {
  for (const std::int64_t left : {-1, 0, 1, 5, 40, 99})
    for (const std::int64_t right : {-1, 0, 3})
      for (const int q_rows : {1, 16, 64}) {
        Shape s = small();
        s.qo_lens = {1, 3, 0, 7, 75};
        s.left = left, s.right = right;
        check(s, q_rows, 32);
        check(s, q_rows, 32, 19);
      }
}

TEST_P(AttentionTest, SinksJoinOnceWhateverTheSplit) {
  for (const int chunk : {0, 11, 30}) {
    Shape s = small();
    s.sinks = true, s.right = 0;
    check(s, 16, 64, chunk);
    check(s, 64, 64, chunk);
  }
}

TEST_P(AttentionTest, WithoutSoftmaxWeightsAreLogitsAndStatesAdd) {
  for (const int chunk : {0, 11}) {
    Shape s = small();
    s.use_softmax = false, s.right = 0;
    check(s, 16, 64, chunk);
    check(s, 64, 64, chunk);
  }
}

TEST_P(AttentionTest, LseInBaseTwo) {
  Shape s = small();
  s.base_two = true;
  check(s, 16);
  check(s, 16, 64, 20);
}

// E1: also with a first tile that is wholly empty.
TEST_P(AttentionTest, E1RowsBeforeTheFirstKey) {
  for (const int qo_len : {34, 300}) {
    Shape s;
    s.heads_kv = 32, s.group = 1, s.dim_qk = s.dim_vo = 128;
    s.qo_lens = {qo_len}, s.kv_lens = {1}, s.right = 0;
    Tensors t(s);
    for (int h = 0; h < 32; ++h)
      for (int d = 0; d < 128; ++d) {
        t.k.set(t.kv_row(0, 0, h) * t.row_q + d, 0);
        t.v.set(t.kv_row(0, 0, h) * t.row_v + d, 1);
      }
    run(t, 128);
    for (int i = 0; i < qo_len; ++i)
      for (int h = 0; h < 32; ++h) {
        const std::int64_t row = i * 32 + h;
        EXPECT_EQ(t.lse[row], i == qo_len - 1 ? 0.0f : -INFINITY);
        for (int d = 0; d < 128; ++d)
          ASSERT_EQ(t.o.get(row * 128 + d), i == qo_len - 1 ? 1.0 : 0.0);
      }
  }
}

// E2: and all lengths 0, and no request at all.
TEST_P(AttentionTest, E2EmptyRequestsAreWritten) {
  for (const int q_rows : {1, 16, 64})
    for (const std::vector<std::int32_t>& lens :
         {std::vector<std::int32_t>{0, 5, 0, 1}, {0, 0, 0, 0}, {}}) {
      Shape s;
      s.kv_lens = lens;
      s.qo_lens.assign(lens.size(), q_rows == 64 ? 40 : 1);
      check(s, q_rows);
      check(s, q_rows, 64, 2);
    }
}

// E3: logits far from zero, and far from one another.
TEST_P(AttentionTest, E3LargeLogits) {
  for (const double key : {-48.0, 48.0})
    for (const int copies : {1, 2}) {
      Shape s;
      s.heads_kv = 1, s.group = 1, s.dim_qk = s.dim_vo = 128;
      s.qo_lens = {1}, s.kv_lens = {copies};
      Tensors t(s);
      for (int d = 0; d < 128; ++d) {
        t.q.set(d, 40);
        for (int j = 0; j < copies; ++j) t.k.set(t.kv_row(0, j, 0) * t.row_q + d, key);
      }
      run(t, 1);
      const double logit = 128 * 40 * key / std::sqrt(128.0);
      EXPECT_NEAR(t.lse[0], logit + std::log(copies), 0.01);
      for (int d = 0; d < 128; ++d) {
        const double last = t.v.get(t.kv_row(0, copies - 1, 0) * t.row_v + d);
        const auto mean =
            static_cast<float>(t.v.get(t.kv_row(0, 0, 0) * t.row_v + d) / 2 + last / 2);
        ASSERT_EQ(t.o.get(d), mean);
      }
    }
}

// G1: whatever the pool holds elsewhere, the bits are the same; left of a window too.
TEST_P(AttentionTest, G1GarbageNeverReachesTheOutput) {
  for (const std::int64_t left : {-1, 10})
    for (const int page : {1, 16, 64, 128})
      for (const int q_rows : {16, 64}) {
        Shape s;
        s.page = page, s.kv = Storage::bf16, s.left = left, s.right = 0;
        s.kv_lens = {1, 15, 16, 17, 127, 128, 129, 32, 64, 96, 48};
        s.qo_lens.assign(s.kv_lens.size(), q_rows == 16 ? 1 : 20);
        std::vector<std::vector<unsigned char>> outputs;
        for (const double garbage :
             {0.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
          s.garbage = garbage;
          Tensors t(s);
          if (left >= 0)  // tokens that the window has left behind are nobody's either
            for (std::size_t b = 0; b < s.kv_lens.size(); ++b)
              for (int j = 0; j < s.kv_lens[b] - s.qo_lens[b] - left; ++j)
                for (int h = 0; h < s.heads_kv; ++h)
                  for (int d = 0; d < s.dim_qk; ++d) {
                    t.k.set(t.kv_row(b, j, h) * t.row_q + d, garbage);
                    t.v.set(t.kv_row(b, j, h) * t.row_v + d, garbage);
                  }
          // The queries' own padding is garbage as well, and so is what lies around them.
          run(t, q_rows, 64, 50);
          outputs.push_back(t.o.bytes());
        }
        EXPECT_EQ(outputs[0], outputs[1]);
        EXPECT_EQ(outputs[0], outputs[2]);
      }
}

// D2: threads race for queues; the bits do not.
TEST_P(AttentionTest, D2TheSameBitsEveryTime) {
  Shape s = small();
  s.kv = Storage::bf16;
  Tensors first(s);
  run(first, 16, 64, 9, 7);
  for (int i = 0; i < scaled(50); ++i) {
    Tensors again(s);
    run(again, 16, 64, 9, 7);
    ASSERT_EQ(first.o.bytes(), again.o.bytes());
    ASSERT_EQ(first.lse, again.lse);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest,
                         ::testing::ValuesIn(cpu::supported_microkernels().begin(),
                                             cpu::supported_microkernels().end()),
                         [](const auto& table) { return std::string(table.param->target); });

}  // namespace
}  // namespace trencadis::testing
