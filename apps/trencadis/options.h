// Options that several commands share, and the small languages of their values.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/dtype.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "serving/models.h"

namespace trencadis::app {

/// Bounds of numbers on the command line. Beyond them lies no model and no server, and within them
/// no product of two overflows.
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxThreads = 1024;
inline constexpr std::int64_t kMaxBatch = 65536;
inline constexpr std::int64_t kMaxPlanBatch = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxChunk = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxPageSize = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxWindow = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;  // of requests, of steps
inline constexpr std::int64_t kMaxPoolTokens = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{1} << 50;
inline constexpr std::int64_t kMaxStepMs = 1'000'000'000;
inline constexpr std::int64_t kMaxReadTbps = 1'000'000;

/// Takes a whole number from `low` to `high`, and else says "--chunk is 0, expected 1 or more, at
/// most 16777216", which CLI11's own validators do not put into words.
CLI::Validator whole_number(std::string option, std::int64_t low, std::int64_t high);
/// The same of a number with a fraction.
CLI::Validator real_number(std::string option, std::int64_t low, std::int64_t high);

/// --model NAME or --heads H_q:H_kv:D, and --layers N.
struct ModelOptions {
  std::string model = "tiny";
  std::string heads;
  int layers = 0;  // 0: the model's own

  void add_to(CLI::App& command, bool with_layers);
  /// Throws Error(invalid_argument): an unknown model, a malformed shape.
  ModelShape shape() const;
};

/// --split auto|none|TOKENS, --scheduler NAME, --batch-invariant.
struct ScheduleOptions {
  std::string split = "auto";
  std::string scheduler = "auto";
  bool batch_invariant = false;

  void add_to(CLI::App& command);
  /// Throws Error(invalid_argument).
  PlanOptions plan_options() const;
};

/// f32, f16 or bf16: what attention can store. Throws Error(invalid_argument).
DType parse_storage_dtype(const std::string& name);

struct RequestLengths {
  std::int64_t query = 0;
  std::int64_t kv = 0;
  friend bool operator==(const RequestLengths&, const RequestLengths&) = default;
};

/// "1:4096" is a request of one query token over 4,096 KV tokens, "512:512x8" eight of them; items
/// are separated by commas or are arguments of their own. Throws Error(invalid_argument) that names
/// the item.
std::vector<RequestLengths> parse_lengths(const std::vector<std::string>& items);

}  // namespace trencadis::app
