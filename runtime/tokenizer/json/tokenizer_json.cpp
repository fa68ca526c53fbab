#include "runtime/tokenizer/json/tokenizer_json.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/tokenizer/json/components.hpp"
#include "runtime/tokenizer/json/model_json.hpp"
#include "runtime/tokenizer/known_spellings.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// One element of "added_tokens".
struct added_entry {
  added_token token;
  bool normalized = false; ///< searched in normalized text
};

std::vector<added_entry> read_added_tokens(const json_node& node) {
  std::vector<added_entry> entries;
  if (node) node.require_array();
  for (std::size_t i = 0; i < node.size() && !node.failed(); ++i) {
    const json_node element = node[i];
    added_entry entry;
    entry.token.id = token_id{static_cast<token_id::rep>(element["id"].uint_below(max_json_tokens))};
    entry.token.spelling = element["content"].string();
    entry.token.special = element["special"].flag_or(false);
    entry.token.single_word = element["single_word"].flag_or(false);
    entry.token.strip_left = element["lstrip"].flag_or(false);
    entry.token.strip_right = element["rstrip"].flag_or(false);
    entry.normalized = element["normalized"].flag_or(!entry.token.special);
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Spellings by id, of the model's vocabulary and the added tokens; unused ids are empty.
std::vector<std::string> collect_spellings(const json_node& root, const model_vocabulary& vocabulary,
                                           const std::vector<added_entry>& added) {
  std::vector<std::string> spellings = vocabulary.spellings;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto id = static_cast<std::size_t>(added[i].token.id.value);
    if (id >= spellings.size()) spellings.resize(id + 1);
    if (!spellings[id].empty() && spellings[id] != added[i].token.spelling)
      root["added_tokens"][i].refuse("has the id of " + quote(spellings[id]));
    spellings[id] = added[i].token.spelling;
  }
  return spellings;
}

void set_types_and_pieces(const decoder_rules& decoder, const std::vector<added_entry>& added,
                          tokenizer_parts& parts) {
  parts.types.assign(parts.tokens->size(), token_type::normal);
  for (std::size_t i = 0; i < parts.types.size(); ++i) {
    const std::string_view spelling = (*parts.tokens)[token_id{static_cast<token_id::rep>(i)}];
    if (spelling.empty()) parts.types[i] = token_type::unused;
    if (decoder.byte_fallback && hex_spelt_byte(spelling)) parts.types[i] = token_type::byte;
    parts.pieces.push_back(decoder.piece(spelling));
  }
  for (const auto& [token, normalized] : added)
    parts.types[static_cast<std::size_t>(token.id.value)] =
        token.special ? token_type::control : token_type::user_defined;
}

/// Finds added tokens in raw or normalized text, as each requires. Raw text is searched first even if nothing
/// is normalized.
expected<void> set_added_tokens(const std::vector<added_entry>& added, tokenizer_parts& parts) {
  std::vector<added_token> raw;
  std::vector<added_token> normalized;
  regex::scratch work;
  for (const auto& entry : added) {
    if (!entry.normalized) {
      raw.push_back(entry.token);
      continue;
    }
    added_token token = entry.token;
    auto spelling = parts.normalize.apply(token.spelling, work);
    if (!spelling) return std::move(spelling).error();
    token.spelling = std::move(*spelling);
    normalized.push_back(std::move(token));
  }
  parts.raw_tokens = {std::move(raw), match_order::leftmost};
  parts.normalized_tokens = {std::move(normalized), match_order::leftmost};
  return {};
}

/// Adds `id` at the front or back of `ids`, or removes it, according to `wanted`; none keeps `ids`.
void settle(std::vector<token_id>& ids, std::optional<token_id> id, std::optional<bool> wanted, bool front) {
  if (!id || !wanted) return;
  const bool there = std::find(ids.begin(), ids.end(), *id) != ids.end();
  if (*wanted && !there) ids.insert(front ? ids.begin() : ids.end(), *id);
  if (!*wanted && there) std::erase(ids, *id);
}

expected<void> set_specials(const tokenizer_json_settings& settings, std::string_view file,
                            tokenizer_parts& parts) {
  using named = std::pair<const std::optional<std::string>*, std::optional<token_id>*>;
  for (const auto& [spelling, id] : {named{&settings.bos, &parts.bos}, named{&settings.eos, &parts.eos},
                                     named{&settings.pad, &parts.pad}}) {
    if (!*spelling) continue;
    *id = parts.tokens->find(**spelling);
    if (!*id) return error(errc::invalid_file, std::string(file) + ": has no token " + quote(**spelling));
  }
  settle(parts.before, parts.bos, settings.add_bos, true);
  settle(parts.after, parts.eos, settings.add_eos, false);
  for (const token_id id : settings.eos_ids) {
    if (id.value < 0 || static_cast<std::size_t>(id.value) >= parts.tokens->size())
      return error(errc::invalid_file,
                   std::string(file) + ": has no token " + to_string(id) + " to end generation");
    parts.eos_like.push_back(id);
  }
  if (parts.eos) parts.eos_like.push_back(*parts.eos);
  const auto has = [&](std::string_view spelling) { return parts.tokens->find(spelling).has_value(); };
  for (std::size_t i = 0; i < parts.types.size(); ++i) {
    const token_id id{static_cast<token_id::rep>(i)};
    const auto spelling = (*parts.tokens)[id];
    if (parts.types[i] == token_type::control && ends_generation(spelling) &&
        !ends_only_a_message(spelling, has))
      parts.eos_like.push_back(id);
  }
  return {};
}

expected<tokenizer> assemble(const json_node& root, const std::optional<error>& failure,
                             const tokenizer_json_settings& settings, std::string_view file) {
  const model_vocabulary vocabulary = read_model_vocabulary(root["model"]);
  const auto added = read_added_tokens(root["added_tokens"]);
  if (failure) return *failure;
  const auto tokens = std::make_shared<const token_table>(collect_spellings(root, vocabulary, added));
  if (tokens->size() == 0) root["model"].refuse("has no tokens");
  if (failure) return *failure;
  auto model = make_model(root["model"], vocabulary);
  if (failure) return *failure;
  auto parts = std::make_shared<tokenizer_parts>(tokens, std::move(*model));
  read_normalizer(root["normalizer"], parts->normalize);
  read_pre_tokenizer(root["pre_tokenizer"], parts->split);
  auto around = read_post_processor(root["post_processor"], static_cast<std::uint32_t>(tokens->size()));
  parts->before = std::move(around.before);
  parts->after = std::move(around.after);
  const decoder_rules decoder = read_decoder(root["decoder"]);
  if (failure) return *failure;
  parts->strip_leading_space = decoder.strip_leading_space;
  set_types_and_pieces(decoder, added, *parts);
  if (auto done = set_added_tokens(added, *parts); !done) return std::move(done).error();
  if (auto done = set_specials(settings, file, *parts); !done) return std::move(done).error();
  parts->finish();
  return tokenizer(std::move(parts));
}

} // namespace

expected<tokenizer> read_tokenizer_json(std::string_view json, const tokenizer_json_settings& settings,
                                        std::string_view file) {
  boost::json::monotonic_resource memory;
  boost::json::error_code code;
  boost::json::parse_options options;
  options.max_depth = 64;
  const boost::json::value document = boost::json::parse(json, code, &memory, options);
  if (code) return error(errc::invalid_file, std::string(file) + ": " + code.message());
  std::optional<error> failure;
  return assemble(json_node(document, std::string(file), failure), failure, settings, file);
}

} // namespace paceline::tokenizer
