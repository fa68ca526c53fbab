#include "protocol/wire/output/output_pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::wire {
namespace {

output_plan plan_for(call_syntax calls) {
  output_plan plan;
  plan.calls = calls;
  plan.in_harmony = calls == call_syntax::harmony;
  plan.reasoning = plan.in_harmony ? harmony_markers : think_markers;
  plan.tools = std::make_shared<const tool_signatures>(R"([{"type":"function","function":{"name":"now"}}])");
  return plan;
}

/// A letter for each byte: answer, other or undecided.
std::string owners(const output_pipeline& pipeline, std::size_t count) {
  std::string out;
  for (std::size_t at = 0; at < count; ++at) out += "ao?"[static_cast<std::size_t>(pipeline.owner_of(at))];
  return out;
}

struct owned_text {
  call_syntax calls;
  std::string_view text;
  std::string_view answer; ///< the bytes that belong to it, in order
};

const owned_text owned_texts[] = {
    {call_syntax::hermes, "<think>hm</think>Look:\n<tool_call>{\"name\":\"now\"}</tool_call>\nDone.",
     "Look:Done."},
    {call_syntax::hermes, "a <tool_call>none</tool_call> b", "a <tool_call>none</tool_call> b"},
    {call_syntax::hermes, "a<tool_call>{\"name\":\"now\",\"argu", "a"},
    {call_syntax::hermes, "a <tool_ca", "a <tool_ca"},
    {call_syntax::hermes, "{\"name\":\"now\"}", ""},
    {call_syntax::hermes, "{\"name\":\"then\"}", "{\"name\":\"then\"}"},
    {call_syntax::qwen3_coder, "a\n<tool_call>\n<function=now>\n</function>\n</tool_call>\n b", "ab"},
    {call_syntax::glm, "a<tool_call>now</tool_call><tool_call>now</tool_call>", "a"},
    {call_syntax::mistral, "a[TOOL_CALLS][{\"name\":\"now\",\"arguments\":{}}]", "a"},
    {call_syntax::mistral, "a[TOOL_CALLS][1]", "a[TOOL_CALLS][1]"},
    {call_syntax::lfm2, "<|tool_call_start|>[now()]<|tool_call_end|>b", "b"},
    {call_syntax::harmony,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.now<|channel|>commentary<|message|>{}"
     "<|call|><|start|>assistant<|channel|>final<|message|>b",
     "b"},
    {call_syntax::harmony, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>fi", ""},
    {call_syntax::harmony, "to", "to"},
};

TEST(byte_owner, tells_the_answer_from_thoughts_and_calls) {
  for (const auto& one : owned_texts) {
    output_pipeline pipeline(plan_for(one.calls), [] { return std::string("id"); });
    pipeline.feed(std::string(one.text));
    pipeline.finish(false);
    const auto letters = owners(pipeline, one.text.size());
    std::string answer;
    for (std::size_t at = 0; at < one.text.size(); ++at)
      if (letters[at] == 'a') answer += one.text[at];
    EXPECT_EQ(answer, one.answer) << one.text << "\n" << letters;
    EXPECT_EQ(letters.find('?'), std::string::npos);
  }
}

TEST(byte_owner, what_is_decided_stays) {
  for (const auto& one : owned_texts) {
    output_pipeline pipeline(plan_for(one.calls), [] { return std::string("id"); });
    std::string known;
    for (std::size_t count = 1; count <= one.text.size() + 1; ++count) {
      if (count <= one.text.size())
        pipeline.feed(std::string(1, one.text[count - 1]));
      else
        pipeline.finish(false);
      const auto letters = owners(pipeline, std::min(count, one.text.size()));
      for (std::size_t at = 0; at < known.size(); ++at)
        EXPECT_TRUE(known[at] == '?' || known[at] == letters[at]) << one.text << "\n"
                                                                  << known << " became\n"
                                                                  << letters;
      known = letters;
    }
    output_pipeline whole(plan_for(one.calls), [] { return std::string("id"); });
    whole.feed(std::string(one.text));
    whole.finish(false);
    EXPECT_EQ(known, owners(whole, one.text.size())) << one.text;
  }
}

TEST(byte_owner, what_is_dropped_behind_the_last_call_is_no_answer) {
  for (const auto calls : {call_syntax::hermes, call_syntax::harmony}) {
    auto plan = plan_for(calls);
    plan.max_calls = 1;
    output_pipeline pipeline(plan, [] { return std::string("id"); });
    const std::string call = calls == call_syntax::hermes
                                 ? "<tool_call>{\"name\":\"now\"}"
                                 : "<|channel|>commentary to=functions.now<|message|>{}";
    EXPECT_FALSE(pipeline.is_full());
    pipeline.feed(call);
    EXPECT_TRUE(pipeline.is_full());
    pipeline.feed(" and more");
    EXPECT_EQ(owners(pipeline, call.size() + 9), std::string(call.size() + 9, 'o'));
  }
}

} // namespace
} // namespace paceline::wire
