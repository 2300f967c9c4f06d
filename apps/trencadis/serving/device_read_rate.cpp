#include "serving/device_read_rate.h"

#include <trencadis/device.h>
#include <trencadis/kv_cache.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "serving/device_tensor.h"

namespace trencadis::app {
namespace {

constexpr int kPasses = 5;
constexpr std::int64_t kPageTokens = 16, kTokenElements = 1024;

}  // namespace

double measure_copy_rate(Device device, DType dtype, std::int64_t bytes) {
  const std::int64_t page_bytes = kPageTokens * kTokenElements * size_of(dtype);
  const std::int64_t pages = std::max<std::int64_t>(bytes / page_bytes, 1);
  const DeviceTensor from("the source of the bandwidth probe", device, dtype,
                          {pages, kPageTokens, 1, kTokenElements});
  const DeviceTensor to("the target of the bandwidth probe", device, dtype,
                        {pages, kPageTokens, 1, kTokenElements});
  DeviceTensor numbers("the pages of the bandwidth probe", device, DType::i32, {pages});
  std::vector<std::int32_t> all(static_cast<std::size_t>(pages));
  std::iota(all.begin(), all.end(), 0);
  numbers.upload(all);

  DeviceStream stream(device);
  DeviceTimer timer(device);
  double best = 0.0;
  for (int pass = -1; pass < kPasses; ++pass) {  // the first loads the kernel
    timer.start(stream);
    copy_pages({.k = from.view()}, {.k = to.view()}, {.from = numbers.view(), .to = numbers.view()},
               stream.handle());
    timer.stop(stream);
    const double us = timer.microseconds();
    if (pass >= 0)
      best = std::max(best, 2.0 * static_cast<double>(pages * page_bytes) / (us * 1e3));
  }
  return best;
}

}  // namespace trencadis::app
