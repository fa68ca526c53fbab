#include "config/load.hpp"
#include "config/overrides.hpp"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

constexpr std::string_view file = "version: 1\nmodels:\n  - {kind: hash, name: a}\nserver: {port: 1000}\n";

TEST(overrides_test, variables_name_options) {
  EXPECT_EQ(path_of_variable("PACELINE_SERVER_PORT"), "server.port");
  EXPECT_EQ(path_of_variable("PACELINE_SERVER_API_KEYS_FILE"), "server.api_keys_file");
  EXPECT_EQ(path_of_variable("PACELINE_MODELS_0_KV_BLOCK_SIZE"), "models.0.kv.block_size");
  EXPECT_EQ(path_of_variable("PACELINE_MODELS_1_DRAFTERS_10_DRAFT_LENGTH"),
            "models.1.drafters.10.draft_length");
  for (const auto* none :
       {"PACELINE_", "PACELINE_SERVER", "SERVER_PORT", "PACELINE_SERVER_PORTS", "PACELINE_MODELS_X_PATH",
        "PACELINE_MODELS__PATH", "PACELINE_MODELS_0", "PACELINE_DRAFTERS_0_NAME"})
    EXPECT_EQ(path_of_variable(none), "") << none;
}

TEST(overrides_test, the_command_line_wins_over_variables_and_those_over_the_file) {
  const environment variables{{"PACELINE_SERVER_PORT", "2000"}, {"PACELINE_MODELS_0_NAME", "b"}};
  EXPECT_EQ(load_text(file, "f", {}, {}).config.server.port, 1000);
  const auto with_variables = load_text(file, "f", variables, {});
  ASSERT_TRUE(with_variables.ok()) << with_variables.errors.front();
  EXPECT_EQ(with_variables.config.server.port, 2000);
  EXPECT_EQ(with_variables.config.engine.models.at(0).name, "b");
  EXPECT_EQ(load_text(file, "f", variables, {{"server.port", "3000"}}).config.server.port, 3000);
}

TEST(overrides_test, a_configuration_can_do_without_a_file) {
  const auto r = load(std::nullopt, {}, {{"models.0.path", "a.gguf"}, {"server.port", "0"}});
  ASSERT_TRUE(r.ok()) << r.errors.front();
  EXPECT_EQ(r.config.engine.models.at(0).path, "a.gguf");
}

TEST(overrides_test, lists_are_written_with_commas) {
  const auto r =
      load_text(file, "f", {{"PACELINE_MODELS_0_ALIASES", "x,y"}}, {{"server.allowed_origins", "https://a"}});
  ASSERT_TRUE(r.ok()) << r.errors.front();
  EXPECT_EQ(r.config.engine.models.at(0).aliases, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(r.config.server.allowed_origins, std::vector<std::string>{"https://a"});
}

TEST(overrides_test, bad_overrides_are_errors_that_name_their_source) {
  const auto first = [](const environment& variables, const std::vector<assignment>& assignments) {
    const auto r = load_text(file, "f", variables, assignments);
    return r.ok() ? std::string() : r.errors.front();
  };
  EXPECT_EQ(first({{"PACELINE_SERVER_PORT", "many"}}, {}),
            "environment PACELINE_SERVER_PORT: server.port: 'many' is not an integer from 0 to 65535");
  EXPECT_EQ(first({}, {{"server.prot", "1"}}),
            "command line: server: unknown key 'prot'; did you mean 'port'?");
  EXPECT_NE(first({}, {{"server", "1"}}).find("command line: server: must be a map"), std::string::npos);
  EXPECT_NE(first({}, {{"models.5.path", "x"}}).find("a new one would be number 1"), std::string::npos);
  EXPECT_NE(first({}, {{"server.0", "x"}}).find("no list"), std::string::npos);
  EXPECT_NE(first({}, {{"server..port", "x"}}).find("not a path"), std::string::npos);
  EXPECT_NE(first({}, {{"", "x"}}), "");
}

TEST(overrides_test, variables_that_only_look_like_overrides_are_warned_of) {
  const auto r = load_text(file, "f", {{"PACELINE_SERVER_PROT", "1"}, {"PACELINE_HOME", "/"}}, {});
  EXPECT_TRUE(r.ok());
  ASSERT_EQ(r.warnings.size(), 1U);
  EXPECT_NE(r.warnings.front().find("PACELINE_SERVER_PROT"), std::string::npos);
}

TEST(overrides_test, assignments_are_split_at_the_first_equals_sign) {
  EXPECT_EQ(parse_assignment("a.b=c=d"), (assignment{"a.b", "c=d"}));
  EXPECT_EQ(parse_assignment("a.b"), std::nullopt);
}

} // namespace
} // namespace paceline::config
