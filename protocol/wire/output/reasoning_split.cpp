#include "protocol/wire/output/reasoning_split.hpp"

#include "protocol/wire/output/blanks.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <algorithm>

namespace paceline::wire {

reasoning_split::reasoning_split(const output_plan& plan)
    : markers_(plan.reasoning), call_markers_(opening_markers(plan.calls)),
      keeps_markers_(plan.keeps_reasoning_in_text),
      state_(plan.begins_inside_reasoning ? state::inside : state::before) {}

reasoning_split::parts reasoning_split::feed(std::string_view text) {
  parts out;
  if (state_ == state::answer && !skips_blanks_) {
    out.answer = text;
    return out;
  }
  held_ += text;
  if (state_ == state::before) read_before(out);
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
void reasoning_split::read_before(parts& out) {
  const auto begin = held_.find_first_not_of(blanks);
  if (begin == std::string::npos) return;
  const auto text = std::string_view(held_).substr(begin);
  const auto& open = markers_.open;
  if (text.substr(0, open.size()) == open) {
    reasoning_bytes_ += begin + open.size();
    if (keeps_markers_) out.reasoning.append(held_, 0, begin + open.size());
    held_.erase(0, begin + open.size());
    state_ = state::inside;
  } else if (open.compare(0, text.size(), text) != 0) {
    state_ = state::answer;
  }
}

void reasoning_split::read_inside(parts& out) {
  const auto end = held_.find(markers_.close, searched_);
  if (end == std::string::npos) {
    searched_ = held_.size() - undecided_bytes(held_, markers_.close);
    if (holds_call_) return;
    const auto [begin, marker] = first_marker(held_, call_markers_);
    take_reasoning(std::min(begin, searched_), out);
    holds_call_ = !marker.empty();
    return;
  }
  take_reasoning(end, out);
  if (keeps_markers_) out.reasoning += markers_.close;
  reasoning_bytes_ += markers_.close.size();
  held_.erase(0, markers_.close.size());
  blanks_.clear();
  holds_call_ = false;
  skips_blanks_ = !keeps_markers_;
  state_ = state::answer;
}

/// Removes thoughts from the front of `held_`.
void reasoning_split::take_reasoning(std::size_t size, parts& out) {
  add_reasoning(std::string_view(held_).substr(0, size), out);
  reasoning_bytes_ += size;
  held_.erase(0, size);
  searched_ -= std::min(size, searched_);
}

void reasoning_split::add_reasoning(std::string_view text, parts& out) {
  if (keeps_markers_) {
    out.reasoning += text;
    return;
  }
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
    take_reasoning(held_.size(), out);
  } else if (!skips_blanks_) {
    out.answer = held_;
  }
  held_.clear();
  holds_call_ = false;
  state_ = state::answer;
  return out;
}

} // namespace paceline::wire
