#pragma once

#include "protocol/wire/output/output_pipeline.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire::test {

/// All items of a text that arrives in `parts`. Neighbours of the same kind are joined. `is_cut` means that
/// the model has not ended the text.
inline output_items read(const output_plan& plan, const std::vector<std::string>& parts,
                         bool is_cut = false) {
  int num_ids = 0;
  output_pipeline pipeline(plan, [&] { return "call_" + std::to_string(num_ids++); });
  output_items all;
  const auto add = [&](const output_items& items) {
    for (const auto& item : items) {
      const bool is_piece =
          item.what != output_item::kind::call_begin && item.what != output_item::kind::call_end;
      is_piece ? append(all, item.what, item.text, item.call) : all.push_back(item);
    }
  };
  for (const auto& part : parts) add(pipeline.feed(part));
  add(pipeline.finish(is_cut));
  return all;
}

/// The items in one line: "reasoning | text | call_0 weather({...})".
inline std::string told(const output_items& items) {
  std::string out;
  for (const auto& item : items) {
    if (item.what == output_item::kind::call_arguments || item.what == output_item::kind::call_end) {
      out += item.what == output_item::kind::call_end ? ")" : item.text;
      continue;
    }
    if (!out.empty()) out += " | ";
    if (item.what == output_item::kind::reasoning) out += "thinks:";
    if (item.what == output_item::kind::call_begin) out += item.call_id + " ";
    out += item.text;
    if (item.what == output_item::kind::call_begin) out += "(";
  }
  return out;
}

inline std::vector<std::string> bytes_of(std::string_view text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

} // namespace paceline::wire::test
