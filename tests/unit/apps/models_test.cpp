#include "serving/models.h"

#include <gmock/gmock.h>
#include <trencadis/error.h>

namespace trencadis::app {
namespace {

TEST(Models, AreFoundByName) {
  const ModelShape& llama = find_model("llama-3.1-70b");
  EXPECT_EQ(llama.num_qo_heads, 64);
  EXPECT_EQ(llama.num_kv_heads, 8);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.num_layers, 80);
}

TEST(Models, HaveWholeGroupsAndLayers) {
  for (const ModelShape& model : known_models()) {
    EXPECT_EQ(model.num_qo_heads % model.num_kv_heads, 0) << model.name;
    EXPECT_GT(model.num_layers, 0) << model.name;
    EXPECT_EQ(model.window > 0, model.window_every > 0) << model.name;
  }
}

TEST(Models, AnUnknownNameListsTheKnownOnes) {
  try {
    find_model("gpt-9");
    FAIL() << "expected Error(invalid_argument)";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("gpt-9"),
                                               ::testing::HasSubstr("llama-3.1-8b")));
  }
}

TEST(Models, HeadsAreQueryKvAndDim) {
  const ModelShape shape = parse_heads("28:4:96");
  EXPECT_EQ(shape.num_qo_heads, 28);
  EXPECT_EQ(shape.num_kv_heads, 4);
  EXPECT_EQ(shape.head_dim, 96);
  EXPECT_EQ(describe(shape), "28:4:96");
  for (const char* text : {"", "32", "32:8", "32:8:128:1", "32:8:", "7:2:64", "0:1:64", "a:b:c"})
    EXPECT_THROW(parse_heads(text), Error) << text;
}

}  // namespace
}  // namespace trencadis::app
