#include "serving/report.h"

#include <fmt/format.h>
#include <trencadis/version.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace trencadis::app {
namespace {

using nlohmann::ordered_json;

/// "1,014,189"
std::string grouped(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string microseconds(double us) {
  return us >= 1e4 ? fmt::format("{:.1f} ms", us * 1e-3) : fmt::format("{:.1f} µs", us);
}

std::string row(const std::string& name, const std::string& value, const std::string& detail) {
  return fmt::format("  {:<22} {:>12}   {}\n", name, value, detail);
}

std::string timing_row(const std::string& name, const Distribution& us, bool with_p90 = false) {
  if (us.count() == 0) return row(name, "-", "no such step");
  const std::string p90 =
      with_p90 ? fmt::format("p90 {}, ", microseconds(us.quantile(0.9))) : std::string();
  return row(name, microseconds(us.median()),
             fmt::format("median; {}p99 {}", p90, microseconds(us.p99())));
}

std::string read_row(const ReplayReport& report) {
  const auto gbps = report.decode_read_gbps();
  if (!gbps) return row("KV read, decode", "-", "no step was pure decode");
  return row("KV read, decode", fmt::format("{:.1f} %", 100.0 * report.read_share().value_or(0.0)),
             fmt::format("{:.2f} GB/s of the {:.2f} GB/s that this machine reads", *gbps,
                         report.machine_read_gbps));
}

std::string floor_row(const GpuReport& gpu, double read_gbps) {
  if (gpu.floor_share.count() == 0)
    return row("read floor, decode", "-", "no step was pure decode");
  return row(
      "read floor, decode", fmt::format("{:.1f} %", 100.0 * gpu.floor_share.median()),
      fmt::format(
          "median of a step; p10 {:.1f} %; the floor is {} at {:.2f} TB/s {}, {:.0f} requests",
          100.0 * gpu.floor_share.quantile(0.1), microseconds(gpu.floor_us.median()),
          read_gbps * 1e-3, gpu.read_rate_given ? "as given" : "as a copy moves",
          gpu.decode_batch.median()));
}

std::string error_row(const ReplayReport& report) {
  if (!report.verification) return row("largest error", "-", "not verified; --verify K samples K");
  const Verification& found = *report.verification;
  return row("largest error", fmt::format("{:.2e}", found.max_error),
             fmt::format("against float64 on {} sampled steps; {:.0f} % of what rounding allows",
                         found.steps, 100.0 * found.max_allowed));
}

/// JSON has no infinity; text says what a number cannot.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return "inf";
}

ordered_json timing(const Distribution& us) {
  if (us.count() == 0) return {{"count", 0}, {"median", nullptr}, {"p99", nullptr}};
  return {{"count", us.count()}, {"median", us.median()}, {"p99", us.p99()}};
}

ordered_json timing_with_p90(const Distribution& us) {
  ordered_json json = timing(us);
  json["p90"] = us.count() == 0 ? ordered_json(nullptr) : ordered_json(us.quantile(0.9));
  return json;
}

/// Of decode steps; nulls where there was none.
ordered_json floor_json(const GpuReport& gpu, double read_gbps) {
  const auto of = [](const Distribution& values, double share) {
    return values.count() == 0 ? ordered_json(nullptr) : ordered_json(values.quantile(share));
  };
  return {{"read_tbps", read_gbps * 1e-3},
          {"read_rate", gpu.read_rate_given ? "given" : "measured"},
          {"us", {{"median", of(gpu.floor_us, 0.5)}, {"p90", of(gpu.floor_us, 0.9)}}},
          {"share", {{"median", of(gpu.floor_share, 0.5)}, {"p10", of(gpu.floor_share, 0.1)}}},
          {"batch", {{"median", of(gpu.decode_batch, 0.5)}, {"max", of(gpu.decode_batch, 1.0)}}}};
}

ordered_json optional_number(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json verification_json(const std::optional<Verification>& verification) {
  if (!verification) return nullptr;
  return {{"steps", verification->steps},
          {"passed", verification->passed()},
          {"max_error", number(verification->max_error)},
          {"max_error_of_allowed", number(verification->max_allowed)},
          {"max_lse_error", number(verification->max_lse_error)},
          {"worst", verification->worst}};
}

}  // namespace

double Distribution::sum() const {
  return std::accumulate(values_.begin(), values_.end(), 0.0);
}

double Distribution::max() const {
  return values_.empty() ? 0.0 : *std::max_element(values_.begin(), values_.end());
}

double Distribution::quantile(double share) const {
  if (values_.empty()) return 0.0;
  std::vector<double> sorted = values_;
  const double rank = std::ceil(share * static_cast<double>(sorted.size())) - 1.0;
  const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 0.0));
  std::nth_element(sorted.begin(), nth, sorted.end());
  return *nth;
}

std::optional<double> ReplayReport::decode_read_gbps() const {
  if (decode_us.sum() <= 0.0) return std::nullopt;
  return decode_kv_bytes / (decode_us.sum() * 1e3);
}

std::optional<double> ReplayReport::read_share() const {
  const auto gbps = decode_read_gbps();
  if (!gbps || machine_read_gbps <= 0.0) return std::nullopt;
  return *gbps / machine_read_gbps;
}

double ReplayReport::balance() const {
  return mean_queues_us > 0.0 ? longest_queues_us / mean_queues_us : 1.0;
}

std::string to_table(const ReplayReport& r) {
  const auto share_of_time = [&](double seconds) { return 100.0 * seconds / r.wall_s; };
  std::string table = fmt::format(
      "{} on {} ({}): {} query heads, {} KV heads, D {}, {} layers, {}, pages of {}\n\n", r.model,
      r.backend, r.device, r.num_qo_heads, r.num_kv_heads, r.head_dim, r.layers, r.dtype,
      r.page_size);
  table += row("requests", grouped(r.requests), r.trace);
  table += row("tokens", grouped(r.input_tokens + r.output_tokens),
               fmt::format("{} of prompts, {} of answers", grouped(r.input_tokens),
                           grouped(r.output_tokens)));
  table += row("steps", grouped(r.steps),
               fmt::format("{} decode, {} mixed with prompts", grouped(r.decode_steps),
                           grouped(r.steps - r.decode_steps)));
  table += timing_row("plan", r.plan_us);
  table += timing_row("attention, all steps", r.attention_us, r.gpu.has_value());
  table += timing_row("attention, decode", r.decode_us, r.gpu.has_value());
  table += timing_row("attention, mixed", r.mixed_us, r.gpu.has_value());
  table += read_row(r);
  if (r.gpu) table += floor_row(*r.gpu, r.machine_read_gbps);
  table += row("queue balance", fmt::format("{:.3f}", r.balance()),
               fmt::format("longest over mean, predicted, all steps; median of a step {:.3f}",
                           r.step_balance.median()));
  table += row("split share", fmt::format("{:.1f} %", 100.0 * r.split_share.mean()),
               "of query tiles whose KV is split");
  table += error_row(r);
  table +=
      row("time", fmt::format("{:.1f} s", r.wall_s),
          fmt::format("attention {:.0f} %, append {:.0f} %, plan {:.1f} %, verification {:.0f} %",
                      share_of_time(r.attention_us.sum() * 1e-6), share_of_time(r.append_s),
                      share_of_time(r.plan_us.sum() * 1e-6), share_of_time(r.verify_s)));
  return table;
}

std::string to_json(const ReplayReport& r) {
  const auto times = r.gpu ? timing_with_p90 : timing;
  ordered_json attention = times(r.attention_us);
  attention["decode"] = times(r.decode_us);
  attention["mixed"] = times(r.mixed_us);
  ordered_json report{
      {"requests", r.requests},
      {"tokens", r.input_tokens + r.output_tokens},
      {"steps", r.steps},
      {"plan_us", timing(r.plan_us)},
      {"attention_us", attention},
      {"read_share", optional_number(r.read_share())},
      {"balance", r.balance()},
      {"split_share", r.split_share.mean()},
      {"max_error", r.verification ? number(r.verification->max_error) : ordered_json(nullptr)},
      {"backend", r.backend},
      {"device", r.device},
      {"trace", r.trace},
      {"model", r.model},
      {"heads", {{"qo", r.num_qo_heads}, {"kv", r.num_kv_heads}, {"dim", r.head_dim}}},
      {"layers", r.layers},
      {"dtype", r.dtype},
      {"page_size", r.page_size},
      {"pool_pages", r.pool_pages},
      {"input_tokens", r.input_tokens},
      {"output_tokens", r.output_tokens},
      {"decode_steps", r.decode_steps},
      {"decode_read_gbps", optional_number(r.decode_read_gbps())},
      {"machine_read_gbps", r.machine_read_gbps},
      {"step_balance", {{"median", r.step_balance.median()}, {"p99", r.step_balance.p99()}}},
      {"append_seconds", r.append_s},
      {"verify_seconds", r.verify_s},
      {"seconds", r.wall_s},
      {"verification", verification_json(r.verification)},
      {"version", TRENCADIS_VERSION_STRING}};
  if (r.gpu) {
    report["read_floor"] = floor_json(*r.gpu, r.machine_read_gbps);
    report["pool_bytes"] = r.gpu->pool_bytes;
  }
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trencadis::app
