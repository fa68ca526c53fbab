#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"

#include "runtime/base/quote.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace paceline::tokenizer {

namespace {

using patterns = std::span<const std::string_view>;

// The patterns as in the models' own tokenizer files. These parts occur in several of them.
#define WORDS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SYMBOLS_AND_NEWLINES R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
// Contractions in upper and lower case. The long s is also a small letter of S.
#define CONTRACTIONS R"('(?:[sSſ]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"
// Words in which a capital after a small letter begins a new word.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED_WORDS(suffix)                                                                                  \
  R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" suffix
// The same without Han characters, by classes of everything else.
#define UPPER_NOT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
#define LOWER_NOT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}])"
#define ASCII_PUNCTUATION_WORDS R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
#define MARKED_WORDS R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"

constexpr std::string_view gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3 = CONTRACTIONS "|" WORDS R"(|\p{N}{1,3}|)" SYMBOLS_AND_NEWLINES "|" SPACES;
constexpr std::string_view qwen2 = CONTRACTIONS "|" WORDS R"(|\p{N}|)" SYMBOLS_AND_NEWLINES "|" SPACES;
constexpr std::string_view kana_and_han = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view o200k =
    CASED_WORDS("(?:" CONTRACTIONS ")?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SPACES;
constexpr std::string_view bloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

constexpr std::string_view default_patterns[] = {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)",
                                                 "[0-9][0-9][0-9]"};
constexpr std::string_view gpt2_patterns[] = {gpt2};
constexpr std::string_view digit_gpt2_patterns[] = {R"(\p{N})", gpt2};
constexpr std::string_view llama3_patterns[] = {llama3};
constexpr std::string_view qwen2_patterns[] = {qwen2};
constexpr std::string_view qwen35_patterns[] = {
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" SPACES};
constexpr std::string_view jais2_patterns[] = {
    CONTRACTIONS
    "|" WORDS R"(|\p{N}{1,3}|)" SYMBOLS_AND_NEWLINES
    R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};
constexpr std::string_view deepseek_llm_patterns[] = {
    R"([\r\n])",
    R"(\s?[)"
    R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77})"
    R"(\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"
    R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc})"
    R"(\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec})"
    R"(\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d})"
    R"(\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee})"
    R"(\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
    R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a})"
    R"(\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2})"
    R"(\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943})"
    R"(]+)",
    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    R"(\s+$)",
    "[一-龥ࠀ-一가-퟿]+",
    R"(\p{N}+)"};
constexpr std::string_view deepseek_coder_patterns[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                                        "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"};
constexpr std::string_view deepseek_v3_patterns[] = {R"(\p{N}{1,3})", kana_and_han,
                                                     ASCII_PUNCTUATION_WORDS
                                                     "|" MARKED_WORDS R"(| ?[\p{P}\p{S}]+[\r\n]*|)" SPACES};
constexpr std::string_view spark_patterns[] = {
    R"(\p{N}{1,3})", kana_and_han,
    ASCII_PUNCTUATION_WORDS "|" MARKED_WORDS R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)", R"(\p{N})"};
constexpr std::string_view youtu_patterns[] = {
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
    CASED_WORDS("(?:" CONTRACTIONS ")?") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SPACES};
constexpr std::string_view falcon_patterns[] = {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"};
constexpr std::string_view bloom_patterns[] = {bloom};
constexpr std::string_view viking_patterns[] = {bloom, R"(\p{N})"};
constexpr std::string_view tekken_patterns[] = {
    CASED_WORDS("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SPACES};
constexpr std::string_view chameleon_patterns[] = {
    "<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    R"(([\t\n]|    |  ))",     R"(\p{N})",
    R"([\p{P}!-/:-@\[-`{-~])", gpt2};
constexpr std::string_view o200k_patterns[] = {o200k};
constexpr std::string_view tiny_aya_patterns[] = {R"(\d{1,3}(?=(?:\d{3})*\b))", o200k};
constexpr std::string_view kimi_patterns[] = {R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" UPPER_NOT_HAN "*" LOWER_NOT_HAN
                                              "+(?:" CONTRACTIONS R"()?|[^\r\n\p{L}\p{N}]?)" UPPER_NOT_HAN
                                              "+" LOWER_NOT_HAN "*(?:" CONTRACTIONS
                                              R"()?|\p{N}{1,3}|)" SYMBOLS_AND_NEWLINES "|" SPACES};
constexpr std::string_view bailing_patterns[] = {CONTRACTIONS "|" WORDS R"(|\p{N}|)" SYMBOLS_AND_NEWLINES
                                                              R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view seed_coder_patterns[] = {CONTRACTIONS "|" WORDS
                                                                 R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" SPACES};
constexpr std::string_view ufakzeka_patterns[] = {WORDS R"(|\p{N}|)" SYMBOLS_AND_NEWLINES "|" SPACES};
constexpr std::string_view afmoe_patterns[] = {
    "[一-鿿㐀-䶿\\x{f900}-\\x{faff}぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-"
    "໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
    ASCII_PUNCTUATION_WORDS "|" MARKED_WORDS R"(| ?[\p{P}\p{S}]+[\r\n]*|)" SPACES};
constexpr std::string_view newline_runs = R"([^\n]+|[\n]+)";
constexpr std::string_view newline_patterns[] = {newline_runs};
constexpr std::string_view laguna_patterns[] = {newline_runs, qwen2};
// Possessive: the inner loops never give characters back, so a long word needs no memory for backtracking.
constexpr std::string_view exaone_moe_patterns[] = {
    CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view minicpm5_patterns[] = {R"(\p{N}{1,3})", CONTRACTIONS
                                                  "|" WORDS R"(|\p{N}+|)" SYMBOLS_AND_NEWLINES "|" SPACES};

#undef WORDS
#undef SYMBOLS_AND_NEWLINES
#undef SPACES
#undef CONTRACTIONS
#undef UPPER
#undef LOWER
#undef CASED_WORDS
#undef UPPER_NOT_HAN
#undef LOWER_NOT_HAN
#undef ASCII_PUNCTUATION_WORDS
#undef MARKED_WORDS

constexpr bpe_family plain(patterns p) { return {.patterns = p}; }
constexpr bpe_family whole_words(patterns p, bool add_bos) {
  return {.patterns = p, .ignore_merges = true, .add_bos = add_bos};
}
constexpr bpe_family composing(patterns p) { return {.patterns = p, .composes = true}; }
constexpr bpe_family with_bos(patterns p) { return {.patterns = p, .add_bos = true}; }
constexpr bpe_family digit_grouping(patterns p) { return {.patterns = p, .group_digits = true}; }
constexpr bpe_family spm_spelt(bool add_bos) {
  return {.patterns = newline_patterns, .add_bos = add_bos, .spm_spelling = true};
}

struct named_family {
  std::string_view name;
  bpe_family family;
};

constexpr named_family families[] = {
    {"default", plain(default_patterns)},
    // GPT-2's pattern, unchanged
    {"gpt-2", plain(gpt2_patterns)},
    {"phi-2", plain(gpt2_patterns)},
    {"mpt", plain(gpt2_patterns)},
    {"olmo", plain(gpt2_patterns)},
    {"jais", plain(gpt2_patterns)},
    {"trillion", plain(gpt2_patterns)},
    {"granite-docling", plain(gpt2_patterns)},
    {"exaone4", plain(gpt2_patterns)},
    {"gigachat", plain(gpt2_patterns)},
    {"a.x-4.0", plain(gpt2_patterns)},
    {"mellum", plain(gpt2_patterns)},
    {"modern-bert", plain(gpt2_patterns)},
    {"jina-es", plain(gpt2_patterns)},
    {"jina-de", plain(gpt2_patterns)},
    {"jina-v1-en", plain(gpt2_patterns)},
    {"jina-v2-es", plain(gpt2_patterns)},
    {"jina-v2-de", plain(gpt2_patterns)},
    {"jina-v2-code", plain(gpt2_patterns)},
    {"roberta-bpe", plain(gpt2_patterns)},
    // single digits, then GPT-2's
    {"starcoder", plain(digit_gpt2_patterns)},
    {"refact", plain(digit_gpt2_patterns)},
    {"command-r", plain(digit_gpt2_patterns)},
    {"smollm", plain(digit_gpt2_patterns)},
    {"codeshell", plain(digit_gpt2_patterns)},
    {"exaone", plain(digit_gpt2_patterns)},
    {"minerva-7b", plain(digit_gpt2_patterns)},
    {"mellum2", plain(digit_gpt2_patterns)},
    // Llama 3's pattern: up to three digits
    {"llama3", whole_words(llama3_patterns, true)},
    {"llama-v3", whole_words(llama3_patterns, true)},
    {"llama-bpe", whole_words(llama3_patterns, true)},
    {"falcon3", whole_words(llama3_patterns, true)},
    {"falcon-h1", whole_words(llama3_patterns, true)},
    {"pixtral", whole_words(llama3_patterns, true)},
    {"midm-2.0", whole_words(llama3_patterns, true)},
    {"lfm2", whole_words(llama3_patterns, true)},
    {"jina-v5-nano", whole_words(llama3_patterns, true)},
    {"glm4", whole_words(llama3_patterns, false)},
    {"glm5", whole_words(llama3_patterns, false)},
    {"chatglm-bpe", plain(llama3_patterns)},
    {"dbrx", plain(llama3_patterns)},
    {"smaug-bpe", whole_words(llama3_patterns, false)}, // Llama 3's vocabulary without BOS: SmolLM3
    // Qwen 2's: single digits
    {"qwen2", composing(qwen2_patterns)},
    {"deepseek-r1-qwen", plain(qwen2_patterns)},
    {"kormo", plain(qwen2_patterns)},
    {"f2llmv2", plain(qwen2_patterns)},
    {"megrez", plain(qwen2_patterns)},
    {"stablelm2", plain(qwen2_patterns)},
    {"hunyuan", plain(qwen2_patterns)},
    {"solar-open", plain(qwen2_patterns)},
    {"grok-2", plain(qwen2_patterns)},
    {"qwen35", composing(qwen35_patterns)},
    {"laguna", plain(laguna_patterns)},
    {"ufakzeka", plain(ufakzeka_patterns)},
    {"bailingmoe", plain(bailing_patterns)},
    {"bailingmoe2", plain(bailing_patterns)},
    {"llada-moe", plain(bailing_patterns)},
    {"seed-coder", plain(seed_coder_patterns)},
    {"exaone-moe", plain(exaone_moe_patterns)},
    {"minicpm5", whole_words(minicpm5_patterns, false)},
    {"jais-2", plain(jais2_patterns)},
    // words that end where capitals begin
    {"tekken", whole_words(tekken_patterns, true)},
    {"gpt-4o", plain(o200k_patterns)},
    {"llama4", plain(o200k_patterns)},
    {"kanana2", plain(o200k_patterns)},
    {"talkie", plain(o200k_patterns)},
    {"minimax-m2", plain(o200k_patterns)},
    {"granite-embed-multi-97m", whole_words(o200k_patterns, false)},
    {"tiny_aya", plain(tiny_aya_patterns)},
    {"cohere2moe", plain(tiny_aya_patterns)},
    {"kimi-k2", plain(kimi_patterns)},
    {"youtu", whole_words(youtu_patterns, false)},
    // several splits, each applied to the pieces of the previous one
    {"falcon", plain(falcon_patterns)},
    {"deepseek-llm", plain(deepseek_llm_patterns)},
    {"deepseek-coder", plain(deepseek_coder_patterns)},
    {"deepseek-v3", plain(deepseek_v3_patterns)},
    {"hunyuan-dense", plain(deepseek_v3_patterns)},
    {"joyai-llm", plain(deepseek_v3_patterns)},
    {"hy_v4", plain(deepseek_v3_patterns)},
    {"spark2_5", plain(spark_patterns)},
    {"chameleon", with_bos(chameleon_patterns)},
    {"afmoe", digit_grouping(afmoe_patterns)},
    {"superbpe", digit_grouping({})},
    // everything but spaces and sentence marks
    {"bloom", plain(bloom_patterns)},
    {"gpt3-finnish", plain(bloom_patterns)},
    {"poro-chat", plain(bloom_patterns)},
    {"viking", plain(viking_patterns)},
    // SentencePiece's spelling with BPE's merges
    {"gemma4", spm_spelt(true)},
    {"granite-embed-multi-311m", spm_spelt(true)},
    {"sarvam-moe", spm_spelt(false)},
};

constexpr auto names = [] {
  std::array<std::string_view, std::size(families)> result{};
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = families[i].name;
  return result;
}();

} // namespace

expected<bpe_family> find_bpe_family(std::string_view pre) {
  if (pre.empty()) pre = "default";
  const auto* found = std::find_if(std::begin(families), std::end(families),
                                   [&](const named_family& entry) { return entry.name == pre; });
  if (found == std::end(families))
    return error(errc::unsupported, "pre-tokenizer " + quote(pre) + " is not known");
  return found->family;
}

std::span<const std::string_view> bpe_family_names() noexcept { return names; }

} // namespace paceline::tokenizer
