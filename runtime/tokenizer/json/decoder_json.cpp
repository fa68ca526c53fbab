#include "runtime/base/quote.hpp"
#include "runtime/tokenizer/json/components.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"
#include "runtime/tokenizer/text/replace.hpp"

#include <utility>

namespace paceline::tokenizer {

namespace {

void read_into(const json_node& node, decoder_rules& out) {
  const std::string type = node.type();
  if (type == "Sequence") {
    const json_node parts = node["decoders"];
    parts.require_array();
    for (std::size_t i = 0; i < parts.size(); ++i) read_into(parts[i], out);
  } else if (type == "ByteLevel") {
    out.byte_level = true;
  } else if (type == "ByteFallback") {
    out.byte_fallback = true;
  } else if (type == "Fuse") {
    // The decoder always joins pieces without anything between them.
  } else if (type == "Replace" && node["pattern"]["String"]) {
    std::string from = node["pattern"]["String"].string();
    if (from.empty()) return node["pattern"]["String"].refuse("must not be empty");
    out.replacements.emplace_back(std::move(from), node["content"].string());
  } else if (type == "Metaspace") {
    out.replacements.emplace_back(node["replacement"].string_or(space_mark), " ");
    const std::string scheme = node["prepend_scheme"].string_or("");
    out.strip_leading_space = scheme.empty() ? node["add_prefix_space"].flag_or(true) : scheme != "never";
  } else if (type == "Strip") {
    if (node["content"].string() != " " || node["start"].uint_below(2) > 1 || node["stop"].uint_below(1) != 0)
      return node.refuse("may only strip one leading space", errc::unsupported);
    out.strip_leading_space = node["start"].uint_below(2) == 1;
  } else {
    node.refuse("of type " + quote(type) + " is not supported", errc::unsupported);
  }
}

} // namespace

decoder_rules read_decoder(const json_node& node) {
  decoder_rules rules;
  if (node) {
    read_into(node, rules);
  } else {
    rules.spaces_between = true;
    rules.strip_leading_space = true;
  }
  return rules;
}

std::string decoder_rules::piece(std::string_view spelling) const {
  if (spaces_between) return " " + std::string(spelling);
  if (byte_level) return spelt_bytes(spelling).value_or(std::string(spelling));
  if (byte_fallback)
    if (const auto byte = hex_spelt_byte(spelling)) return std::string(1, static_cast<char>(*byte));
  std::string piece(spelling);
  for (const auto& [from, to] : replacements) {
    std::string replaced;
    append_replaced(replaced, piece, from, to);
    piece = std::move(replaced);
  }
  return piece;
}

} // namespace paceline::tokenizer
