#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/tokenizer/known_spellings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

using tokenizer::token_type;
using tokenizer::vocabulary_data;
using tokenizer::vocabulary_kind;

constexpr std::string_view model_key = "tokenizer.ggml.model";
constexpr std::string_view gemma4_model = "gemma4";
constexpr std::string_view tokens_key = "tokenizer.ggml.tokens";
constexpr std::string_view scores_key = "tokenizer.ggml.scores";
constexpr std::string_view types_key = "tokenizer.ggml.token_type";
constexpr std::string_view merges_key = "tokenizer.ggml.merges";
constexpr std::size_t max_tokens = 1U << 24;
constexpr std::uint64_t no_token = 0xffffffff; ///< what some writers store for "none"

std::string element(std::size_t index) { return "element " + std::to_string(index) + " "; }

bool is_byte_spelling(std::string_view token) noexcept {
  const auto hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
  };
  return token.size() == 6 && token.starts_with("<0x") && hex(token[3]) && hex(token[4]) && token[5] == '>';
}

expected<vocabulary_kind> read_kind(const gguf_metadata& metadata) {
  auto model = metadata.require_string(model_key);
  if (!model) return std::move(model).error();
  if (*model == "gpt2" || *model == gemma4_model) return vocabulary_kind::bpe;
  if (*model == "llama") return vocabulary_kind::spm;
  return metadata.key_error(model_key, quote(*model) + " is not supported, only 'gpt2', 'gemma4' and 'llama'",
                            errc::unsupported);
}

expected<void> read_tokens(const gguf_metadata& metadata, vocabulary_data& out) {
  auto tokens = metadata.find_strings(tokens_key);
  if (!tokens) return std::move(tokens).error();
  if (!*tokens || (*tokens)->empty()) return metadata.key_error(tokens_key, "is missing or empty");
  if ((*tokens)->size() > max_tokens) return metadata.key_error(tokens_key, "has more than 2^24 elements");
  out.tokens.assign((*tokens)->begin(), (*tokens)->end());
  return {};
}

expected<void> read_scores(const gguf_metadata& metadata, vocabulary_data& out) {
  auto scores = metadata.find_numbers(scores_key);
  if (!scores) return std::move(scores).error();
  if (!*scores) {
    if (out.kind == vocabulary_kind::spm) return metadata.key_error(scores_key, "is missing");
    return {};
  }
  if ((*scores)->type() != gguf_type::float32 || (*scores)->size() != out.tokens.size())
    return metadata.key_error(scores_key, "must be an array of one float32 for each token");
  out.scores.reserve(out.tokens.size());
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const double score = (*scores)->as_double(i);
    if (!std::isfinite(score)) return metadata.key_error(scores_key, element(i) + "must be finite");
    out.scores.push_back(static_cast<float>(score));
  }
  return {};
}

expected<void> read_types(const gguf_metadata& metadata, vocabulary_data& out) {
  auto types = metadata.find_numbers(types_key);
  if (!types) return std::move(types).error();
  if (!*types) return {};
  if ((*types)->size() != out.tokens.size() || !(*types)->is_integer())
    return metadata.key_error(types_key, "must be an array of one integer for each token");
  out.types.reserve(out.tokens.size());
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const auto value = (*types)->as_uint(i);
    if (!value || *value > static_cast<std::uint64_t>(token_type::byte))
      return metadata.key_error(types_key, element(i) + "must be 0 to 6");
    // 0 is "undefined"; some writers use it for ordinary tokens.
    const auto type = *value == 0 ? token_type::normal : static_cast<token_type>(*value);
    if (type == token_type::byte && !is_byte_spelling(out.tokens[i]))
      return metadata.key_error(types_key, element(i) + "is a byte, but its token is " +
                                               quote(out.tokens[i]) + ", not <0xHH>");
    out.types.push_back(type);
  }
  return {};
}

expected<void> read_merges(const gguf_metadata& metadata, vocabulary_data& out) {
  if (out.kind != vocabulary_kind::bpe) return {};
  auto merges = metadata.find_strings(merges_key);
  if (!merges) return std::move(merges).error();
  if (!*merges) return metadata.key_error(merges_key, "is missing");
  out.merges.reserve((*merges)->size());
  for (std::size_t i = 0; i < (*merges)->size(); ++i) {
    const auto merge = (**merges)[i];
    // Byte-level spelling has no spaces, so the only space separates the two parts.
    const auto space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return metadata.key_error(merges_key, element(i) + "must be two parts with a space between");
    out.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return {};
}

expected<void> read_special_ids(const gguf_metadata& metadata, vocabulary_data& out) {
  const std::array<std::pair<std::string_view, std::optional<token_id>*>, 6> ids = {{
      {"tokenizer.ggml.bos_token_id", &out.bos},
      {"tokenizer.ggml.eos_token_id", &out.eos},
      {"tokenizer.ggml.eot_token_id", &out.eot},
      {"tokenizer.ggml.eom_token_id", &out.eom},
      {"tokenizer.ggml.unknown_token_id", &out.unk},
      {"tokenizer.ggml.padding_token_id", &out.pad},
  }};
  for (const auto& [key, target] : ids) {
    auto id = metadata.find_uint(key);
    if (!id) return std::move(id).error();
    if (!*id || **id == no_token) continue;
    if (**id >= out.tokens.size())
      return metadata.key_error(key, "must be below the number of tokens " +
                                         std::to_string(out.tokens.size()) + ", is " + std::to_string(**id));
    *target = token_id{static_cast<token_id::rep>(**id)};
  }
  return {};
}

/// Ollama's converter lists all ids that end a generation.
expected<void> read_listed_ends(const gguf_metadata& metadata, vocabulary_data& out) {
  constexpr std::string_view key = "tokenizer.ggml.eos_token_ids";
  auto ids = metadata.find_numbers(key);
  if (!ids) return std::move(ids).error();
  if (!*ids) return {};
  for (std::size_t i = 0; i < (*ids)->size(); ++i) {
    const auto id = (*ids)->as_uint(i);
    if (!id || *id >= out.tokens.size())
      return metadata.key_error(key, "must hold ids below the number of tokens " +
                                         std::to_string(out.tokens.size()));
    out.eos_like.push_back(token_id{static_cast<token_id::rep>(*id)});
  }
  return {};
}

expected<void> read_flags(const gguf_metadata& metadata, vocabulary_data& out) {
  const std::array<std::pair<std::string_view, std::optional<bool>*>, 3> flags = {{
      {"tokenizer.ggml.add_bos_token", &out.add_bos},
      {"tokenizer.ggml.add_eos_token", &out.add_eos},
      {"tokenizer.ggml.add_space_prefix", &out.add_space_prefix},
  }};
  for (const auto& [key, target] : flags) {
    auto flag = metadata.find_bool(key);
    if (!flag) return std::move(flag).error();
    *target = *flag;
  }
  return {};
}

/// The pre-tokenizer of architectures whose models all have the same; empty for others.
std::string_view pre_of_architecture(std::string_view architecture) noexcept {
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"lfm2", "lfm2"},       {"lfm2moe", "lfm2"},     {"mistral3", "tekken"},  {"olmo2", "dbrx"},
      {"olmo3", "dbrx"},      {"qwen35", "qwen35"},    {"qwen35moe", "qwen35"}, {"qwen3moe", "qwen2"},
      {"qwen3next", "qwen2"}, {"smollm3", "smaug-bpe"}};
  const auto* const found =
      std::ranges::find(known, architecture, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(known) ? std::string_view() : found->second;
}

/// Reads the name of the pre-tokenizer. Some writers state none, or "default", whose patterns are those of no
/// model: where the architecture tells it, that counts.
expected<void> read_pre_tokenizer(const gguf_metadata& metadata, vocabulary_data& out) {
  auto pre = metadata.find_string("tokenizer.ggml.pre");
  if (!pre) return std::move(pre).error();
  out.pre = pre->value_or("");
  if (out.kind != vocabulary_kind::bpe || (!out.pre.empty() && out.pre != "default")) return {};
  auto architecture = metadata.find_string("general.architecture");
  if (!architecture) return std::move(architecture).error();
  if (const auto known = pre_of_architecture(architecture->value_or("")); !known.empty()) out.pre = known;
  return {};
}

expected<void> read_texts(const gguf_metadata& metadata, vocabulary_data& out) {
  auto name = metadata.find_string("general.name");
  if (!name) return std::move(name).error();
  out.model_name = name->value_or("");
  auto model = metadata.require_string(model_key);
  if (!model) return std::move(model).error();
  if (*model == gemma4_model) out.pre = gemma4_model; // a model name that implies the pre-tokenizer
  auto chat_template = metadata.find_string("tokenizer.chat_template");
  if (!chat_template) return std::move(chat_template).error();
  out.chat_template = chat_template->value_or("");
  return {};
}

/// GGUF files name at most one EOS, one EOT and one EOM token and, rarely, a list; writers often leave out
/// tokens that a model needs. Known spellings are therefore added.
std::vector<token_id> eos_like_ids(const vocabulary_data& vocabulary) {
  const auto& tokens = vocabulary.tokens;
  const auto has = [&](std::string_view spelling) {
    return std::ranges::find(tokens, spelling) != tokens.end();
  };
  const auto goes_on = [&](token_id id) {
    return tokenizer::ends_only_a_message(tokens[static_cast<std::size_t>(id.value)], has);
  };
  std::vector<token_id> ids = vocabulary.eos_like; // the list
  if (vocabulary.eos) ids.push_back(*vocabulary.eos);
  for (const auto& special : {vocabulary.eot, vocabulary.eom})
    if (special && !goes_on(*special)) ids.push_back(*special);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const token_id id{static_cast<token_id::rep>(i)};
    if (tokenizer::ends_generation(tokens[i]) && !goes_on(id)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

} // namespace

expected<vocabulary_data> read_gguf_vocabulary(const gguf_metadata& metadata) {
  auto kind = read_kind(metadata);
  if (!kind) return std::move(kind).error();
  vocabulary_data out;
  out.kind = *kind;
  for (const auto& step : {read_tokens, read_scores, read_types, read_merges, read_special_ids,
                           read_listed_ends, read_flags, read_pre_tokenizer, read_texts})
    if (auto done = step(metadata, out); !done) return std::move(done).error();
  out.eos_like = eos_like_ids(out);
  return out;
}

} // namespace paceline::model
