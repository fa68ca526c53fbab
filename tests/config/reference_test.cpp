#include "config/reference.hpp"

#include "config/option.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

namespace paceline::config {
namespace {

/// Compares a file of the source tree with its generated text; writes it if PACELINE_UPDATE_REFERENCE is set.
void expect_current(const std::string& name, const std::string& text) {
  const auto path = std::string(PACELINE_SOURCE_DIR) + "/config/" + name;
  if (std::getenv("PACELINE_UPDATE_REFERENCE") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(there, text) << name << " is out of date: run config_test with PACELINE_UPDATE_REFERENCE=1";
}

TEST(reference_test, the_readme_is_written_from_the_option_table) { expect_current("README.md", readme()); }

TEST(reference_test, the_schema_is_written_from_the_option_table) {
  expect_current("schema.json", json_schema());
}

void check_group(const option_group& group) {
  std::set<std::string_view> paths;
  for (const auto& o : group.options) {
    EXPECT_TRUE(paths.insert(o.path).second) << o.path << " is declared twice";
    EXPECT_FALSE(group.is_section(o.path)) << o.path << " is an option and a section";
    EXPECT_FALSE(o.doc.empty()) << o.path;
    EXPECT_TRUE(o.doc.ends_with('.')) << o.path << ": documentation is made of sentences";
    EXPECT_LE(o.lowest, o.highest) << o.path;
  }
  if (group.elements != nullptr) check_group(*group.elements);
}

TEST(reference_test, every_option_is_declared_once_and_documented) { check_group(root_options()); }

} // namespace
} // namespace paceline::config
