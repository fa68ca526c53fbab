#include "runtime/tokenizer/known_spellings.hpp"
#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"
#include "runtime/tokenizer/text/replace.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline::tokenizer {

namespace {

using shared_table = std::shared_ptr<const token_table>;

/// Settings that both kinds of vocabulary determine before their stages are made.
struct vocabulary_habits {
  bool byte_level = false; ///< pieces spell bytes in the byte alphabet
  bool add_bos = false;
  bool add_eos = false;
};

error invalid(std::string message) { return error(errc::invalid_file, "vocabulary: " + std::move(message)); }

expected<void> check(const vocabulary_data& data) {
  const std::size_t n = data.tokens.size();
  if (n == 0) return invalid("has no tokens");
  if (!data.types.empty() && data.types.size() != n) return invalid("has not one type a token");
  if (!data.scores.empty() && data.scores.size() != n) return invalid("has not one score a token");
  const auto in_range = [n](token_id id) { return id.value >= 0 && static_cast<std::size_t>(id.value) < n; };
  for (const auto& id : {data.bos, data.eos, data.eot, data.eom, data.unk, data.pad})
    if (id && !in_range(*id))
      return invalid("special id " + to_string(*id) + " is not below the number of tokens");
  if (!std::all_of(data.eos_like.begin(), data.eos_like.end(), in_range))
    return invalid("an id that ends generation is not below the number of tokens");
  return {};
}

/// Types from the file, except for tokens whose spelling determines the type.
std::vector<token_type> settle_types(const vocabulary_data& data) {
  auto types = data.types;
  types.resize(data.tokens.size(), token_type::normal);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (is_control_spelling(data.tokens[i])) types[i] = token_type::control;
    if (is_visible_spelling(data.tokens[i])) types[i] = token_type::user_defined;
  }
  return types;
}

std::string piece_of(std::string_view spelling, token_type type, const vocabulary_habits& habits) {
  switch (type) {
  case token_type::control:
  case token_type::unknown:
  case token_type::user_defined:
    return std::string(spelling);
  case token_type::byte:
    if (const auto byte = hex_spelt_byte(spelling)) return std::string(1, static_cast<char>(*byte));
    break;
  case token_type::normal:
    break;
  case token_type::unused:
    return {};
  }
  if (habits.byte_level) return spelt_bytes(spelling).value_or(std::string(spelling));
  std::string piece;
  append_replaced(piece, spelling, space_mark, " ");
  return piece;
}

/// In Phi-3's tokenizer, special tokens include the spaces after them. In GGUF, only the model's name shows
/// this.
bool is_phi3(std::string_view model_name) {
  std::string name;
  for (const char c : model_name)
    if (c != '-' && c != ' ') name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name.find("phi3") != std::string::npos;
}

bool is_phi3_text_border(std::string_view spelling) noexcept {
  return spelling == "<unk>" || spelling == "<s>" || spelling == "<|endoftext|>";
}

added_tokens find_added_tokens(const vocabulary_data& data, const std::vector<token_type>& types) {
  std::vector<added_token> found;
  const bool markers_strip = data.kind == vocabulary_kind::spm && is_phi3(data.model_name);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool special = types[i] == token_type::control || types[i] == token_type::unknown;
    if (!special && types[i] != token_type::user_defined) continue;
    added_token token;
    token.id = token_id{static_cast<token_id::rep>(i)};
    token.spelling = data.tokens[i];
    token.special = special;
    token.strip_right = markers_strip && !is_phi3_text_border(token.spelling);
    found.push_back(std::move(token));
  }
  return {std::move(found), match_order::longest_spelling};
}

expected<void> set_surroundings(const vocabulary_data& data, const vocabulary_habits& habits,
                                tokenizer_parts& parts) {
  if (data.add_bos.value_or(false) && !parts.bos) return invalid("adds a BOS token but names none");
  if (data.add_eos.value_or(false) && !parts.eos) return invalid("adds an EOS token but names none");
  if (habits.add_bos && parts.bos) parts.before.push_back(*parts.bos);
  if (habits.add_eos && parts.eos) parts.after.push_back(*parts.eos);
  return {};
}

expected<tokenizer> assemble(const vocabulary_data& data, const vocabulary_habits& habits,
                             std::shared_ptr<tokenizer_parts> parts) {
  parts->types = settle_types(data);
  std::size_t num_bytes = 0;
  for (const auto& token : data.tokens) num_bytes += token.size();
  parts->pieces.reserve(data.tokens.size(), num_bytes);
  for (std::size_t i = 0; i < data.tokens.size(); ++i)
    parts->pieces.push_back(piece_of(data.tokens[i], parts->types[i], habits));
  parts->raw_tokens = find_added_tokens(data, parts->types);
  parts->bos = data.bos;
  parts->eos = data.eos;
  parts->pad = data.pad;
  parts->eos_like = data.eos_like;
  if (data.eos) parts->eos_like.push_back(*data.eos);
  if (auto done = set_surroundings(data, habits, *parts); !done) return std::move(done).error();
  parts->finish();
  return tokenizer(std::move(parts));
}

expected<tokenizer> from_bpe(const vocabulary_data& data, const shared_table& tokens) {
  auto found = find_bpe_family(data.pre);
  if (!found) return std::move(found).error();
  const bpe_family family = *found;
  bpe_rules rules;
  rules.ignore_merges = family.ignore_merges;
  rules.whole_newlines = family.spm_spelling;
  rules.byte_fallback = family.spm_spelling;
  rules.unknown = data.unk;
  auto parts = std::make_shared<tokenizer_parts>(tokens, bpe_model(tokens, data.merges, rules));
  if (family.composes) parts->normalize.add(unicode_form::nfc);
  if (family.spm_spelling) parts->normalize.add(replace_step{" ", std::string(space_mark)});
  if (family.group_digits) parts->split.add(splitter(digit_groups{}));
  for (const auto pattern : family.patterns) {
    auto split = splitter::from_pattern(pattern);
    if (!split) return std::move(split).error();
    parts->split.add(std::move(*split));
  }
  if (!family.spm_spelling) parts->split.add(byte_spelling_step{});
  vocabulary_habits habits;
  habits.byte_level = !family.spm_spelling;
  habits.add_bos = data.add_bos.value_or(family.add_bos);
  habits.add_eos = data.add_eos.value_or(false);
  return assemble(data, habits, std::move(parts));
}

/// SentencePiece's defaults if the file states none: unknown, BOS and EOS are the first three entries.
void fill_spm_specials(vocabulary_data& data) {
  const auto fill = [&](std::optional<token_id>& id, token_id::rep value, token_type type) {
    const auto index = static_cast<std::size_t>(value);
    if (!id && index < data.types.size() && data.types[index] == type) id = token_id{value};
  };
  fill(data.unk, 0, token_type::unknown);
  fill(data.bos, 1, token_type::control);
  fill(data.eos, 2, token_type::control);
}

expected<tokenizer> from_spm(vocabulary_data data, const shared_table& tokens) {
  fill_spm_specials(data);
  auto parts = std::make_shared<tokenizer_parts>(tokens, spm_model(tokens, data.scores, data.unk));
  const bool space_prefix = data.add_space_prefix.value_or(true);
  if (space_prefix) parts->normalize.add(prepend_step{" "});
  parts->normalize.add(replace_step{" ", std::string(space_mark)});
  parts->strip_leading_space = space_prefix;
  vocabulary_habits habits;
  habits.add_bos = data.add_bos.value_or(true);
  habits.add_eos = data.add_eos.value_or(false);
  return assemble(data, habits, std::move(parts));
}

} // namespace

expected<tokenizer> tokenizer::from_vocabulary(vocabulary_data data) {
  if (auto done = check(data); !done) return std::move(done).error();
  const auto tokens = std::make_shared<const token_table>(data.tokens);
  return data.kind == vocabulary_kind::bpe ? from_bpe(data, tokens) : from_spm(std::move(data), tokens);
}

} // namespace paceline::tokenizer
