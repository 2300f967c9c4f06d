// What the host says of a kernel's shared memory is what the kernel takes.
#include "backends/cuda/shared_memory.h"

#include <gtest/gtest.h>

#include "cuda/entry/attention.h"
#include "cuda/entry/attention_ring.h"
#include "simt/run_emulated.h"
#include "variant/stock.h"

namespace trencadis::cuda {
namespace {

using collective::Tile;
using collective::TileClasses;

struct NoParams {};

template <class Tag, int kQk, int kVo, int kWarpCount, class Classes, class Out = Tag>
struct Config {
  static constexpr int kHeadDimQk = kQk, kHeadDimVo = kVo;
  using Element = Tag;
  using Output = Out;
  static constexpr bool kUseSoftmax = true;
  static constexpr int kWarps = kWarpCount;
  using TileClasses = Classes;
  using Functor = variant::Chain<>;
  using Params = NoParams;
};

template <class Tag, int kQk, int kVo, int kWarps, class Tile, class Out = Tag>
void expect_equal_for(const char* what) {
  using One = Config<Tag, kQk, kVo, kWarps, TileClasses<Tile>, Out>;
  AttentionSpec spec;
  spec.head_dim_qk = kQk;
  spec.head_dim_vo = kVo;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o =
      std::is_same_v<Tag, float> ? DType::f32 : DType::f16;
  if (std::is_same_v<Out, float>) spec.dtype_o = DType::f32;
  codegen::CudaKernelConfig config;
  config.warps = kWarps;
  config.classes.push_back({Tile::kRows, Tile::kTokens});
  config.stages.push_back(Tile::kStages);
  EXPECT_EQ(shared_bytes(spec, config), entry::kSharedBytes<One>)
      << what << ", dims " << kQk << " and " << kVo << ", " << kWarps << " warps, " << Tile::kRows
      << " by " << Tile::kTokens;
}

template <int kQk, int kVo, int kStages>
void expect_equal() {
  using ptx::Half;
  expect_equal_for<Half, kQk, kVo, 4, Tile<1, 64, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 2, Tile<1, 32, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 4, Tile<16, 64, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 2, Tile<16, 32, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 4, Tile<32, 128, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 4, Tile<64, 32, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 4, Tile<128, 128, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 8, Tile<16, 64, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 8, Tile<128, 64, kStages>>("16 bits");
  expect_equal_for<Half, kQk, kVo, 4, Tile<64, 64, kStages>, float>("32-bit outputs");
  expect_equal_for<Half, kQk, kVo, 8, Tile<128, 64, kStages>, float>("32-bit outputs");
  expect_equal_for<float, kQk, kVo, 4, Tile<1, 64, kStages>>("32 bits");
  expect_equal_for<float, kQk, kVo, 4, Tile<1, 32, kStages>>("32 bits");
}

TEST(SharedMemory, IsWhatTheKernelTakes) {
  expect_equal<16, 16, 2>();
  expect_equal<64, 64, 2>();
  expect_equal<64, 40, 3>();
  expect_equal<72, 136, 2>();
  expect_equal<80, 80, 2>();
  expect_equal<96, 96, 2>();
  expect_equal<128, 128, 2>();
  expect_equal<192, 128, 2>();
  expect_equal<256, 256, 2>();
  expect_equal<512, 512, 2>();
  expect_equal<512, 16, 2>();
  expect_equal<16, 512, 3>();
}

template <int kQk, int kVo, int kTokens, int kSlots, int kBuffers>
struct RingConfig : Config<ptx::BFloat, kQk, kVo, 8,
                           TileClasses<Tile<16, kTokens, kSlots>, Tile<128, kTokens, kSlots>>> {
  static constexpr int kQueryBuffers = kBuffers;
};

template <int kQk, int kVo, int kTokens, int kSlots, int kBuffers>
void expect_equal_ring() {
  AttentionSpec spec;
  spec.head_dim_qk = kQk;
  spec.head_dim_vo = kVo;
  codegen::CudaKernelConfig config;
  config.warps = 8;
  config.producer_warps = 4;
  config.query_buffers = kBuffers;
  for (const int rows : {16, 128}) {
    config.classes.push_back({rows, kTokens});
    config.stages.push_back(kSlots);
  }
  EXPECT_EQ(shared_bytes(spec, config),
            (entry::kRingSharedBytes<RingConfig<kQk, kVo, kTokens, kSlots, kBuffers>>))
      << "dims " << kQk << " and " << kVo << ", " << kSlots << " slots of " << kTokens
      << " tokens, " << kBuffers << " query tiles";
}

template <int kQk, int kVo, int kTokens, int kSlots>
void expect_equal_rings() {
  expect_equal_ring<kQk, kVo, kTokens, kSlots, 1>();
  expect_equal_ring<kQk, kVo, kTokens, kSlots, 2>();
  if constexpr (kSlots < 8) expect_equal_rings<kQk, kVo, kTokens, kSlots + 1>();
}

/// 3 to 8 slots, of which the larger no CTA has room for, and the sum is the same.
template <int kQk, int kVo>
void expect_equal_rings_of() {
  expect_equal_rings<kQk, kVo, 64, 3>();
  expect_equal_rings<kQk, kVo, 128, 3>();
}

TEST(SharedMemory, OfARingIsWhatTheKernelTakes) {
  expect_equal_rings_of<64, 64>();
  expect_equal_rings_of<64, 128>();
  expect_equal_rings_of<128, 128>();
  expect_equal_rings_of<192, 128>();
  expect_equal_rings_of<256, 256>();
}

/// At launch each thread has as many; roles exchange them and end with no more together.
TEST(SharedMemory, RegistersThatRolesExchangeAreTheCtas) {
  using Layout = collective::RingLayout<RingConfig<128, 128, 128, 4, 2>>;
  constexpr int kThreads = Layout::kThreads + Layout::kProducerThreads;
  constexpr int kAtLaunch = 65536 / kThreads / 8 * 8;
  EXPECT_EQ(kAtLaunch, 168);
  EXPECT_EQ(Layout::kProducerRegisters % 8, 0);
  EXPECT_EQ(Layout::kConsumerRegisters % 8, 0);
  EXPECT_LE(Layout::kThreads * Layout::kConsumerRegisters +
                Layout::kProducerThreads * Layout::kProducerRegisters,
            kThreads * kAtLaunch);
}

}  // namespace
}  // namespace trencadis::cuda
