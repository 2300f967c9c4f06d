#include "serving/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace trencadis::app {
namespace {

using ::testing::HasSubstr;

TEST(Distribution, QuantilesAreSamples) {
  Distribution d;
  EXPECT_EQ(d.median(), 0.0);
  for (int i = 100; i >= 1; --i) d.add(i);
  EXPECT_EQ(d.median(), 50.0);
  EXPECT_EQ(d.p99(), 99.0);
  EXPECT_EQ(d.quantile(1.0), 100.0);
  EXPECT_EQ(d.mean(), 50.5);
  EXPECT_EQ(d.max(), 100.0);
}

ReplayReport small_report() {
  ReplayReport report;
  report.backend = "cpu";
  report.requests = 3;
  report.input_tokens = 1'000'000;
  report.output_tokens = 234'567;
  report.steps = 4;
  report.decode_steps = 3;
  report.wall_s = 1.0;
  for (const double us : {100.0, 200.0, 300.0}) {
    report.decode_us.add(us);
    report.attention_us.add(us);
  }
  report.mixed_us.add(5000.0);
  report.attention_us.add(5000.0);
  report.plan_us.add(2.0);
  report.decode_kv_bytes = 6e6;  // in 600 us: 10 GB/s
  report.machine_read_gbps = 20.0;
  report.longest_queues_us = 125.0;
  report.mean_queues_us = 100.0;
  report.step_balance.add(1.5);
  report.split_share.add(0.5);
  return report;
}

TEST(Report, JsonHoldsTheDocumentedKeys) {
  ReplayReport report = small_report();
  report.verification = Verification{2, 1e-3, 0.5, 1e-6, "somewhere"};
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json.at("requests"), 3);
  EXPECT_EQ(json.at("tokens"), 1'234'567);
  EXPECT_EQ(json.at("steps"), 4);
  EXPECT_EQ(json.at("plan_us").at("median"), 2.0);
  EXPECT_EQ(json.at("plan_us").at("p99"), 2.0);
  EXPECT_EQ(json.at("attention_us").at("median"), 200.0);
  EXPECT_EQ(json.at("attention_us").at("p99"), 5000.0);
  EXPECT_EQ(json.at("attention_us").at("decode").at("median"), 200.0);
  EXPECT_EQ(json.at("attention_us").at("mixed").at("median"), 5000.0);
  EXPECT_DOUBLE_EQ(json.at("read_share").get<double>(), 0.5);
  EXPECT_EQ(json.at("balance"), 1.25);
  EXPECT_EQ(json.at("max_error"), 1e-3);
  EXPECT_EQ(json.at("backend"), "cpu");
}

TEST(Report, WhatWasNotMeasuredIsNullAndNotANumber) {
  ReplayReport report;
  report.wall_s = 1.0;
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_TRUE(json.at("read_share").is_null());
  EXPECT_TRUE(json.at("max_error").is_null());
  EXPECT_TRUE(json.at("attention_us").at("decode").at("median").is_null());
  EXPECT_THAT(to_table(report), HasSubstr("not verified"));
}

TEST(Report, AnInfiniteErrorSurvivesJson) {
  ReplayReport report = small_report();
  report.verification = Verification{1, INFINITY, INFINITY, 0.0, "somewhere"};
  EXPECT_FALSE(report.verification->passed());
  EXPECT_EQ(nlohmann::json::parse(to_json(report)).at("max_error"), "inf");
}

ReplayReport gpu_report() {
  ReplayReport report = small_report();
  report.backend = "cuda";
  GpuReport& gpu = report.gpu.emplace();
  gpu.pool_bytes = 1 << 20;
  for (const double share : {0.5, 0.25, 0.75}) {
    gpu.floor_share.add(share);
    gpu.floor_us.add(200.0 * share);
    gpu.decode_batch.add(3);
  }
  return report;
}

TEST(Report, AGpusJsonHoldsTheKeysOfACpusAndItsOwn) {
  const auto cpu = nlohmann::json::parse(to_json(small_report()));
  const auto json = nlohmann::json::parse(to_json(gpu_report()));
  for (const auto& [key, value] : cpu.items()) {
    if (key == "attention_us" || key == "backend") continue;
    EXPECT_EQ(json.at(key), value) << key;
  }
  for (const char* key : {"read_floor", "pool_bytes"}) EXPECT_FALSE(cpu.contains(key)) << key;
  EXPECT_FALSE(cpu.at("attention_us").contains("p90"));

  EXPECT_EQ(json.at("attention_us").at("decode").at("median"), 200.0);
  EXPECT_EQ(json.at("attention_us").at("decode").at("p90"), 300.0);
  EXPECT_EQ(json.at("attention_us").at("mixed").at("p90"), 5000.0);
  const auto& floor = json.at("read_floor");
  EXPECT_EQ(floor.at("share").at("median"), 0.5);
  EXPECT_EQ(floor.at("share").at("p10"), 0.25);
  EXPECT_EQ(floor.at("us").at("median"), 100.0);
  EXPECT_EQ(floor.at("us").at("p90"), 150.0);
  EXPECT_EQ(floor.at("batch").at("max"), 3.0);
  EXPECT_DOUBLE_EQ(floor.at("read_tbps").get<double>(), 0.02);
  EXPECT_EQ(floor.at("read_rate"), "measured");
  EXPECT_EQ(json.at("pool_bytes"), 1 << 20);
}

TEST(Report, AGpusTableShowsTheFloor) {
  ReplayReport report = gpu_report();
  EXPECT_THAT(to_table(report), HasSubstr("p90 300.0 µs"));
  EXPECT_THAT(to_table(report), HasSubstr("50.0 %"));
  EXPECT_THAT(to_table(report), HasSubstr("as a copy moves"));
  report.gpu->read_rate_given = true;
  EXPECT_THAT(to_table(report), HasSubstr("as given"));
  report.gpu = GpuReport();
  EXPECT_THAT(to_table(report), HasSubstr("no step was pure decode"));
  EXPECT_TRUE(
      nlohmann::json::parse(to_json(report)).at("read_floor").at("share").at("p10").is_null());
}

TEST(Report, TheTableShowsWhatTheJsonHolds) {
  const std::string table = to_table(small_report());
  for (const char* text : {"1,234,567", "50.0 %", "10.00 GB/s of the 20.00 GB/s", "5000.0 µs",
                           "queue balance", "1.250", "split share"})
    EXPECT_THAT(table, HasSubstr(text));
}

}  // namespace
}  // namespace trencadis::app
