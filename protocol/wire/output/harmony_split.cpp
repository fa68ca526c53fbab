#include "protocol/wire/output/harmony_split.hpp"

#include "protocol/wire/output/blanks.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

constexpr std::string_view start = "<|start|>", channel = "<|channel|>", message = "<|message|>";
constexpr std::string_view header_begins[] = {start, channel, "<|constrain|>", message, "to="};
constexpr auto& ends = harmony_ends;
constexpr std::size_t longest_header = 512;

/// The mark that `text` begins with; empty if there is none.
template <std::size_t N>
std::string_view begin_of(std::string_view text, const std::string_view (&marks)[N]) {
  for (const auto mark : marks)
    if (text.starts_with(mark)) return mark;
  return {};
}

/// True if `text` is an incomplete mark, which further text may complete.
template <std::size_t N>
bool may_become(std::string_view text, const std::string_view (&marks)[N]) {
  return std::any_of(std::begin(marks), std::end(marks),
                     [&](std::string_view mark) { return mark.starts_with(text); });
}

bool is_of_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_.-/:").find(c) != std::string_view::npos;
}

/// True for the content of a header, which consists of words. In front of each word there is one mark or
/// none. `text` ends before <|message|>.
bool is_header(std::string_view text) {
  static constexpr std::string_view marks[] = {start, channel, "<|constrain|>", "to="};
  std::size_t num_words = 0;
  for (text = without_blanks(text); !text.empty(); text = without_blanks(text)) {
    text.remove_prefix(begin_of(text, marks).size());
    const auto end = std::find_if_not(text.begin(), text.end(), is_of_word) - text.begin();
    if (end == 0 || ++num_words > 5) return false;
    text.remove_prefix(static_cast<std::size_t>(end));
  }
  return true;
}

/// Where the text of a message begins in `text`, which begins with the message's header. nullopt means that
/// more text is needed, and 0 that this is not a header.
std::optional<std::size_t> end_of_header(std::string_view text) {
  const auto inner = without_blanks(text);
  if (text.size() - inner.size() > longest_header) return 0;
  const auto first = begin_of(inner, header_begins);
  if (first.empty()) return may_become(inner, header_begins) ? std::nullopt : std::optional<std::size_t>(0);
  const auto offset = text.size() - inner.size();
  const auto found = inner.find(message);
  auto broken = inner.find('\n');
  for (const auto mark : ends) broken = std::min(broken, inner.find(mark, mark == first ? mark.size() : 0));
  if (broken < found || (found != std::string_view::npos && found > longest_header)) return 0;
  if (found != std::string_view::npos)
    return is_header(inner.substr(0, found)) ? offset + found + message.size() : 0;
  return inner.size() > longest_header + message.size() ? std::optional<std::size_t>(0) : std::nullopt;
}

/// The word after `name` in a header.
std::string_view value_of(std::string_view header, std::string_view name) {
  const auto at = header.find(name);
  if (at == std::string_view::npos) return {};
  const auto rest = without_blanks(header.substr(at + name.size()));
  return rest.substr(0, std::min(rest.find_first_of(" \t\r\n<"), rest.size()));
}

/// The function that a message calls; empty if it goes to the user.
std::string_view function_of(std::string_view header) {
  static constexpr std::string_view prefix = "functions.";
  const auto recipient = value_of(header, "to=");
  if (recipient == "all" || recipient == "user" || recipient == "assistant") return {};
  return recipient.starts_with(prefix) ? recipient.substr(prefix.size()) : recipient;
}

/// True for a header that the token limit has truncated.
bool is_cut_header(std::string_view text) {
  const auto first = begin_of(text, header_begins);
  if (first.empty() || (first == start && !std::string_view("assistant").starts_with(value_of(text, start))))
    return false;
  const auto last = text.rfind('<');
  if (last != std::string_view::npos && may_become(text.substr(last), header_begins))
    text = text.substr(0, last);
  // The end may be a mark whose word is missing, or a part of a word.
  return is_header(std::string(text) + "x");
}

} // namespace

bool is_harmony_name(std::string_view function) noexcept {
  return !function.empty() && std::all_of(function.begin(), function.end(), is_of_word);
}

harmony_split::harmony_split(const output_plan& plan, call_writer calls)
    : splits_thoughts_(plan.reasoning), drops_thoughts_(plan.drops_reasoning),
      reads_calls_(plan.calls != call_syntax::none), calls_(std::move(calls)),
      state_(plan.begins_inside_reasoning ? state::text : state::header),
      in_thoughts_(plan.begins_inside_reasoning && splits_thoughts_),
      raw_(plan.begins_inside_reasoning && !splits_thoughts_), in_front_(splits_thoughts_) {}

void harmony_split::feed(std::string_view text, output_items& out) {
  held_ += text;
  while (step(out)) {
  }
}

bool harmony_split::step(output_items& out) {
  if (held_.empty()) return false;
  if (calls_.is_full()) {
    take(held_.size());
    return false;
  }
  switch (state_) {
  case state::header:
    return read_header(out);
  case state::text:
    return read_text(out);
  case state::call:
    return begin_call(out);
  case state::argument:
    return read_argument(out);
  case state::end:
    return read_end(out);
  }
  return false;
}

bool harmony_split::read_header(output_items& out) {
  const auto end = end_of_header(held_);
  if (!end) return false;
  if (*end > 0) {
    begin_message(take(*end), out);
    return true;
  }
  // This text is outside of a message. It continues the previous message as if that had not ended.
  in_front_ = in_front_ && in_thoughts_;
  add(std::exchange(mark_, {}), out);
  const auto blanks = held_.size() - without_blanks(held_).size();
  const auto mark = begin_of(without_blanks(held_), header_begins);
  add(take(mark.empty() ? 0 : blanks + mark.size()), out);
  state_ = state::text;
  return true;
}

void harmony_split::begin_message(const std::string& header, output_items& out) {
  mark_.clear();
  const bool follows_raw = std::exchange(raw_, false);
  const auto role = value_of(header, start);
  const bool is_thought = value_of(header, channel) == "analysis";
  function_ = function_of(header);
  const bool is_call = !function_.empty();
  raw_ =
      (!role.empty() && role != "assistant") || (is_call ? !reads_calls_ : is_thought && !splits_thoughts_);
  in_thoughts_ = is_thought && !is_call && !raw_;
  new_message_ = !raw_ && !follows_raw;
  if (in_front_ && (in_thoughts_ || reasoning_bytes_ > 0)) reasoning_bytes_ = num_taken_;
  in_front_ = in_front_ && in_thoughts_;
  header_ = header;
  state_ = is_call && !raw_ ? state::call : state::text;
  const auto begin = num_taken_ - header.size();
  if (state_ == state::call)
    spans_.begin(begin);
  else if (spans_.ends_at(begin))
    spans_.extend(header.size());
  if (raw_) add(header, out);
}

bool harmony_split::read_text(output_items& out) {
  add(take(bytes_before_end()), out);
  return take_end(out);
}

std::size_t harmony_split::bytes_before_end() const { return first_marker(held_, ends).begin; }

/// Removes the mark at the beginning, which ends the text of a message. The mark that begins the next message
/// is not removed.
bool harmony_split::take_end(output_items& out) {
  const auto mark = begin_of(held_, ends);
  if (mark.empty()) return false;
  mark_ = take(mark == start ? 0 : mark.size());
  if (in_front_ && in_thoughts_) reasoning_bytes_ = num_taken_;
  if (raw_) add(std::exchange(mark_, {}), out);
  state_ = state::header;
  return true;
}

bool harmony_split::begin_call(output_items& out) {
  header_ += take(held_.size() - without_blanks(held_).size());
  const std::string_view rest = held_;
  if (rest.empty()) return false;
  if (rest.front() == '{' || !begin_of(rest, ends).empty()) {
    state_ = rest.front() == '{' ? state::argument : state::end;
    arguments_ = {};
    spans_.confirm();
    calls_.begin(function_, out);
    if (state_ == state::end) calls_.end(out);
    return true;
  }
  if (may_become(rest, ends)) return false;
  raw_ = true;
  spans_.withdraw();
  add(std::exchange(header_, {}), out);
  state_ = state::text;
  return true;
}

bool harmony_split::read_argument(output_items& out) {
  std::string piece;
  std::size_t count = 0;
  bool cut = false;
  while (count < held_.size() && !arguments_.complete()) {
    const bool in_string = arguments_.in_string();
    const auto rest = std::string_view(held_).substr(count);
    cut = !in_string && !begin_of(rest, ends).empty();
    if (cut || (!in_string && may_become(rest, ends))) break;
    arguments_.takes(held_[count]);
    add_json(piece, held_[count++], in_string);
  }
  calls_.arguments(piece, out);
  take(count);
  if (!cut && !arguments_.complete()) return false;
  calls_.end(out);
  state_ = state::end;
  return true;
}

/// Reads the end of a call, after its arguments.
bool harmony_split::read_end(output_items& out) {
  in_thoughts_ = false;
  take(held_.size() - without_blanks(held_).size());
  if (held_.empty() || (begin_of(held_, ends).empty() && may_become(held_, ends))) return false;
  new_message_ = true;
  if (take_end(out))
    mark_.clear();
  else
    state_ = state::text;
  spans_.end(num_taken_);
  return true;
}

void harmony_split::finish(bool is_cut, output_items& out) {
  const auto rest = without_blanks(held_);
  switch (state_) {
  case state::header:
    // A truncated header is dropped. Blanks are text only if there is nothing else.
    if (rest.empty() ? num_taken_ == 0 : !is_cut_header(rest)) {
      add(std::exchange(mark_, {}), out);
      add(held_, out);
    }
    break;
  case state::text:
    add(held_, out);
    break;
  case state::call:
    if (rest.empty()) {
      spans_.confirm();
      calls_.begin(function_, out);
    } else {
      spans_.withdraw();
      add(header_, out);
      add(held_, out);
    }
    break;
  case state::argument:
    calls_.arguments(held_, out);
    break;
  case state::end:
    if (!calls_.is_full() && !may_become(rest, ends)) add(rest, out);
    break;
  }
  if (!is_cut) calls_.end(out);
  held_.clear();
  has_ended_ = true;
}

byte_owner harmony_split::owner_of(std::size_t at) const noexcept {
  if (at < reasoning_bytes_ || (is_full() && spans_.is_late(at))) return byte_owner::other;
  if (const auto owner = spans_.owner_of(at); owner != byte_owner::answer) return owner;
  if (in_front_ && has_ended_) return in_thoughts_ ? byte_owner::other : byte_owner::answer;
  return has_ended_ || (at < num_taken_ && !in_front_) ? byte_owner::answer : byte_owner::undecided;
}

void harmony_split::add(std::string_view text, output_items& out) {
  if (text.empty() || (in_thoughts_ && drops_thoughts_)) return;
  const auto what = in_thoughts_ ? output_item::kind::reasoning : output_item::kind::text;
  bool& has_any = in_thoughts_ ? has_thoughts_ : has_answer_;
  if (std::exchange(new_message_, false) && has_any) append(out, what, "\n\n");
  has_any = true;
  append(out, what, text);
}

std::string harmony_split::take(std::size_t count) {
  auto taken = held_.substr(0, count);
  held_.erase(0, count);
  num_taken_ += count;
  if (in_front_ && in_thoughts_ && state_ == state::text) reasoning_bytes_ = num_taken_;
  return taken;
}

} // namespace paceline::wire
