// Walks the table: the parsers accept what a row allows, and refuse everything else with the field's name.
#include "protocol/wire/fields/field_table.hpp"

#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/messages_request.hpp"
#include "tests/protocol/wire/fields/field_bodies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace paceline::wire {
namespace {

struct outcome {
  std::optional<api_error> failure;
  std::vector<std::string> ignored;
};

template <class Request>
outcome judged(const parsed<Request>& request) {
  if (!request) return {request.failure(), {}};
  if constexpr (requires { request->fields; })
    return {std::nullopt, request->fields.ignored_fields};
  else
    return {std::nullopt, request->ignored_fields};
}

outcome parse(request_kinds kind, const std::string& body) {
  switch (kind) {
  case in::completions:
    return judged(parse_completion_request(body, {}));
  case in::chat:
    return judged(parse_chat_request(body, {}));
  case in::responses:
    return judged(parse_response_request(body, {}));
  case in::messages:
    return judged(parse_messages_request(body, {}));
  case in::count_tokens:
    return judged(parse_count_request(body, {}));
  case in::tokenize:
    return judged(parse_tokenize_request(body, {}));
  case in::detokenize:
    return judged(parse_detokenize_request(body, {}));
  default:
    break;
  }
  const auto frame = parse_client_frame(body, {});
  if (const auto* refused = std::get_if<refused_frame>(&frame)) return {refused->failure, {}};
  return {std::nullopt, std::get<client_frame>(frame).create.fields.ignored_fields};
}

/// "messages[3].role" as "messages[].role"
std::string without_indices(const std::string& param) {
  std::string out;
  for (std::size_t i = 0; i < param.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(param[i])) == 0 || out.empty() || out.back() != '[')
      out += param[i];
  return out;
}

/// Calls `check(row, kind)` for every row and every kind of request that has the field.
template <class Check>
void walk(Check check) {
  std::size_t num_checked = 0;
  for (const auto& group : field_groups)
    for (const auto& row : group.rows)
      for (const auto& [kind, members] : smallest_requests)
        if ((row.where & kind) != 0) {
          SCOPED_TRACE(path_of(row) + " of " + members);
          check(row, kind);
          ++num_checked;
        }
  EXPECT_GT(num_checked, 500U);
}

TEST(field_table, the_parsers_accept_and_read_what_a_row_allows) {
  walk([](const field_spec& row, request_kinds kind) {
    for (const auto& value : good_values(row, kind)) {
      const auto result = parse(kind, body_with(row, kind, value));
      EXPECT_FALSE(result.failure) << value.substr(0, 80) << ": " << result.failure->message;
      EXPECT_EQ(std::count(result.ignored.begin(), result.ignored.end(), path_of(row)), row.is_told ? 1 : 0)
          << value.substr(0, 80) << (row.is_told ? " is not told" : " is ignored");
    }
  });
}

TEST(field_table, the_parsers_refuse_anything_else_by_name) {
  walk([](const field_spec& row, request_kinds kind) {
    const auto path = path_of(row);
    for (const auto& value : bad_values(row)) {
      const auto result = parse(kind, body_with(row, kind, value));
      ASSERT_TRUE(result.failure) << value.substr(0, 80);
      EXPECT_EQ(result.failure->status, 400);
      const auto param = without_indices(result.failure->param);
      EXPECT_TRUE(param.starts_with(path) || path.starts_with(param)) << value.substr(0, 80) << ": " << param;
      if (row.state == field_state::refused) {
        EXPECT_EQ(result.failure->code, "unsupported_parameter");
      }
    }
  });
}

TEST(field_table, a_default_is_accepted_where_it_is_json) {
  std::size_t num_checked = 0;
  walk([&](const field_spec& row, request_kinds kind) {
    if (!is_json(row.initial)) return;
    ++num_checked;
    const auto result = parse(kind, body_with(row, kind, std::string(row.initial)));
    EXPECT_FALSE(result.failure) << row.initial << ": " << result.failure->message;
  });
  EXPECT_GT(num_checked, 100U);
}

TEST(field_table, one_of_two_fields_suffices) {
  const auto frame = [](const std::string& rest) {
    return parse(in::frames, R"({"type":"response.create")" + rest + "}");
  };
  EXPECT_EQ(spec("input").unless, "previous_response_id");
  const auto neither = frame("");
  ASSERT_TRUE(neither.failure);
  EXPECT_EQ(neither.failure->param, "input");
  EXPECT_FALSE(frame(R"(,"previous_response_id":"r")").failure);
}

TEST(field_table, every_field_is_declared_once_and_documented) {
  std::set<std::tuple<std::string, request_kinds>> seen;
  walk([&](const field_spec& row, request_kinds kind) {
    EXPECT_TRUE(seen.emplace(path_of(row), kind).second) << "is declared twice";
    EXPECT_FALSE(row.doc.empty());
    EXPECT_EQ(row.doc.ends_with('.'), row.state == field_state::supported)
        << "a supported field is described by sentences, another by a reason";
    EXPECT_LE(row.least, row.most);
    EXPECT_NO_THROW(place_of(row, kind)) << row.object;
    EXPECT_GE(index_of_name(row.name), 0);
  });
}

TEST(field_table, names_are_found_whatever_their_length) {
  EXPECT_EQ(index_of_name(""), -1);
  EXPECT_EQ(index_of_name("temperatur"), -1);
  EXPECT_EQ(index_of_name("temperature\\"), -1);
  EXPECT_EQ(index_of_name(std::string(100'000, 'x')), -1);
  EXPECT_LT(index_of_name("temperature"), static_cast<int>(num_field_names));
  EXPECT_NE(index_of_name("temperature"), index_of_name("top_p"));
}

} // namespace
} // namespace paceline::wire
