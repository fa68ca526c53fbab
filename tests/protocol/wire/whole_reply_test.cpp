#include "protocol/wire/whole_reply.hpp"

#include <gtest/gtest.h>
#include <limits>

namespace paceline::wire {
namespace {

const std::string usage_text =
    R"("usage":{"prompt_tokens":5,"completion_tokens":12,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4},)"
    R"("completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":8,"rejected_prediction_tokens":4}})";

/// Token 0 is two bytes of a three-byte character. The other tokens are letters.
std::string spell(token_id token) {
  return token.value == 0   ? "\xe2\x82"
         : token.value == 1 ? "\xc3\xa9"
                            : std::string(1, static_cast<char>(token.value));
}

reply_content content(std::size_t num_choices = 1) {
  reply_content made;
  made.identity = {"cmpl-1", 1763718000, "m", "fp"};
  made.totals = {{5, 12, 4, 8, 4, guarantee::tokens, true}, std::nullopt};
  made.choices.resize(num_choices);
  for (std::size_t i = 0; i < num_choices; ++i) made.choices[i].index = static_cast<std::uint32_t>(i);
  return made;
}

std::string text_of(reply_content content) { return whole_reply(std::move(content), spell).next(1U << 20U); }

TEST(whole_reply, has_the_shape_of_openai) {
  auto made = content();
  made.choices[0].text = "hi";
  made.choices[0].finish = finish_reason::stop;
  EXPECT_EQ(
      text_of(std::move(made)),
      R"({"id":"cmpl-1","object":"text_completion","created":1763718000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":"stop"}],)" +
          usage_text + "}");
}

TEST(whole_reply, an_echo_is_written_in_pieces_before_the_text) {
  auto made = content();
  std::string prompt;
  while (prompt.size() < 20'000) prompt += "a\xe2\x82\xac\"";
  made.choices[0].prompt_text = std::make_shared<const std::string>(prompt.substr(0, prompt.size() - 2));
  made.choices[0].text = prompt.substr(prompt.size() - 2) + "b"; // half a character ends the prompt
  whole_reply reply(std::move(made), spell);
  std::string text;
  while (!reply.at_end()) {
    const auto piece = reply.next(100);
    EXPECT_LE(piece.size(), 10'000U);
    text += piece;
  }
  std::string expected;
  append_json_string(expected, prompt + "b");
  EXPECT_NE(text.find(R"("text":)" + expected + R"(,"logprobs")"), std::string::npos);
}

TEST(whole_reply, begun_before_its_last_choice_it_reads_the_same) {
  const auto choices = [] {
    auto made = content(3);
    for (std::size_t i = 0; i < 3; ++i) {
      made.choices[i].text = std::string(100 * i, 'a');
      made.choices[i].prompt_text = std::make_shared<const std::string>("prompt " + std::to_string(i));
      made.choices[i].scores.append({token_id{'x'}, -1.5F, {{token_id{'y'}, -0.5F}}});
    }
    made.shape.scores = true;
    return made;
  };
  auto begun = choices();
  auto later = std::exchange(begun.choices, {});
  begun.totals = {};
  const auto reply = whole_reply::open(std::move(begun), spell);
  std::string text;
  for (auto& choice : later) {
    reply->add(std::move(choice));
    EXPECT_GT(reply->num_bytes(), 0U);
    for (std::string piece; !(piece = reply->next(50)).empty();) text += piece;
    EXPECT_FALSE(reply->at_end());
    EXPECT_TRUE(text.ends_with("}")) << "all that is there";
  }
  reply->complete(choices().totals);
  text += reply->next(1U << 20U);
  EXPECT_TRUE(reply->at_end());
  EXPECT_EQ(reply->num_bytes(), 0U);
  EXPECT_EQ(text, text_of(choices()));
}

TEST(whole_reply, legacy_logprobs_count_characters_and_include_the_chosen_token) {
  auto made = content();
  made.choices[0].text = "\xc3\xa9x";
  made.choices[0].scores.append_without_score(token_id{1});
  made.choices[0].scores.append({token_id{'x'}, -1.5F, {{token_id{'y'}, -0.5F}}});
  made.shape.scores = true;
  const auto text = text_of(std::move(made));
  EXPECT_NE(
      text.find(
          R"("logprobs":{"tokens":["é","x"],"token_logprobs":[null,-1.5],"top_logprobs":[null,{"y":-0.5,"x":-1.5}],"text_offset":[0,1]})"),
      std::string::npos)
      << text;
}

TEST(whole_reply, a_chat_gives_bytes_of_each_token) {
  auto made = content();
  made.chat = true;
  made.choices[0].text = "a";
  made.choices[0].finish = finish_reason::stop;
  made.choices[0].scores.append({token_id{0}, -0.25F, {{token_id{'a'}, -2.0F}}});
  made.shape.scores = true;
  const auto text = text_of(std::move(made));
  EXPECT_NE(
      text.find(R"("logprobs":{"content":[{"token":"bytes:\\xe2\\x82","logprob":-0.25,"bytes":[226,130],)"
                R"("top_logprobs":[{"token":"a","logprob":-2.0,"bytes":[97]}]}],"refusal":null})"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("message":{"role":"assistant","content":"a","refusal":null})"), std::string::npos);
}

TEST(whole_reply, shows_ids_of_each_choice_with_its_prompt) {
  auto made = content(3); // the beam search of the first prompt has found one of its two
  made.shape.token_ids = true;
  made.prompts = {{token_id{1}}, {token_id{2}, token_id{3}}};
  made.choices[1].prompt = made.choices[2].prompt = 1;
  made.choices[1].tokens = {token_id{7}};
  made.choices[2].tokens = {token_id{8}};
  const auto text = text_of(std::move(made));
  EXPECT_NE(text.find(R"("token_ids":[],"prompt_token_ids":[1]})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("token_ids":[7],"prompt_token_ids":[2,3]})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("token_ids":[8],"prompt_token_ids":[2,3]})"), std::string::npos) << text;
}

/// Every field of a reply that can be long.
reply_content long_content() {
  auto made = content(3);
  made.shape = {true, true, true, false, false};
  made.prompts.emplace_back(std::vector<token_id>(500, token_id{9}));
  for (auto& choice : made.choices)
    for (int i = 0; i < 300; ++i) {
      choice.tokens.emplace_back(i);
      choice.scores.append(
          {token_id{'a' + i % 26}, -0.125F * static_cast<float>(i), {{token_id{1}, -1e-7F}}});
      choice.rounds.append({round_id{static_cast<std::uint64_t>(i)},
                            static_cast<std::uint32_t>(i * 3),
                            i % 2 == 0 ? "even" : "odd",
                            {token_id{i}, token_id{200'000}},
                            {-1, 0},
                            {0},
                            i % 3 == 0});
    }
  return made;
}

TEST(whole_reply, keeps_less_and_less_of_its_choices) {
  whole_reply reply(long_content(), spell);
  auto before = reply.num_bytes();
  EXPECT_GT(before, 3U * 300 * (4 + 14));
  std::size_t steps = 0;
  while (!reply.at_end()) {
    reply.next(1000);
    EXPECT_LE(reply.num_bytes(), before);
    if (reply.num_bytes() < before) ++steps;
    before = reply.num_bytes();
  }
  EXPECT_EQ(steps, 3U) << "each choice goes when it is written";
  EXPECT_EQ(before, 0U);
}

TEST(whole_reply, counts_what_it_keeps_of_prompts_once_and_till_the_end) {
  for (const bool chat : {false, true}) {
    auto made = content(2);
    made.chat = chat;
    made.shape.token_ids = true;
    const auto echoed = std::make_shared<const std::string>(10'000, 'p');
    for (auto& choice : made.choices) choice.prompt_text = echoed;
    made.prompts.emplace_back(std::vector<token_id>(5'000, token_id{9}));
    whole_reply reply(std::move(made), spell);
    EXPECT_GE(reply.num_bytes(), 30'000U);
    EXPECT_LT(reply.num_bytes(), 40'000U) << "the choices share the text";
    reply.next(1000);
    EXPECT_GE(reply.num_bytes(), 30'000U);
    while (!reply.at_end()) reply.next(1000);
    EXPECT_EQ(reply.num_bytes(), 0U);
  }
}

TEST(whole_reply, pieces_are_the_text_and_none_is_much_larger_than_asked_for) {
  for (const bool chat : {false, true}) {
    auto made = long_content();
    made.chat = chat;
    const auto text = text_of(std::move(made));
    for (const std::size_t size : {1U, 100U, 4096U}) {
      auto again = long_content();
      again.chat = chat;
      whole_reply reply(std::move(again), spell);
      std::string joined;
      while (!reply.at_end()) {
        const auto piece = reply.next(size);
        EXPECT_LE(piece.size(), size + 512);
        joined += piece;
      }
      EXPECT_EQ(joined, text);
    }
  }
}

TEST(whole_reply, tells_rounds_with_their_times_and_each_token_by_itself) {
  for (const bool chat : {false, true}) {
    auto made = content();
    made.chat = chat;
    made.shape.trace = true;
    round_trace plain{round_id{7}, 12, "", {}, {}, {}, false};
    plain.verified = {std::chrono::microseconds(100), std::chrono::microseconds(150)};
    plain.tokens = {token_id{'x'}};
    auto drafted = round_trace{round_id{8}, 13, "ngram", {token_id{0}, token_id{'y'}}, {-1, 0}, {0}, false};
    drafted.verified = {std::chrono::microseconds(160), std::chrono::microseconds(250)};
    drafted.drafted = work_span{std::chrono::microseconds(120), std::chrono::microseconds(155)};
    drafted.tokens = {token_id{0}, token_id{'z'}};
    made.choices[0].rounds.append(plain);
    made.choices[0].rounds.append(drafted);
    const auto text = text_of(std::move(made));
    EXPECT_NE(
        text.find(
            R"("paceline":{"rounds":[{"round":7,"base_length":12,"drafter":"","draft_tokens":[],"draft_texts":[],"parents":[],)"
            R"("accepted":[],"num_accepted":0,"bonus":false,"tokens":[120],"token_texts":["x"],"start_us":100,"end_us":150},)"
            R"({"round":8,"base_length":13,"drafter":"ngram","draft_tokens":[0,121],"draft_texts":["bytes:\\xe2\\x82","y"],)"
            R"("parents":[-1,0],"accepted":[0],"num_accepted":1,"bonus":false,"tokens":[0,122],)"
            R"("token_texts":["bytes:\\xe2\\x82","z"],"start_us":160,"end_us":250,"draft_start_us":120,"draft_end_us":155}]})"),
        std::string::npos)
        << text;
  }
}

TEST(round_log, keeps_no_more_than_its_bound) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  round_trace round{round_id{std::numeric_limits<std::uint64_t>::max()}, most, "drafter", {}, {}, {}, false};
  round.draft_tokens.assign(max_draft_length, token_id{std::numeric_limits<std::int32_t>::max()});
  for (std::uint32_t i = 0; i < max_draft_length; ++i) round.parents.push_back(static_cast<int>(i) - 1);
  round.choice.emplace().options.assign(16, {"drafter", max_draft_length, 1.0F, 1.0F});
  round.verified = {std::chrono::hours(24 * 365 * 10), std::chrono::hours(24 * 365 * 20)};
  round.drafted = round.verified;
  round.tokens = {token_id{std::numeric_limits<std::int32_t>::max()}};
  round_log log;
  for (int i = 0; i < 1000; ++i) log.append(round);
  EXPECT_LE(log.num_bytes(), 1000 * round_log::most_bytes);
}

TEST(round_log, gives_back_what_was_appended) {
  round_log log;
  const round_trace first{round_id{7}, 12, "ngram", {token_id{5}, token_id{151'000}}, {-1, 0}, {0, 1}, true};
  round_trace second{round_id{8}, 15, "other", {}, {}, {}, false};
  second.verified = {std::chrono::microseconds(1), std::chrono::microseconds(90'000'000'000)};
  second.drafted = work_span{std::chrono::microseconds(0), std::chrono::microseconds(1)};
  second.tokens = {token_id{151'000}, token_id{0}};
  second.choice = draft_choice{{{"ngram", 3, 2.5F, 1.25F}, {"new", 0, 1.0F, 1.0F}}, true};
  log.append(first);
  log.append(second);
  round_log::reader reader(log);
  for (const round_trace* expected : {&first, static_cast<const round_trace*>(&second)}) {
    const auto round = reader.next();
    EXPECT_EQ(round.round, expected->round);
    EXPECT_EQ(round.base_length, expected->base_length);
    EXPECT_EQ(round.drafter, expected->drafter);
    EXPECT_EQ(round.draft_tokens, expected->draft_tokens);
    EXPECT_EQ(round.parents, expected->parents);
    EXPECT_EQ(round.accepted, expected->accepted);
    EXPECT_EQ(round.bonus, expected->bonus);
    EXPECT_EQ(round.tokens, expected->tokens);
    EXPECT_EQ(round.verified, expected->verified);
    EXPECT_EQ(round.drafted, expected->drafted);
    ASSERT_EQ(round.choice.has_value(), expected->choice.has_value());
    if (!round.choice) continue;
    EXPECT_EQ(round.choice->plain_to_measure, expected->choice->plain_to_measure);
    ASSERT_EQ(round.choice->options.size(), expected->choice->options.size());
    for (std::size_t i = 0; i < round.choice->options.size(); ++i) {
      const auto &got = round.choice->options[i], &wanted = expected->choice->options[i];
      EXPECT_EQ(got.drafter, wanted.drafter);
      EXPECT_EQ(got.num_tokens, wanted.num_tokens);
      EXPECT_EQ(got.expected_tokens, wanted.expected_tokens);
      EXPECT_EQ(got.cost, wanted.cost);
    }
  }
  EXPECT_TRUE(reader.at_end());
}

TEST(score_log, takes_seven_bytes_an_entry_of_a_large_vocabulary) {
  score_log log;
  token_logprob score{token_id{151'000}, -1.0F, {}};
  for (int i = 0; i < 20; ++i) score.top.emplace_back(token_id{150'000 + i}, -2.0F);
  for (int i = 0; i < 1000; ++i) log.append(score);
  EXPECT_LE(log.num_bytes(), 1000U * 21U * 7U + 1000U);
}

} // namespace
} // namespace paceline::wire
