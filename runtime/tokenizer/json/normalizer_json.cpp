#include "runtime/base/quote.hpp"
#include "runtime/tokenizer/json/components.hpp"
#include "runtime/tokenizer/json/pattern_json.hpp"

#include <optional>
#include <utility>

namespace paceline::tokenizer {

namespace {

std::optional<unicode_form> form_called(std::string_view type) noexcept {
  if (type == "NFC") return unicode_form::nfc;
  if (type == "NFD") return unicode_form::nfd;
  if (type == "NFKC") return unicode_form::nfkc;
  if (type == "NFKD") return unicode_form::nfkd;
  return std::nullopt;
}

} // namespace

void read_normalizer(const json_node& node, normalizer& out) {
  if (!node) return;
  const std::string type = node.type();
  if (type == "Sequence") {
    const json_node parts = node["normalizers"];
    parts.require_array();
    for (std::size_t i = 0; i < parts.size(); ++i) read_normalizer(parts[i], out);
  } else if (const auto form = form_called(type)) {
    out.add(*form);
  } else if (type == "Lowercase") {
    out.add(lowercase_step{});
  } else if (type == "StripAccents") {
    out.add(strip_accents_step{});
  } else if (type == "Strip") {
    out.add(strip_step{node["strip_left"].flag_or(true), node["strip_right"].flag_or(true)});
  } else if (type == "Prepend") {
    out.add(prepend_step{node["prepend"].string()});
  } else if (type == "Replace") {
    auto from = read_pattern(node["pattern"]);
    if (from) out.add(replace_step{std::move(*from), node["content"].string()});
  } else {
    node.refuse("of type " + quote(type) + " is not supported", errc::unsupported);
  }
}

} // namespace paceline::tokenizer
