#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::wire {

/// A part of a reply: thoughts, answer, or a call of one of the client's functions. A reply is a list of
/// items. An item may continue the previous one.
struct output_item {
  enum class kind : std::uint8_t {
    reasoning,      ///< `text`: more of the model's thoughts
    text,           ///< `text`: more of the answer
    call_begin,     ///< `text`: the function's name; `call_id`
    call_arguments, ///< `text`: more of the arguments, a JSON object
    call_end,       ///< the arguments are complete; absent if the output was cut off within the call
  };
  kind what = kind::text;
  std::string text;
  std::uint32_t call = 0; ///< for calls: index of the call in the reply
  std::string call_id;    ///< of call_begin

  friend bool operator==(const output_item&, const output_item&) = default;
};

using output_items = std::vector<output_item>;

/// Appends text to the last item of `out` if that has the same kind and call, otherwise as a new item. So the
/// result does not depend on the pieces in which the text arrives. Empty text adds nothing.
inline void append(output_items& out, output_item::kind what, std::string_view text, std::uint32_t call = 0) {
  if (text.empty()) return;
  if (!out.empty() && out.back().what == what && out.back().call == call)
    out.back().text += text;
  else
    out.push_back({what, std::string(text), call, {}});
}

/// Appends an item in the same way. call_begin and call_end always stay separate items.
inline void append(output_items& out, output_item item) {
  if (item.what == output_item::kind::call_begin || item.what == output_item::kind::call_end)
    out.push_back(std::move(item));
  else
    append(out, item.what, item.text, item.call);
}

/// The items of an answer that is only text.
inline output_items as_text(std::string text) {
  if (text.empty()) return {};
  return {{output_item::kind::text, std::move(text), 0, {}}};
}

} // namespace paceline::wire
