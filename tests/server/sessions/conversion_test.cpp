#include "server/sessions/conversion.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

/// A complete reply, made in pieces of `num_bytes`.
std::string whole(const wire::parsed<std::unique_ptr<wire::text_source>>& made, std::size_t num_bytes = 1) {
  std::string text;
  for (const auto& source = *made; !source->at_end();) {
    const auto piece = source->next(num_bytes);
    EXPECT_FALSE(piece.empty());
    text += piece;
  }
  return text;
}

TEST(conversion, tokenizes_both_ways) {
  scripted_edge edge;
  EXPECT_EQ(whole(tokenize_reply(edge.context, std::string(R"({"prompt":"a"})"))),
            R"({"count":2,"max_model_len":64,"tokens":[256,97]})");
  EXPECT_EQ(whole(tokenize_reply(edge.context,
                                 std::string(R"({"content":"a","add_special":false,"with_pieces":true})"))),
            R"({"count":1,"max_model_len":64,"tokens":[97],"token_strs":["a"]})");
  EXPECT_EQ(whole(detokenize_reply(edge.context, std::string(R"({"tokens":[97,34,98]})"))),
            R"({"prompt":"a\"b","content":"a\"b"})");
  EXPECT_EQ(whole(detokenize_reply(edge.context, std::string(R"({"tokens":[]})"))),
            R"({"prompt":"","content":""})");
  EXPECT_EQ(detokenize_reply(edge.context, std::string(R"({"tokens":[300]})")).failure().param, "tokens");
}

TEST(conversion, tools_need_a_place_in_the_template) {
  scripted_edge edge;
  const std::string body =
      R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]})";
  EXPECT_EQ(tokenize_reply(edge.context, body).failure().param, "tools");
  edge.engine.bytes.takes_tools = true;
  EXPECT_TRUE(tokenize_reply(edge.context, body));
}

TEST(conversion, counts_beyond_the_context_and_no_further_than_it_says) {
  scripted_edge edge;
  const auto ask = [&](std::size_t num_tokens) {
    return tokenize_reply(edge.context, R"({"prompt":")" + std::string(num_tokens, 'a') +
                                            R"(","add_special_tokens":false})");
  };
  ASSERT_TRUE(ask(max_counted_tokens));
  const auto refused = ask(max_counted_tokens + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().param, "prompt");
  EXPECT_NE(refused.failure().message.find("131072"), std::string::npos);
  edge.engine.bytes.set_context_length(max_counted_tokens + 1);
  EXPECT_TRUE(ask(max_counted_tokens + 1));
}

TEST(conversion, lets_the_body_go_once_it_is_read) {
  scripted_edge edge;
  request_body body(std::string(R"({"tokens":[97]})"));
  const std::weak_ptr<void> kept = body.owner;
  const auto made = detokenize_reply(edge.context, std::move(body));
  EXPECT_TRUE(made && kept.expired());
}

TEST(conversion, what_waits_for_the_client_takes_less_than_its_body_did) {
  scripted_edge edge;
  for (const std::string id : {"0", "127", "299"}) {
    std::string body = R"({"tokens":[)" + id;
    for (int i = 1; i < 20'000; ++i) body += "," + id;
    body += "]}";
    const auto size = body.size();
    const auto made = detokenize_reply(edge.context, std::move(body));
    ASSERT_TRUE(made);
    EXPECT_LE((*made)->num_bytes(), size / 2 + 100) << id;
    (*made)->next(1000);
    EXPECT_LE((*made)->num_bytes(), size / 2 + 100) << id;
  }
  const auto ids = tokenize_reply(edge.context, R"({"prompt":")" + std::string(20'000, 'a') + R"("})");
  ASSERT_TRUE(ids);
  EXPECT_LE((*ids)->num_bytes(), 20'000 + 200);
}

} // namespace
} // namespace paceline::server
