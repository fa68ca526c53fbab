#include "protocol/wire/output/call_reader.hpp"

#include "protocol/wire/output/blanks.hpp"
#include <algorithm>
#include <utility>

namespace paceline::wire {

std::span<const std::string_view> opening_markers(call_syntax syntax) noexcept {
  static constexpr std::string_view tags[] = {"<tool_call>", function_tag};
  static constexpr std::string_view of_mistral[] = {"[TOOL_CALLS]"}, of_lfm2[] = {"<|tool_call_start|>"},
                                    of_gemma4[] = {"<|tool_call>"};
  switch (syntax) {
  case call_syntax::hermes:
  case call_syntax::glm:
    return std::span(tags).first(1);
  case call_syntax::qwen3_coder:
    return tags;
  case call_syntax::mistral:
    return of_mistral;
  case call_syntax::lfm2:
    return of_lfm2;
  case call_syntax::gemma4:
    return of_gemma4;
  case call_syntax::none:
  case call_syntax::llama3:
  case call_syntax::harmony:
    break;
  }
  return {};
}

bool has_bare_calls(call_syntax syntax) noexcept {
  return syntax == call_syntax::llama3 || syntax == call_syntax::hermes;
}

std::unique_ptr<call_reader> make_call_reader(call_syntax syntax, std::string_view marker,
                                              std::shared_ptr<const tool_signatures> tools) {
  switch (syntax) {
  case call_syntax::none:
  case call_syntax::harmony: // harmony_split reads these calls
  case call_syntax::llama3:  // these calls begin without a marker
    break;
  case call_syntax::hermes:
  case call_syntax::mistral:
    return make_json_call_reader(syntax);
  case call_syntax::qwen3_coder:
  case call_syntax::glm:
    return make_tagged_call_reader(syntax, std::move(tools), marker == function_tag);
  case call_syntax::lfm2:
  case call_syntax::gemma4:
    return make_literal_call_reader(syntax);
  }
  return nullptr;
}

std::size_t undecided_bytes(std::string_view text, std::string_view marker) noexcept {
  if (marker.empty()) return 0;
  for (auto size = std::min(text.size(), marker.size() - 1); size > 0; --size)
    if (text.substr(text.size() - size) == marker.substr(0, size)) return size;
  return 0;
}

found_marker first_marker(std::string_view text, std::span<const std::string_view> markers) noexcept {
  found_marker first{text.size(), {}};
  std::size_t undecided = 0;
  for (const auto marker : markers) {
    if (const auto begin = text.find(marker); begin < first.begin) first = {begin, marker};
    undecided = std::max(undecided, undecided_bytes(text, marker));
  }
  if (first.marker.empty()) first.begin -= undecided;
  return first;
}

call_reader::outcome take_closing_tag(std::string& text, std::string_view close) {
  text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  if (text.compare(0, close.size(), close) == 0) {
    text.erase(0, close.size());
    return call_reader::outcome::ended;
  }
  return undecided_bytes(text, close) == text.size() ? call_reader::outcome::wants_more
                                                     : call_reader::outcome::ended;
}

} // namespace paceline::wire
