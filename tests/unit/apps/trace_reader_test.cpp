#include "trace/trace_reader.h"

#include <gmock/gmock.h>
#include <trencadis/error.h>

#include <filesystem>
#include <fstream>

#include "support/paths.h"

namespace trencadis::app {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

std::vector<TraceRequest> read_all(const std::string& name, const std::string& text) {
  std::vector<TraceRequest> requests;
  const auto reader = open_trace_text(name, text);
  while (const auto request = reader->next()) requests.push_back(*request);
  return requests;
}

std::string error_of(const std::string& name, const std::string& text) {
  try {
    read_all(name, text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    return error.what();
  }
  return "no error";
}

std::string azure(const std::string& rows) {
  return kHeader + rows;
}

TEST(TraceReader, ReadsAzure) {
  const auto requests = read_all("t.csv", azure("2023-11-16 18:15:46.5,374,44\n"
                                                "2023-11-16 18:16:00.0,396,109\n"));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].arrival_s, 0.0);
  EXPECT_EQ(requests[0].input_tokens, 374);
  EXPECT_EQ(requests[0].output_tokens, 44);
  EXPECT_EQ(requests[0].line, 2);
  EXPECT_DOUBLE_EQ(requests[1].arrival_s, 13.5);
  EXPECT_EQ(requests[1].line, 3);
}

TEST(TraceReader, FindsAzureColumnsByName) {
  const auto requests = read_all("t.csv",
                                 "GeneratedTokens,region,TIMESTAMP,ContextTokens\r\n"
                                 "44,west,2023-11-16 18:15:46,\"374\"\r\n");
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].input_tokens, 374);
  EXPECT_EQ(requests[0].output_tokens, 44);
}

TEST(TraceReader, SkipsBlankLinesAndStillCountsThem) {
  const auto requests = read_all("t.csv", azure("\n  \n2023-11-16 18:15:46,1,0"));
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].line, 4);
}

TEST(TraceReader, ReadsMooncake) {
  const auto requests = read_all(
      "t.jsonl",
      R"({"timestamp": 1000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]})"
      "\n"
      R"({"timestamp": 4000.5, "input_length": 10, "output_length": 0, "hash_ids": []})");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].arrival_s, 0.0);
  EXPECT_EQ(requests[0].input_tokens, 6758);
  EXPECT_EQ(requests[0].output_tokens, 500);
  EXPECT_DOUBLE_EQ(requests[1].arrival_s, 3.0005);
  EXPECT_EQ(requests[1].line, 2);
}

TEST(TraceReader, TellsFormatsApartByContentWhereTheNameDoesNot) {
  EXPECT_EQ(read_all("t", R"( {"timestamp": 0, "input_length": 1, "output_length": 1})").size(),
            1u);
  EXPECT_EQ(read_all("t.txt", azure("2023-11-16 18:15:46,1,1\n")).size(), 1u);
}

TEST(TraceReader, NamesTheBadLineOfAzure) {
  const std::string good = "2023-11-16 18:15:46,1,1\n";
  EXPECT_THAT(error_of("t.csv", ""), HasSubstr("t.csv:1: the file is empty, expected a header"));
  EXPECT_THAT(error_of("t.csv", "TIMESTAMP,Tokens\n"),
              HasSubstr("t.csv:1: the header has no column ContextTokens"));
  EXPECT_THAT(error_of("t.csv", azure(good + "2023-11-16 18:15:46,abc,1\n")),
              HasSubstr("t.csv:3: ContextTokens is \"abc\", expected a whole number"));
  EXPECT_THAT(error_of("t.csv", azure("2023-11-16 18:15:46,1,99999999999999999999\n")),
              HasSubstr("t.csv:2: GeneratedTokens is \"99999999999999999999\""));
  EXPECT_THAT(error_of("t.csv", azure("yesterday,1,1\n")),
              HasSubstr("t.csv:2: TIMESTAMP is \"yesterday\", expected YYYY-MM-DD"));
  EXPECT_THAT(error_of("t.csv", azure("2023-11-16 18:15:46,1\n")),
              HasSubstr("t.csv:2: the line has fewer columns"));
  EXPECT_THAT(error_of("t.csv", azure("2023-11-16 18:15:46,1,1,1\n")),
              HasSubstr("t.csv:2: the line has more columns"));
  EXPECT_THAT(error_of("t.csv", azure("2023-11-16 18:15:46,0,1\n")),
              HasSubstr("t.csv:2: the prompt has 0 tokens, expected 1"));
  EXPECT_THAT(error_of("t.csv", azure("2023-11-16 18:15:46,1,-1\n")),
              HasSubstr("t.csv:2: the answer has -1 tokens"));
  EXPECT_THAT(error_of("t.csv", azure(good + "2023-11-16 18:15:44.5,1,1\n")),
              HasSubstr("t.csv:3: the time is 1.500000 s before the previous"));
}

TEST(TraceReader, NamesTheBadLineOfMooncake) {
  const std::string good = R"({"timestamp": 9, "input_length": 1, "output_length": 1})"
                           "\n";
  EXPECT_THAT(error_of("t.jsonl", good + "{\"timestamp\": 0, \n"),
              HasSubstr("t.jsonl:2: \"{\"timestamp\": 0, \" is not a JSON object"));
  EXPECT_THAT(error_of("t.jsonl", "[1]"), HasSubstr("t.jsonl:1: \"[1]\" is not a JSON object"));
  EXPECT_THAT(error_of("t.jsonl", R"({"timestamp": 0, "input_length": 1})"),
              HasSubstr("t.jsonl:1: the object has no \"output_length\""));
  EXPECT_THAT(error_of("t.jsonl", R"({"timestamp": 0, "input_length": 1.5, "output_length": 1})"),
              HasSubstr("t.jsonl:1: input_length is \"1.5\", expected a whole number"));
  EXPECT_THAT(error_of("t.jsonl", R"({"timestamp": -1, "input_length": 1, "output_length": 1})"),
              HasSubstr("t.jsonl:1: timestamp is \"-1\", expected milliseconds"));
  EXPECT_THAT(
      error_of("t.jsonl", good + R"({"timestamp": 8, "input_length": 1, "output_length": 1})"),
      HasSubstr("t.jsonl:2: the time is 0.001000 s before"));
}

TEST(TraceReader, SaysWhatIsWrongWithTheFileItself) {
  EXPECT_THROW(open_trace("/nonexistent/trace.csv"), Error);
  EXPECT_THROW(open_trace(std::filesystem::temp_directory_path().string()), Error);
}

TEST(TraceReader, TheShippedTraceIsWhatItsReadmeSays) {
  const std::string trace = testing::source_dir() + "/data/azure_conv_2023.csv";
  const TraceSummary all = scan_trace(trace, 0);
  EXPECT_EQ(all.requests, 1500);
  EXPECT_EQ(all.input_tokens, 1600943);
  EXPECT_EQ(all.output_tokens, 385847);
  const TraceSummary some = scan_trace(trace, 1000);
  EXPECT_EQ(some.requests, 1000);
  EXPECT_EQ(some.input_tokens, 1014189);
}

TEST(TraceReader, AScanOfNoRequestsIsAnError) {
  const std::string path = std::filesystem::path(::testing::TempDir()) / "header_only.csv";
  std::ofstream(path) << kHeader;
  EXPECT_THROW(scan_trace(path, 0), Error);
}

}  // namespace
}  // namespace trencadis::app
