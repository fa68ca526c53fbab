#include "runtime/model/loader/gguf_file.hpp"

#include "tests/support/gguf_builder.hpp"

#include <gtest/gtest.h>

namespace paceline::model {
namespace {

TEST(gguf_file, a_file_without_tensors_opens) {
  const auto bytes = test::gguf_builder().set_uint32("a", 7).build();
  const auto file = gguf_file::parse(bytes, "empty");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(*file->metadata().require_uint("a"), 7U);
}

} // namespace
} // namespace paceline::model
