#include "config/load.hpp"

#include <gtest/gtest.h>

namespace paceline::config::print_test {
namespace {

constexpr std::string_view file = R"(version: 1
models:
  - name: a
    kind: hash
    aliases: [x, "y z", "true"]
    drafters:
      - {name: one, kind: ngram}
      - {name: two, kind: model, path: "a $$ #b"}
  - {name: "b: c", path: ~/model.gguf, hash: {sharpness: 0.1}}
server: {port: 1000, request_timeout: 90s}
)";

TEST(print_test, what_is_printed_loads_to_the_same_values) {
  const auto r = load_text(file, "f", {}, {{"logging.file", "true"}});
  ASSERT_TRUE(r.ok()) << r.errors.front();
  const auto again = load_text(print(r), "printed", {}, {});
  ASSERT_TRUE(again.ok()) << again.errors.front() << "\n" << print(r);
  EXPECT_TRUE(changed(r, again).empty()) << changed(r, again).front().first;
  EXPECT_EQ(again.config.engine.models.at(0).drafters.at(1).path, "a $ #b");
}

TEST(print_test, every_value_says_where_it_came_from) {
  const auto text =
      print(load_text(file, "f.yaml", {{"PACELINE_ENGINE_THREADS", "3"}}, {{"server.host", "::1"}}));
  EXPECT_NE(text.find("port: 1000  # f.yaml:10:16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("threads: 3  # environment PACELINE_ENGINE_THREADS\n"), std::string::npos);
  EXPECT_NE(text.find("host: \"::1\"  # command line\n"), std::string::npos);
  EXPECT_NE(text.find("drain_timeout: 30s  # default\n"), std::string::npos);
}

TEST(print_test, a_reload_knows_what_changed_and_what_needs_a_restart) {
  const auto before = load_text(file, "f", {}, {});
  const auto after = load_text(file, "f", {}, {{"logging.level", "debug"}, {"server.port", "2"}});
  using change = std::pair<std::string, bool>;
  EXPECT_EQ(changed(before, after), (std::vector<change>{{"server.port", false}, {"logging.level", true}}));
  const auto longer = load_text(file, "f", {}, {{"models.2.kind", "hash"}, {"models.2.name", "c"}});
  EXPECT_FALSE(changed(before, longer).empty());
  EXPECT_EQ(changed(before, longer).size(), changed(longer, before).size());
}

TEST(print_test, a_reload_finds_what_changed_among_many_settings) {
  load_result before;
  for (int i = 0; i < 200'000; ++i)
    before.settings.push_back({"models." + std::to_string(i) + ".name", "x", "default", false});
  auto after = before;
  after.settings[150'000].value = "y";
  after.settings.pop_back();
  using change = std::pair<std::string, bool>;
  EXPECT_EQ(changed(before, after),
            (std::vector<change>{{"models.150000.name", false}, {"models.199999.name", false}}));
}

} // namespace
} // namespace paceline::config::print_test
