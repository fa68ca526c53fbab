#include "protocol/wire/output/reasoning_split.hpp"

#include "protocol/wire/output/blanks.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <algorithm>

namespace paceline::wire {

reasoning_split::parts reasoning_split::feed(std::string_view text) {
  parts out;
  if (state_ == state::answer && !skips_blanks_) {
    out.answer = text;
    return out;
  }
  held_ += text;
  if (state_ == state::before) read_before();
  if (state_ == state::inside) read_inside(out);
  if (state_ != state::answer) return out;
  if (skips_blanks_) {
    const auto begin = held_.find_first_not_of(blanks);
    if (begin == std::string::npos) {
      held_.clear();
      return out;
    }
    held_.erase(0, begin);
    skips_blanks_ = false;
  }
  out.answer += std::exchange(held_, {});
  return out;
}

/// Reads the text before thoughts. Blanks may precede the opening marker; anything else begins the answer.
void reasoning_split::read_before() {
  const auto begin = held_.find_first_not_of(blanks);
  if (begin == std::string::npos) return;
  const auto text = std::string_view(held_).substr(begin);
  const auto& open = markers_.open;
  if (text.substr(0, open.size()) == open) {
    reasoning_bytes_ += begin + open.size();
    held_.erase(0, begin + open.size());
    state_ = state::inside;
  } else if (open.compare(0, text.size(), text) != 0) {
    state_ = state::answer;
  }
}

void reasoning_split::read_inside(parts& out) {
  const auto end = held_.find(markers_.close);
  const auto size = end != std::string::npos ? end : held_.size() - undecided_bytes(held_, markers_.close);
  add_reasoning(std::string_view(held_).substr(0, size), out);
  const auto taken = end != std::string::npos ? end + markers_.close.size() : size;
  reasoning_bytes_ += taken;
  held_.erase(0, taken);
  if (end == std::string::npos) return;
  blanks_.clear();
  skips_blanks_ = true;
  state_ = state::answer;
}

void reasoning_split::add_reasoning(std::string_view text, parts& out) {
  const auto begin = has_reasoning_ ? 0 : std::min(text.find_first_not_of(blanks), text.size());
  text.remove_prefix(begin);
  if (text.empty()) return;
  has_reasoning_ = true;
  const auto end = text.find_last_not_of(blanks);
  if (end == std::string_view::npos) {
    blanks_ += text;
    return;
  }
  out.reasoning.append(std::exchange(blanks_, {})).append(text.substr(0, end + 1));
  blanks_ = text.substr(end + 1);
}

reasoning_split::parts reasoning_split::finish() {
  parts out;
  if (state_ == state::inside) {
    reasoning_bytes_ += held_.size();
    add_reasoning(held_, out);
  } else if (!skips_blanks_) {
    out.answer = held_;
  }
  held_.clear();
  state_ = state::answer;
  return out;
}

} // namespace paceline::wire
