#include "server/http/router.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(router, finds_every_endpoint) {
  const std::tuple<const char*, const char*, endpoint, const char*> cases[] = {
      {"GET", "/v1/models", endpoint::models, ""},
      {"GET", "/v1/models/org/name", endpoint::model, "org/name"},
      {"POST", "/v1/completions", endpoint::completions, ""},
      {"POST", "/v1/chat/completions", endpoint::chat_completions, ""},
      {"POST", "/v1/messages", endpoint::messages, ""},
      {"POST", "/v1/messages/count_tokens", endpoint::count_tokens, ""},
      {"POST", "/v1/responses", endpoint::create_response, ""},
      {"POST", "/v1/responses/input_tokens", endpoint::count_input, ""},
      {"GET", "/v1/responses", endpoint::response_socket, ""},
      {"GET", "/v1/responses/r1", endpoint::get_response, "r1"},
      {"DELETE", "/v1/responses/r1", endpoint::delete_response, "r1"},
      {"GET", "/v1/responses/r1/input_items", endpoint::input_items, "r1"},
      {"POST", "/v1/responses/r1/cancel", endpoint::cancel_response, "r1"},
      {"POST", "/tokenize", endpoint::tokenize, ""},
      {"GET", "/tokenizer_info", endpoint::tokenizer_info, ""},
      {"POST", "/models/org/name/tokenize", endpoint::tokenize, "org/name"},
      {"POST", "/models/a/detokenize", endpoint::detokenize, "a"},
      {"GET", "/models/a/tokenizer_info", endpoint::tokenizer_info, "a"},
      {"POST", "/models/a/v1/completions", endpoint::completions, "a"},
      {"POST", "/models/a/v1/chat/completions", endpoint::chat_completions, "a"},
      {"GET", "/healthz", endpoint::live, ""},
      {"HEAD", "/health", endpoint::ready, ""},
      {"GET", "/metrics", endpoint::metrics, ""},
      {"GET", "/openapi.json", endpoint::openapi, ""},
      {"GET", "/", endpoint::page, ""},
      {"HEAD", "/page/app.js", endpoint::page_file, "app.js"}};
  for (const auto& [method, path, target, id] : cases) {
    const auto found = find_route(method, path);
    ASSERT_TRUE(std::holds_alternative<route>(found)) << path;
    EXPECT_EQ(std::get<route>(found).target, target) << path;
    EXPECT_EQ(std::get<route>(found).id, id) << path;
  }
}

TEST(router, tells_a_wrong_method_from_a_wrong_path) {
  EXPECT_TRUE(std::get<no_route>(find_route("GET", "/nothing")).allowed_methods.empty());
  EXPECT_TRUE(std::get<no_route>(find_route("POST", "/v1/responses//cancel")).allowed_methods.empty());
  for (const auto* path : {"/v1/responses/a/b", "/v1/responses/a/b/input_items"})
    EXPECT_TRUE(std::get<no_route>(find_route("GET", path)).allowed_methods.empty()) << path;
  EXPECT_TRUE(std::get<no_route>(find_route("GET", "/v1/models/")).allowed_methods.empty());
  EXPECT_TRUE(std::get<no_route>(find_route("POST", "/models//tokenize")).allowed_methods.empty());
  EXPECT_EQ(std::get<no_route>(find_route("DELETE", "/v1/responses")).allowed_methods,
            (std::vector<std::string_view>{"GET", "HEAD", "POST"}));
  EXPECT_EQ(std::get<no_route>(find_route("GET", "/v1/responses/r/cancel")).allowed_methods,
            (std::vector<std::string_view>{"POST"}));
}

TEST(router, says_which_path_was_meant) {
  EXPECT_EQ(why_missing("/chat/completions"), "no such path; did you mean /v1/chat/completions?");
  EXPECT_EQ(why_missing("/v1/v1/completions"), "no such path; did you mean /v1/completions?");
  EXPECT_EQ(why_missing("/v1/livez"), "no such path; did you mean /livez?");
  EXPECT_NE(why_missing("/v1/embeddings").find("embeddings"), std::string::npos);
  for (const auto* path : {"/nothing", "/v1/nothing", "/v1", "", "/x/v1/completions"})
    EXPECT_EQ(why_missing(path), "no such path") << path;
}

TEST(router, only_health_and_pages_are_open_to_everybody) {
  EXPECT_TRUE(is_open(endpoint::openapi, false) && is_open(endpoint::page, false) &&
              is_open(endpoint::page_file, false));
  EXPECT_TRUE(is_open(endpoint::live, false) && is_open(endpoint::ready, false));
  EXPECT_TRUE(is_open(endpoint::metrics, true));
  EXPECT_FALSE(is_open(endpoint::metrics, false) || is_open(endpoint::models, true) ||
               is_open(endpoint::response_socket, true));
}

} // namespace
} // namespace paceline::server
