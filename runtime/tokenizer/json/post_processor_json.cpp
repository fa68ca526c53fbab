#include "runtime/tokenizer/json/components.hpp"

#include "runtime/base/quote.hpp"

namespace paceline::tokenizer {

namespace {

token_id read_id(const json_node& node, std::uint32_t num_tokens) {
  return token_id{static_cast<token_id::rep>(node.uint_below(num_tokens))};
}

void read_template(const json_node& node, std::uint32_t num_tokens, surroundings& out) {
  const json_node parts = node["single"];
  parts.require_array();
  bool after_text = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]["Sequence"]) {
      if (after_text) return parts[i].refuse("repeats the text", errc::unsupported);
      after_text = true;
      continue;
    }
    const std::string name = parts[i]["SpecialToken"]["id"].string();
    const json_node ids = node["special_tokens"][name]["ids"];
    ids.require_array();
    for (std::size_t j = 0; j < ids.size(); ++j)
      (after_text ? out.after : out.before).push_back(read_id(ids[j], num_tokens));
  }
}

void read_into(const json_node& node, std::uint32_t num_tokens, surroundings& out) {
  const std::string type = node.type();
  if (type == "Sequence") {
    const json_node parts = node["processors"];
    parts.require_array();
    for (std::size_t i = 0; i < parts.size(); ++i) read_into(parts[i], num_tokens, out);
  } else if (type == "ByteLevel") {
    // This processor changes offsets only.
  } else if (type == "TemplateProcessing") {
    read_template(node, num_tokens, out);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    out.before.push_back(read_id(node["cls"][1], num_tokens));
    out.after.push_back(read_id(node["sep"][1], num_tokens));
  } else {
    node.refuse("of type " + quote(type) + " is not supported", errc::unsupported);
  }
}

} // namespace

surroundings read_post_processor(const json_node& node, std::uint32_t num_tokens) {
  surroundings out;
  if (node) read_into(node, num_tokens, out);
  return out;
}

} // namespace paceline::tokenizer
