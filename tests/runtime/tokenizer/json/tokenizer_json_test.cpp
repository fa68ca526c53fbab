#include "runtime/tokenizer/json/tokenizer_json.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

using boost::json::object;
using boost::json::value;

// A small byte-level BPE in the form of Llama 3's files.
constexpr std::string_view byte_level_file = R"({
  "added_tokens": [
    {"id": 12, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 13, "content": "<tag>", "single_word": false, "lstrip": false, "rstrip": true, "normalized": true, "special": false}
  ],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}| ?\\p{L}+|\\s+|."}, "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [12], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "ignore_merges": true, "byte_fallback": false, "unk_token": null,
    "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "1": 5, "2": 6, "Ã": 7, "©": 8, "Ã©": 9, "abab": 10, "<": 11},
    "merges": ["a b", ["Ġ", "ab"], "Ã ©"]}
})";

// SentencePiece's BPE in the form of Llama 2's files.
constexpr std::string_view spm_file = R"({
  "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "normalized": false},
                   {"id": 1, "content": "</s>", "special": true, "normalized": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "pre_tokenizer": null, "post_processor": null,
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"<unk>": 0, "</s>": 1, "<0xC3>": 2, "<0xA9>": 3, "▁": 4, "a": 5, "▁a": 6}, "merges": ["▁ a"]}
})";

tokenizer read(std::string_view json, const tokenizer_json_settings& settings = {}) {
  auto made = read_tokenizer_json(json, settings);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

std::vector<int> ids(const tokenizer& t, std::string_view text, encode_options options = {}) {
  const auto tokens = t.encode(text, options);
  EXPECT_TRUE(tokens) << tokens.error().message();
  std::vector<int> out;
  for (const token_id token : *tokens) out.push_back(token.value);
  return out;
}

using ints = std::vector<int>;

TEST(tokenizer_json, a_byte_level_file_encodes_and_decodes) {
  const tokenizer t = read(byte_level_file);
  EXPECT_EQ(ids(t, "ab ab12"), (ints{12, 3, 4, 5, 6}));
  EXPECT_EQ(ids(t, "abab", {.add_special = false}), ints{10}) << "a token whatever the merges";
  EXPECT_EQ(ids(t, "e\xcc\x81", {.add_special = false}), (ints{9})) << "composed first";
  EXPECT_EQ(ids(t, "<s>", {.add_special = false}), ints{12});
  EXPECT_EQ(ids(t, "<s>a", {.add_special = false, .parse_special = false}), (ints{11, 0}))
      << "s and > are unknown";
  EXPECT_EQ(ids(t, "<tag>  a", {.add_special = false}), (ints{13, 0})) << "its spaces go along";
  EXPECT_EQ(t.decode(*t.encode("ab ab\xc3\xa9")), "ab ab\xc3\xa9");
  EXPECT_EQ(t.type(token_id{12}), token_type::control);
  EXPECT_EQ(t.type(token_id{13}), token_type::user_defined);
}

TEST(tokenizer_json, a_sentencepiece_file_encodes_and_decodes) {
  const tokenizer t = read(spm_file, {.eos = "</s>"});
  EXPECT_EQ(ids(t, "a aé"), (ints{6, 6, 2, 3}));
  EXPECT_EQ(ids(t, "a</s>a"), (ints{6, 1, 6}));
  EXPECT_EQ(ids(t, "èè"), (ints{4, 0})) << "unknown ones fuse";
  EXPECT_EQ(t.decode(*t.encode("a aé")), "a aé");
  EXPECT_TRUE(t.strips_leading_space());
  EXPECT_EQ(t.eos_like().size(), 1U);
}

TEST(tokenizer_json, settings_beside_the_file_decide_on_bos_and_eos) {
  const tokenizer t = read(byte_level_file, {.bos = "<s>", .eos = "abab", .add_bos = false, .add_eos = true});
  EXPECT_EQ(ids(t, "a"), (ints{0, 10}));
  EXPECT_FALSE(t.adds_bos());
  EXPECT_TRUE(read(byte_level_file, {.bos = "<s>"}).adds_bos());
  const auto missing = read_tokenizer_json(byte_level_file, {.bos = "<none>"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("<none>"), std::string::npos);
  EXPECT_FALSE(read_tokenizer_json(byte_level_file, {.eos_ids = {token_id{14}}}));
}

TEST(tokenizer_json, an_end_of_a_message_ends_no_generation_in_harmony) {
  const auto ends = [](const std::vector<std::string>& specials) {
    std::string added;
    for (std::size_t i = 0; i < specials.size(); ++i)
      added += (i == 0 ? "" : ", ") + (R"({"id": )" + std::to_string(12 + i)) + R"(, "content": ")" +
               specials[i] + R"(", "normalized": false, "special": true})";
    std::string file(byte_level_file);
    const auto begin = file.find('{', file.find("added_tokens"));
    file.replace(begin, file.find("\n  ],", begin) - begin, added);
    file.replace(
        file.find("\"single\""), file.find("\n  \"decoder\"") - file.find("\"single\""),
        R"("single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}},)");
    std::vector<int> out;
    const auto made = read(file);
    for (const auto id : made.eos_like()) out.push_back(id.value);
    return out;
  };
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "<|call|>"}), (ints{13, 14}));
  EXPECT_EQ(ends({"<|end|>", "<|return|>"}), (ints{12, 13}));
}

TEST(tokenizer_json, a_unigram_file_takes_the_likeliest_split) {
  const tokenizer t = read(R"({"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
      "vocab": [["<unk>", 0], ["▁", -3], ["▁a", -1], ["a", -2], ["aa", -2.5]]},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})");
  EXPECT_EQ(ids(t, "aaa a"), (ints{2, 4, 2}));
  EXPECT_EQ(t.decode(*t.encode("aaa a")), "aaa a");
}

/// Changes the file at `path` (dots between keys; numbers are indices) and reads it.
std::string failure_after(const std::function<void(object&)>& change, errc expected = errc::invalid_file) {
  value document = boost::json::parse(byte_level_file);
  change(document.as_object());
  const auto made = read_tokenizer_json(boost::json::serialize(document), {}, "t.json");
  EXPECT_FALSE(made);
  if (made) return "";
  EXPECT_EQ(made.error().code(), expected) << made.error().message();
  return made.error().message();
}

TEST(tokenizer_json, errors_name_the_place_and_the_rule) {
  EXPECT_EQ(
      failure_after([](object& o) { o["model"].as_object()["vocab"].as_object()["a"] = -1; }).substr(0, 41),
      "t.json: model.vocab.a must be a whole num");
  EXPECT_NE(failure_after([](object& o) {
              o["model"].as_object()["vocab"].as_object()["a"] = 1;
            }).find("has the id of"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["model"].as_object()["vocab"].as_object()["a"] = 1 << 30;
            }).find("below"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["model"].as_object()["merges"].as_array()[0] = "a";
            }).find("merges[0]"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["model"].as_object()["merges"].as_array()[0] = "b a";
            }).find("not in the vocabulary"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["added_tokens"].as_array()[0].as_object()["id"] = "x";
            }).find("added_tokens[0].id"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["added_tokens"].as_array()[0].as_object()["id"] = 3;
            }).find("has the id of 'ab'"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) {
              o["post_processor"].as_object()["special_tokens"] = 1;
            }).find("ids must be an array"),
            std::string::npos);
  EXPECT_NE(failure_after([](object& o) { o.erase("model"); }, errc::unsupported).find("model"),
            std::string::npos);
}

TEST(tokenizer_json, texts_of_the_file_are_escaped_in_errors) {
  const std::string hostile = "\x1b[31m\n" + std::string(5000, 'x');
  const auto expect_escaped = [](const std::string& message) {
    EXPECT_NE(message.find("\\x1b[31m\\x0ax"), std::string::npos) << message.substr(0, 300);
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
    EXPECT_LT(message.size(), 300U);
  };
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"})
    expect_escaped(failure_after([&](object& o) { o[key] = {{"type", hostile}}; }, errc::unsupported));
  expect_escaped(
      failure_after([&](object& o) { o["model"].as_object()["vocab"].as_object()[hostile] = -1; }));
  expect_escaped(failure_after([&](object& o) {
    auto& vocab = o["model"].as_object()["vocab"].as_object();
    vocab = {{hostile, 0}, {"b", 0}};
  }));
  expect_escaped(failure_after([&](object& o) {
    auto& vocab = o["model"].as_object()["vocab"].as_object();
    vocab[hostile] = 20;
    o["added_tokens"].as_array()[0].as_object()["id"] = 20;
  }));
  const auto missing = read_tokenizer_json(byte_level_file, {.bos = hostile});
  ASSERT_FALSE(missing);
  expect_escaped(missing.error().message());
}

TEST(tokenizer_json, components_that_are_not_offered_are_refused_by_name) {
  const auto unsupported = [](const char* key, const char* type) {
    const auto message = failure_after([&](object& o) { o[key] = {{"type", type}}; }, errc::unsupported);
    EXPECT_NE(message.find(type), std::string::npos) << message;
  };
  unsupported("normalizer", "Precompiled");
  unsupported("normalizer", "BertNormalizer");
  unsupported("pre_tokenizer", "UnicodeScripts");
  unsupported("post_processor", "SomethingNew");
  unsupported("decoder", "WordPiece");
  unsupported("model", "WordPiece");
  failure_after([](object& o) { o["model"].as_object()["end_of_word_suffix"] = "</w>"; }, errc::unsupported);
  failure_after([](object& o) { o["model"].as_object()["dropout"] = 0.1; }, errc::unsupported);
  failure_after(
      [](object& o) {
        o["pre_tokenizer"].as_object()["pretokenizers"].as_array()[0].as_object()["pattern"] = {
            {"Regex", "\\p{Nothing}"}};
      },
      errc::unsupported);
}

TEST(tokenizer_json, an_added_token_is_none_of_the_models) {
  // "b" has no merge: it is found only as an added token, not by the model.
  const tokenizer t =
      read(R"({"model": {"type": "BPE", "vocab": {"a": 0, "?": 1}, "merges": [], "unk_token": "?"},
    "added_tokens": [{"id": 2, "content": "b", "special": true, "normalized": false}]})");
  EXPECT_EQ(ids(t, "ab"), (ints{0, 2}));
  const auto plain = t.encode("ab", {.parse_special = false});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->back(), token_id{1});
}

TEST(tokenizer_json, an_unknown_token_that_is_none_means_none) {
  const tokenizer t =
      read(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "zzz"}})");
  EXPECT_EQ(ids(t, "ab"), (ints{0}));
}

TEST(tokenizer_json, without_a_decoder_tokens_are_words) {
  const tokenizer t = read(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  EXPECT_EQ(t.decode(*t.encode("aba")), "a b a");
}

TEST(tokenizer_json, a_cut_off_or_damaged_file_is_an_error_or_a_tokenizer) {
  const std::string whole(byte_level_file);
  for (std::size_t n = 0; n < whole.size(); n += 3) EXPECT_FALSE(read_tokenizer_json(whole.substr(0, n), {}));
  constexpr unsigned seed = 31;
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 3; ++j) damaged[random() % damaged.size()] = "\"{}[],:0a\\ "[random() % 11];
    if (const auto made = read_tokenizer_json(damaged, {})) {
      const auto tokens = made->encode("ab 12<s>\xff");
      if (tokens) made->decode(*tokens);
    }
  }
}

} // namespace
} // namespace paceline::tokenizer
