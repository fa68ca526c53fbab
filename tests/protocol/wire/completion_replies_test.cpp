#include "protocol/wire/completion_replies.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

const reply_identity identity{"cmpl-1", 1763718000, "m", "fp"};
const std::string chat_head =
    R"({"id":"cmpl-1","object":"chat.completion.chunk","created":1763718000,"model":"m","system_fingerprint":"fp","choices":[)";
const std::string usage_text =
    R"("usage":{"prompt_tokens":5,"completion_tokens":12,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4},)"
    R"("completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":8,"rejected_prediction_tokens":4}})";
const reply_totals totals{{5, 12, 4, 8, 4, guarantee::tokens, true}, std::nullopt};

TEST(completion_chunk, carries_token_ids_only_when_asked) {
  reply_choice choice;
  choice.tokens = {token_id{7}};
  const std::vector<token_id> prompt{token_id{1}};
  reply_shape shape;
  EXPECT_EQ(completion_chunk(identity, shape, choice, nullptr, {}).find("token_ids"), std::string::npos);
  shape.token_ids = true;
  const auto text = completion_chunk(identity, shape, choice, &prompt, {});
  EXPECT_NE(text.find(R"("token_ids":[7],"prompt_token_ids":[1])"), std::string::npos) << text;
}

TEST(chat_chunk, follows_the_order_of_a_chat_stream) {
  reply_shape shape;
  shape.usage_in_stream = true;
  EXPECT_EQ(
      chat_opening_chunk(identity, shape, 0, nullptr, totals.used),
      chat_head +
          R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})");
  reply_choice choice;
  choice.items = as_text("a");
  EXPECT_EQ(chat_chunk(identity, shape, choice, {}),
            chat_head +
                R"({"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}],"usage":null})");
  choice.items.clear();
  choice.finish = finish_reason::length;
  EXPECT_EQ(chat_chunk(identity, shape, choice, {}),
            chat_head + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null})");
  EXPECT_EQ(chat_usage_chunk(identity, totals), chat_head + "]," + usage_text + "}");
  shape.continuous_usage = true;
  const auto opening = chat_opening_chunk(identity, shape, 0, nullptr, totals.used);
  EXPECT_TRUE(opening.ends_with("," + usage_text + "}")) << opening;
}

} // namespace
} // namespace paceline::wire
