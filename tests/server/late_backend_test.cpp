#include "server/late_backend.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(late_backend, shows_how_many_of_all_bytes_are_read) {
  late_backend late({{"big", "", 0, 600}, {"big", "small", 0, 200}, {"hash", "", 0, 0}});
  EXPECT_EQ(late.loading()->share(), 0);
  late.note({"big", 300, 600});
  EXPECT_EQ(late.loading()->percent(), 37);
  late.note({"big", 600, 600});
  late.note({"big/small", 100, 200});
  EXPECT_DOUBLE_EQ(late.loading()->share(), 0.875);
  late.note({"something else", 1, 1});
  EXPECT_EQ(late.loading()->parts.size(), 3U);
  EXPECT_DOUBLE_EQ(late.loading()->share(), 0.875);
}

TEST(late_backend, takes_the_size_that_the_load_finds) {
  late_backend late({{"model", "", 0, 1000}});
  late.note({"model", 400, 800}); // the rest of the file is its header
  EXPECT_EQ(late.loading()->percent(), 50);
  EXPECT_EQ(late.loading()->parts.front().num_bytes, 800U);
}

TEST(late_backend, without_weights_nothing_is_read) {
  EXPECT_EQ(late_backend({{"hash", "", 0, 0}}).loading()->share(), 0);
}

TEST(late_backend, has_no_models_until_it_serves) {
  late_backend late({{"bytes", "", 0, 0}});
  EXPECT_TRUE(late.models().empty());
  EXPECT_EQ(late.model("bytes"), nullptr);
  EXPECT_TRUE(late.healthy());
  EXPECT_TRUE(late.snapshot().models.empty());

  auto owned = std::make_unique<scripted_backend>();
  auto& engine = *owned;
  late.serve(std::move(owned));
  EXPECT_FALSE(late.loading());
  EXPECT_EQ(late.model("bytes"), &engine.bytes);
  EXPECT_EQ(late.models().size(), 1U);
  EXPECT_EQ(late.snapshot().models.front().name, "bytes");
  const auto request = late.submit({}, [](const token_event&) {}, {});
  late.grant(request, 7);
  late.cancel(request);
  EXPECT_EQ(engine.submissions.at(request.value).credit, 7U);
  EXPECT_TRUE(engine.submissions.at(request.value).cancelled);
  engine.alive = false;
  EXPECT_FALSE(late.healthy());
}

} // namespace
} // namespace paceline::server
