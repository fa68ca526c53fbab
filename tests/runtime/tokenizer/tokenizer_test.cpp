#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/base/utf8.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <pthread.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

namespace paceline::tokenizer {
namespace {

using test::make_vocabulary;
using test::tiny_bpe;
using test::tiny_spm;

tokenizer make(vocabulary_data data) {
  auto made = tokenizer::from_vocabulary(std::move(data));
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

std::vector<std::string> pieces(const tokenizer& t, std::string_view text, encode_options options = {}) {
  auto tokens = t.encode(text, options);
  EXPECT_TRUE(tokens) << tokens.error().message();
  std::vector<std::string> out;
  for (const token_id token : *tokens) out.emplace_back(t.spelling(token));
  return out;
}

using strings = std::vector<std::string>;

tiny_bpe words() {
  return {.merges = {{"t", "h"}, {"th", "e"}, {" ", "the"}, {"\xc3", "\xa9"}}, .user_defined = {"<tab>"}};
}

tiny_spm sentence() {
  return {.pieces =
              {{" ", -9}, {"t", -9}, {"h", -9}, {"e", -9}, {"th", -1}, {"the", -2}, {" the", -3}, {"\n", -9}},
          .control = {"<start>"}};
}

TEST(tokenizer, byte_level_vocabularies_spell_any_text) {
  const tokenizer t = make(make_vocabulary(words()));
  EXPECT_EQ(pieces(t, "the the thé"), (strings{"the", "Ġthe", "Ġ", "th", "Ã©"}));
  EXPECT_EQ(t.decode(*t.encode("the\tthé \xf0\x9f\x98\x80")), "the\tthé \xf0\x9f\x98\x80");
}

TEST(tokenizer, markers_of_phi3_take_the_spaces_after_them_along) {
  auto data = make_vocabulary(sentence());
  EXPECT_EQ(pieces(make(data), "<start> \n the", {.add_special = false}).size(), 5U);
  for (const char* name : {"Phi-3-mini", "phi3", "Phi 3.5 Mini Instruct"}) {
    data.model_name = name;
    EXPECT_EQ(pieces(make(data), "<start> \n the", {.add_special = false}), (strings{"<start>", "▁the"}));
  }
}

TEST(tokenizer, plain_mode_reads_control_spellings_as_text_but_finds_user_defined_ones) {
  const tokenizer t = make(make_vocabulary(words()));
  EXPECT_EQ(pieces(t, "<|end|><tab>"), (strings{"<|end|>", "<tab>"}));
  EXPECT_EQ(pieces(t, "<|end|><tab>", {.parse_special = false}),
            (strings{"<", "|", "e", "n", "d", "|", ">", "<tab>"}));
}

TEST(tokenizer, special_tokens_have_text_only_where_they_are_not_skipped) {
  const tokenizer t = make(make_vocabulary(words()));
  const auto tokens = *t.encode("the<|end|><tab>");
  EXPECT_EQ(t.decode(tokens), "the<tab>");
  EXPECT_EQ(t.decode(tokens, {.skip_special = false}), "the<|end|><tab>");
  EXPECT_TRUE(t.is_special(*t.eos()));
  EXPECT_FALSE(t.is_special(*t.find("<tab>")));
}

TEST(tokenizer, bos_and_eos_are_added_as_file_or_family_say) {
  auto data = make_vocabulary(words());
  EXPECT_FALSE(make(data).adds_bos()) << "gpt-2 adds none";
  data.pre = "llama-bpe";
  EXPECT_TRUE(make(data).adds_bos());
  EXPECT_EQ(pieces(make(data), "the"), (strings{"<|begin|>", "the"}));
  EXPECT_EQ(pieces(make(data), "the", {.add_special = false}), strings{"the"});
  data.add_bos = false;
  data.add_eos = true;
  EXPECT_EQ(pieces(make(data), "the"), (strings{"the", "<|end|>"}));
  EXPECT_EQ(pieces(make(make_vocabulary(sentence())), ""), strings{"<s>"});
}

TEST(tokenizer, qwen_composes_letters_and_marks_of_text_but_not_of_special_tokens) {
  const std::string decomposed = "the\xcc\x81";
  auto data = make_vocabulary(words());
  EXPECT_EQ(make(data).decode(*make(data).encode(decomposed)), decomposed);
  data = make_vocabulary(tiny_bpe{.merges = words().merges, .control = {"<e\xcc\x81>"}});
  for (const char* pre : {"qwen2", "qwen35"}) {
    data.pre = pre;
    EXPECT_EQ(pieces(make(data), decomposed), (strings{"th", "Ã©"})) << pre;
    EXPECT_EQ(pieces(make(data), "th<e\xcc\x81>"), (strings{"th", "<e\xcc\x81>"})) << pre;
  }
}

TEST(tokenizer, spm_text_begins_with_a_space_that_decoding_takes_away) {
  const tokenizer t = make(make_vocabulary(sentence()));
  EXPECT_EQ(pieces(t, "the the"), (strings{"<s>", "▁the", "▁the"}));
  EXPECT_EQ(pieces(t, "the<start>the"), (strings{"<s>", "▁the", "<start>", "▁the"}));
  EXPECT_EQ(t.decode(*t.encode("the the")), "the the");
  EXPECT_EQ(t.decode(*t.encode(" the")), " the");
  EXPECT_EQ(t.decode(*t.encode("the"), {.continues_text = true}), " the");
  EXPECT_EQ(t.decode(*t.encode("é")), "é") << "by its bytes";
}

TEST(tokenizer, spm_without_space_prefix_leaves_text_as_it_is) {
  auto data = make_vocabulary(sentence());
  data.add_space_prefix = false;
  const tokenizer t = make(std::move(data));
  EXPECT_EQ(pieces(t, "the the\n"), (strings{"<s>", "the", "▁the", "\n"}));
  EXPECT_EQ(t.decode(*t.encode(" the")), " the");
}

TEST(tokenizer, spm_special_ids_default_to_the_first_three_entries) {
  auto data = make_vocabulary(sentence());
  data.bos = data.eos = data.unk = std::nullopt;
  const tokenizer t = make(std::move(data));
  EXPECT_EQ(t.bos(), token_id{1});
  EXPECT_EQ(t.eos(), token_id{2});
  EXPECT_TRUE(t.adds_bos());
}

TEST(tokenizer, spellings_with_one_meaning_are_control_tokens_whatever_the_file_says) {
  auto data = make_vocabulary(words());
  data.tokens.insert(data.tokens.end(), {"<|im_end|>", "<|channel|>", "</s>"});
  data.types.insert(data.types.end(),
                    {token_type::user_defined, token_type::control, token_type::user_defined});
  const tokenizer t = make(std::move(data));
  EXPECT_EQ(t.type(*t.find("<|im_end|>")), token_type::control);
  EXPECT_EQ(t.type(*t.find("<|channel|>")), token_type::user_defined);
  EXPECT_EQ(t.type(*t.find("</s>")), token_type::user_defined);
}

TEST(tokenizer, inconsistent_vocabularies_are_refused_by_rule) {
  const auto refuse = [](auto change) {
    auto data = make_vocabulary(words());
    change(data);
    const auto made = tokenizer::from_vocabulary(std::move(data));
    EXPECT_FALSE(made);
    return made ? errc::internal : made.error().code();
  };
  EXPECT_EQ(refuse([](auto& d) { d.tokens.clear(); }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.types.pop_back(); }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.scores.push_back(0); }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.bos = token_id{1 << 20}; }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.eos = token_id{-1}; }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.eos_like.push_back(token_id{1 << 20}); }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.bos.reset(), d.add_bos = true; }), errc::invalid_file);
  EXPECT_EQ(refuse([](auto& d) { d.pre = "unheard-of"; }), errc::unsupported);
}

TEST(tokenizer, ids_that_are_no_token_have_no_text) {
  const tokenizer t = make(make_vocabulary(words()));
  for (const int id : {-1, -2147483647, static_cast<int>(t.size()), 2147483647}) {
    EXPECT_EQ(t.piece(token_id{id}), "");
    EXPECT_EQ(t.spelling(token_id{id}), "");
    EXPECT_EQ(t.decode(std::vector{token_id{id}}), "");
    EXPECT_FALSE(t.contains(token_id{id}));
  }
}

TEST(tokenizer, any_bytes_are_read_as_their_replaced_text) {
  constexpr unsigned seed = 17;
  std::mt19937 random(seed);
  for (const tokenizer& t : {make(make_vocabulary(words())), make(make_vocabulary(sentence()))}) {
    for (int i = 0; i < 2000; ++i) {
      std::string bytes;
      for (auto n = random() % 24; n > 0; --n)
        bytes.push_back(random() % 3 != 0 ? static_cast<char>(random()) : "the <|s>"[random() % 8]);
      const auto tokens = t.encode(bytes, {.add_special = false, .parse_special = false});
      ASSERT_TRUE(tokens);
      ASSERT_EQ(t.decode(*tokens), replace_ill_formed_utf8(bytes)) << "seed " << seed << ", case " << i;
      ASSERT_EQ(t.decode(*t.encode(t.decode(*tokens), {.add_special = false, .parse_special = false})),
                t.decode(*tokens));
    }
  }
}

/// Runs `body` on a thread with a small stack.
template <class Body>
void with_small_stack(Body body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread{};
  const auto run = [](void* p) -> void* {
    (*static_cast<Body*>(p))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(tokenizer, a_mebibyte_of_one_thing_needs_little_stack) {
  const std::vector<tokenizer> all = {make(make_vocabulary(words())), make(make_vocabulary(sentence()))};
  with_small_stack([&] {
    for (const auto& t : all)
      for (const char* run : {"t", " ", "\n", "5", "!", "é", "漢", "\xff", "the", "<tab>", "<"}) {
        std::string text;
        while (text.size() < (1U << 20)) text += run;
        const auto tokens = t.encode(text, {.add_special = false});
        ASSERT_TRUE(tokens) << tokens.error().message();
        EXPECT_EQ(t.decode(*tokens), replace_ill_formed_utf8(text)) << run;
      }
  });
}

TEST(tokenizer, one_value_serves_several_threads) {
  const tokenizer t = make(make_vocabulary(words()));
  const auto expected = *t.encode("the quick thé 123");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 500; ++round)
        wrong[i] += *t.encode("the quick thé 123") == expected ? 0 : 1;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

/// Texts of about `size` bytes, each difficult in one way.
std::vector<std::string> long_texts(std::size_t size) {
  std::mt19937 random(7);
  std::vector<std::string> texts;
  const auto repeat = [&](std::string_view part) {
    std::string text;
    while (text.size() < size) text += part;
    texts.push_back(std::move(text));
  };
  for (const auto* part : {"the ", "the", " ", "\n", "t\xc3\xa9h ", "<tab>", "a<tab>the "}) repeat(part);
  std::string words;
  while (words.size() < size) words += std::string_view("the h\ne x\xc3\xa9")[random() % 12];
  texts.push_back(std::string(std::move(words)));
  return texts;
}

TEST(tokenizer, a_limit_gives_the_beginning_of_all_tokens) {
  for (const auto& t : {make(make_vocabulary(words())), make(make_vocabulary(sentence()))})
    for (const auto& text : long_texts(300'000)) {
      const auto all = t.encode(text);
      ASSERT_TRUE(all);
      for (const std::size_t limit : {std::size_t{100}, all->size() - 1, all->size()}) {
        const auto some = t.encode(text, {true, true, limit});
        ASSERT_TRUE(some);
        EXPECT_EQ(some->size() > limit, all->size() > limit) << text.substr(0, 8) << " " << limit;
        if (all->size() <= limit) {
          EXPECT_EQ(*some, *all);
        }
        EXPECT_LE(some->size(), std::max(all->size(), limit + 70'000));
        EXPECT_TRUE(std::equal(some->begin(), some->begin() + 50, all->begin())) << text.substr(0, 8);
      }
    }
}

} // namespace
} // namespace paceline::tokenizer
