#include "runtime/base/quote.hpp"
#include "runtime/tokenizer/json/components.hpp"
#include "runtime/tokenizer/json/pattern_json.hpp"
#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"
#include "runtime/tokenizer/text/replace.hpp"

#include <optional>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// Punctuation of ASCII and of Unicode 8, the version of the table that was used to make these files.
constexpr std::string_view punctuation =
    R"((?![\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b7d}\x{1b7e}\x{2e43}-\x{2e5d}\x{10ead}\x{10f55}-\x{10f59})"
    R"(\x{10f86}-\x{10f89}\x{1144b}-\x{1144f}\x{1145a}-\x{1145d}\x{11660}-\x{1166c}\x{116b9}\x{1183b})"
    R"(\x{11944}-\x{11946}\x{119e2}\x{11a3f}-\x{11a46}\x{11a9a}-\x{11aa2}\x{11c41}-\x{11c45}\x{11c70}\x{11c71})"
    R"(\x{11ef7}\x{11ef8}\x{11fff}\x{12ff1}\x{12ff2}\x{16e97}-\x{16e9a}\x{16fe2}\x{1e95e}\x{1e95f}])"
    R"()[!-/:-@\[-`{-~\p{P}\x{166d}\x{111c9}])";
/// ByteLevel's own split.
constexpr std::string_view byte_level_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// "\w+|[^\w\s]+" with the meaning of Rust's regex engine, which the pre-tokenizer Whitespace uses: its \w
/// includes joiners but not the numbers of Latin-1.
constexpr std::string_view rust_words =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";

split_behavior read_behavior(const json_node& node, split_behavior fallback) {
  if (!node) return fallback;
  const std::string name = node.string();
  if (name == "Removed") return split_behavior::removed;
  if (name == "Isolated") return split_behavior::isolated;
  if (name == "MergedWithPrevious") return split_behavior::merged_with_previous;
  if (name == "MergedWithNext") return split_behavior::merged_with_next;
  if (name == "Contiguous") return split_behavior::contiguous;
  node.refuse("must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return fallback;
}

void add_split(const json_node& node, std::string_view pattern, split_behavior behavior, bool invert,
               pre_tokenizer& out) {
  auto split = splitter::from_pattern(pattern, behavior, invert);
  if (split)
    out.add(std::move(*split));
  else
    node.refuse(split.error().message(), split.error().code());
}

void read_split(const json_node& node, pre_tokenizer& out) {
  const auto behavior = read_behavior(node["behavior"], split_behavior::isolated);
  const bool invert = node["invert"].flag_or(false);
  const json_node pattern = node["pattern"];
  if (pattern["Regex"]) {
    add_split(pattern["Regex"], pattern["Regex"].string(), behavior, invert, out);
  } else if (auto literal = read_pattern(pattern)) {
    out.add(splitter(std::get<std::string>(std::move(*literal)), behavior, invert));
  }
}

void read_byte_level(const json_node& node, pre_tokenizer& out) {
  if (node["add_prefix_space"].flag_or(true)) out.add(prefix_step{" "});
  if (node["use_regex"].flag_or(true))
    add_split(node, byte_level_pattern, split_behavior::isolated, false, out);
  out.add(byte_spelling_step{});
}

void read_metaspace(const json_node& node, pre_tokenizer& out) {
  const std::string replacement = node["replacement"].string_or(space_mark);
  if (replacement.empty()) return node["replacement"].refuse("must not be empty");
  std::string scheme = node["prepend_scheme"].string_or("");
  if (scheme.empty()) scheme = node["add_prefix_space"].flag_or(true) ? "always" : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return node["prepend_scheme"].refuse("must be always, first or never");
  out.add(substitute_step{" ", replacement});
  if (scheme != "never") out.add(prefix_step{replacement, scheme == "first"});
  if (node["split"].flag_or(true)) out.add(splitter(replacement, split_behavior::merged_with_next));
}

} // namespace

void read_pre_tokenizer(const json_node& node, pre_tokenizer& out) {
  if (!node) return;
  const std::string type = node.type();
  using behavior = split_behavior;
  if (type == "Sequence") {
    const json_node parts = node["pretokenizers"];
    parts.require_array();
    for (std::size_t i = 0; i < parts.size(); ++i) read_pre_tokenizer(parts[i], out);
  } else if (type == "ByteLevel") {
    read_byte_level(node, out);
  } else if (type == "Split") {
    read_split(node, out);
  } else if (type == "Metaspace") {
    read_metaspace(node, out);
  } else if (type == "Digits") {
    const bool single = node["individual_digits"].flag_or(false);
    add_split(node, single ? R"(\p{N})" : R"(\p{N}+)", behavior::isolated, false, out);
  } else if (type == "Punctuation") {
    add_split(node, punctuation, read_behavior(node["behavior"], behavior::isolated), false, out);
  } else if (type == "Whitespace") {
    add_split(node, rust_words, behavior::removed, true, out);
  } else if (type == "WhitespaceSplit") {
    add_split(node, R"(\s)", behavior::removed, false, out);
  } else if (type == "BertPreTokenizer") {
    add_split(node, R"(\s)", behavior::removed, false, out);
    add_split(node, punctuation, behavior::isolated, false, out);
  } else if (type == "CharDelimiterSplit") {
    const std::string delimiter = node["delimiter"].string();
    if (delimiter.empty()) return node["delimiter"].refuse("must not be empty");
    out.add(splitter(delimiter, behavior::removed));
  } else {
    node.refuse("of type " + quote(type) + " is not supported", errc::unsupported);
  }
}

} // namespace paceline::tokenizer
