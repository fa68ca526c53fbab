#include "protocol/wire/fields/reference.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace paceline::wire {
namespace {

constexpr std::string_view begin_mark = "<!-- fields, generated from protocol/wire/fields -->\n";
constexpr std::string_view end_mark = "\n<!-- end of fields -->\n";

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(field_reference, the_tables_of_the_protocol_page_are_written_from_the_field_table) {
  const auto path = std::string(PACELINE_SOURCE_DIR) + "/docs/protocol.md";
  auto page = read(path);
  const auto begin = page.find(begin_mark);
  ASSERT_NE(begin, std::string::npos);
  const auto first = begin + begin_mark.size();
  const auto end = page.find(end_mark, first);
  ASSERT_NE(end, std::string::npos);
  if (std::getenv("PACELINE_UPDATE_REFERENCE") != nullptr)
    std::ofstream(path) << page.replace(first, end - first, field_reference());
  page = read(path);
  const auto there = page.substr(first, page.find(end_mark, first) - first);
  EXPECT_EQ(there, field_reference()) << "out of date: run wire_test with PACELINE_UPDATE_REFERENCE=1";
}

} // namespace
} // namespace paceline::wire
