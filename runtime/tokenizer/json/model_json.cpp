#include "runtime/tokenizer/json/model_json.hpp"

#include "runtime/base/quote.hpp"

#include <boost/json/object.hpp>

#include <algorithm>
#include <utility>

namespace paceline::tokenizer {

namespace {

using merge_list_of_file = std::vector<std::pair<std::string, std::string>>;

/// The type of the model. Older files have no "type".
std::string type_of(const json_node& model) {
  const std::string type = model.type();
  return type.empty() && model["merges"].is_array() ? "BPE" : type;
}

void read_bpe_vocabulary(const json_node& model, model_vocabulary& out) {
  const json_node vocab = model["vocab"];
  const auto& entries = vocab.object();
  // Ids are nearly dense, so an id far above the number of entries is an error. A file cannot make the
  // program allocate more than this.
  const auto limit =
      static_cast<std::uint32_t>(std::min<std::size_t>(entries.size() * 2 + 65536, max_json_tokens));
  out.spellings.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    const json_node entry = vocab[std::string_view(key)];
    const std::size_t id = entry.uint_below(limit);
    if (vocab.failed()) return;
    if (id >= out.spellings.size()) out.spellings.resize(id + 1);
    if (!out.spellings[id].empty()) return entry.refuse("has the id of " + quote(out.spellings[id]));
    out.spellings[id] = std::string_view(key);
  }
  if (!model["unk_token"]) return;
  const std::string unknown = model["unk_token"].string();
  // If the unknown token is not in the vocabulary, it is not needed: byte-level files have a placeholder name
  // there.
  const auto found = std::find(out.spellings.begin(), out.spellings.end(), unknown);
  if (found != out.spellings.end())
    out.unknown = token_id{static_cast<token_id::rep>(found - out.spellings.begin())};
}

void read_unigram_vocabulary(const json_node& model, model_vocabulary& out) {
  const json_node vocab = model["vocab"];
  vocab.require_array();
  if (vocab.size() > max_json_tokens) return vocab.refuse("has more than 2^24 elements");
  out.spellings.reserve(vocab.size());
  out.scores.reserve(vocab.size());
  for (std::size_t i = 0; i < vocab.size() && !vocab.failed(); ++i) {
    out.spellings.push_back(vocab[i][0].string());
    out.scores.push_back(vocab[i][1].number());
  }
  out.unknown = token_id{static_cast<token_id::rep>(model["unk_id"].uint_below(max_json_tokens))};
  if (static_cast<std::size_t>(out.unknown->value) >= out.spellings.size())
    model["unk_id"].refuse("must be below the number of tokens");
}

/// A merge as "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const json_node& node) {
  if (node.is_array()) return {node[0].string(), node[1].string()};
  const std::string both = node.string();
  const auto space = both.find(' ');
  if (space == std::string::npos || space == 0 || space + 1 == both.size() ||
      both.find(' ', space + 1) != both.npos) {
    node.refuse("must be two parts with a space between");
    return {};
  }
  return {both.substr(0, space), both.substr(space + 1)};
}

merge_list_of_file read_merges(const json_node& node, const token_table& tokens) {
  merge_list_of_file merges;
  node.require_array();
  merges.reserve(node.size());
  for (std::size_t i = 0; i < node.size() && !node.failed(); ++i) {
    auto merge = read_merge(node[i]);
    if (!node.failed() &&
        !(tokens.find(merge.first) && tokens.find(merge.second) && tokens.find(merge.first + merge.second)))
      node[i].refuse("merges what is not in the vocabulary");
    merges.push_back(std::move(merge));
  }
  return merges;
}

std::optional<tokenizer_parts::model_variant>
make_bpe(const json_node& model, std::shared_ptr<const token_table> tokens, std::optional<token_id> unknown) {
  for (const auto* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model[affix].string_or("").empty()) model[affix].refuse("is not supported", errc::unsupported);
  if (model["dropout"] && model["dropout"].number() != 0)
    model["dropout"].refuse("is not supported", errc::unsupported);
  bpe_rules rules;
  rules.ignore_merges = model["ignore_merges"].flag_or(false);
  rules.byte_fallback = model["byte_fallback"].flag_or(false);
  rules.fuse_unknown = model["fuse_unk"].flag_or(false);
  rules.unknown = unknown;
  const auto merges = read_merges(model["merges"], *tokens);
  if (model.failed()) return std::nullopt;
  return bpe_model(std::move(tokens), merges, rules);
}

} // namespace

model_vocabulary read_model_vocabulary(const json_node& model) {
  model_vocabulary out;
  const std::string type = type_of(model);
  if (type == "BPE")
    read_bpe_vocabulary(model, out);
  else if (type == "Unigram")
    read_unigram_vocabulary(model, out);
  else
    model.refuse("of type " + quote(type) + " is not supported, only BPE and Unigram", errc::unsupported);
  return out;
}

std::optional<tokenizer_parts::model_variant> make_model(const json_node& model,
                                                         const model_vocabulary& vocabulary) {
  auto tokens = std::make_shared<const token_table>(vocabulary.spellings);
  if (type_of(model) == "BPE") return make_bpe(model, std::move(tokens), vocabulary.unknown);
  const bool byte_fallback = model["byte_fallback"].flag_or(false);
  if (model.failed()) return std::nullopt;
  return unigram_model(std::move(tokens), vocabulary.scores, *vocabulary.unknown, byte_fallback);
}

} // namespace paceline::tokenizer
