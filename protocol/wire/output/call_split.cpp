#include "protocol/wire/output/call_split.hpp"

#include "protocol/wire/output/blanks.hpp"
#include <algorithm>
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

constexpr std::string_view code_fence = "```";

/// Where the object of a bare call begins in `text`: at the start, after the beginning of a block of code,
/// which Qwen2.5-Coder writes around calls, or after the mark that Llama 3.1 and later may write before a
/// call. npos means nowhere. nullopt means that more text is needed.
std::optional<std::size_t> bare_call_begin(std::string_view text) {
  if (text.front() == '{') return 0;
  for (const std::string_view lead :
       {std::string_view("```json"), code_fence, std::string_view("<|python_tag|>")}) {
    if (lead.starts_with(text)) return std::nullopt;
    if (!text.starts_with(lead)) continue;
    const auto at = text.find_first_not_of(blanks, lead.size());
    if (at == std::string_view::npos) return std::nullopt;
    return text[at] == '{' ? at : std::string_view::npos;
  }
  return std::string_view::npos;
}

} // namespace

call_split::call_split(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, call_writer calls)
    : syntax_(syntax), tools_(std::move(tools)), markers_(opening_markers(syntax)), calls_(std::move(calls)) {
}

void call_split::feed(std::string_view text, output_items& out) {
  num_fed_ += text.size();
  held_ += text;
  while (step(out)) {
  }
}

bool call_split::step(output_items& out) {
  if (held_.empty()) return false;
  if (calls_.is_full() && !reader_) {
    held_.clear();
    return false;
  }
  return reader_ ? read_call(out) : find_call(out);
}

bool call_split::find_call(output_items& out) {
  if (may_begin_ && has_bare_calls(syntax_)) {
    // Bare calls follow each other with ";" between them.
    const auto first = held_.find_first_not_of(calls_.num_calls() > 0 ? " \t\r\n;" : blanks);
    if (first == std::string::npos) return false;
    const auto begin = bare_call_begin(std::string_view(held_).substr(first));
    if (!begin) return false;
    if (*begin != std::string_view::npos) {
      opening_ = held_.substr(0, first + *begin);
      held_.erase(0, first + *begin);
      begin_call(make_bare_call_reader(tools_, opening_.find(code_fence) != std::string::npos));
      return true;
    }
  }
  const auto [begin, marker] = first_marker(held_, markers_);
  add_text(std::string_view(held_).substr(0, begin), out);
  held_.erase(0, begin + marker.size());
  if (marker.empty()) return false;
  opening_ = marker;
  begin_call(make_call_reader(syntax_, marker, tools_));
  return true;
}

/// `opening_` was removed from the text.
void call_split::begin_call(std::unique_ptr<call_reader> reader) {
  reader_ = std::move(reader);
  num_before_ = calls_.num_begun();
  spans_.begin(position() - opening_.size() - blanks_.size());
}

bool call_split::read_call(output_items& out) {
  const auto outcome = reader_->read(held_, calls_, out);
  if (calls_.num_begun() > num_before_) {
    blanks_.clear();
    spans_.confirm();
  }
  if (outcome == call_reader::outcome::wants_more) return false;
  reader_.reset();
  if (outcome == call_reader::outcome::ended) {
    spans_.end(position());
    may_begin_ = behind_call_ = true;
    return true;
  }
  spans_.withdraw();
  may_begin_ = false;
  add_text(opening_, out);
  return true;
}

void call_split::add_text(std::string_view text, output_items& out) {
  if (behind_call_) {
    spans_.extend(text.size() - without_blanks(text).size());
    text = without_blanks(text);
  }
  if (text.empty()) return;
  behind_call_ = false;
  const auto end = text.find_last_not_of(blanks);
  if (end == std::string_view::npos) {
    blanks_ += text;
    return;
  }
  may_begin_ = false;
  append(out, output_item::kind::text, std::exchange(blanks_, {}));
  append(out, output_item::kind::text, text.substr(0, end + 1));
  blanks_ = text.substr(end + 1);
}

void call_split::finish(bool is_cut, output_items& out) {
  if (reader_ && calls_.num_begun() == num_before_) {
    spans_.withdraw(); // too short to be a call
    add_text(opening_, out);
    reader_->give_back(held_);
  } else if (reader_) {
    reader_->finish(held_, is_cut, calls_, out);
    if (!is_cut) calls_.end(out);
    spans_.end(position());
    behind_call_ = true;
  }
  reader_.reset();
  if (!held_.empty() && !calls_.is_full()) add_text(held_, out);
  held_.clear();
  if (calls_.num_calls() == 0) append(out, output_item::kind::text, blanks_);
  blanks_.clear();
  has_ended_ = true;
}

byte_owner call_split::owner_of(std::size_t at) const noexcept {
  if (is_full() && spans_.is_late(at)) return byte_owner::other; // dropped
  if (const auto owner = spans_.owner_of(at); owner != byte_owner::answer) return owner;
  return has_ended_ || at + blanks_.size() < position() ? byte_owner::answer : byte_owner::undecided;
}

} // namespace paceline::wire
