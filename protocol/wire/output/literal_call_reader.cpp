// Calls whose arguments are literals other than JSON: LFM2 (Python), Gemma 4. A block is read once it is
// complete.
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/output/call_reader.hpp"
#include "runtime/base/utf16.hpp"
#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::wire {

namespace {

using outcome = call_reader::outcome;

struct read_call {
  std::string name;
  std::string arguments; ///< JSON
};

/// Reads literals and writes them as JSON. Keeps the first failure in `failed`.
class literals {
 public:
  explicit literals(std::string_view text) : text_(text) {}

  bool failed() const noexcept { return failed_; }
  bool at_end() {
    blanks();
    return at_ == text_.size();
  }
  bool take(std::string_view word) {
    blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) { failed_ = !take(word) || failed_; }

  std::string name() {
    blanks();
    const auto begin = at_;
    const auto is_of_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    };
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    failed_ = failed_ || at_ == begin;
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// Converts the members between brackets to {"name": value, …}, up to `close`. The opening bracket was
  /// read. `between` separates a name from its value.
  void members(std::string_view between, std::string_view close, std::string& json) {
    json += '{';
    bool first = true;
    while (!failed_ && !take(close)) {
      if (!first) expect(",");
      if (failed_) return;
      if (!std::exchange(first, false)) json += ", ";
      auto text = string();
      append_json_string(json, text ? *text : name());
      expect(between);
      json += ": ";
      value(json);
    }
    json += '}';
  }

 private:
  static constexpr std::string_view gemma_quote = "<|\"|>";
  static constexpr int max_depth = 32;

  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  void value(std::string& json) {
    if (failed_ || ++depth_ > max_depth) {
      failed_ = true;
      return;
    }
    if (const auto text = string())
      append_json_string(json, *text);
    else if (take("{"))
      members(":", "}", json);
    else if (take("["))
      list(json);
    else
      word(json);
    --depth_;
  }

  void list(std::string& json) {
    json += '[';
    bool first = true;
    while (!failed_ && !take("]")) {
      if (!first) expect(",");
      if (!std::exchange(first, false)) json += ", ";
      value(json);
    }
    json += ']';
  }

  /// Reads a number, a truth value or null.
  void word(std::string& json) {
    blanks();
    const auto begin = at_;
    while (at_ < text_.size() && std::string_view(",]})\n ").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const auto read = text_.substr(begin, at_ - begin);
    if (read == "True" || read == "true")
      json += "true";
    else if (read == "False" || read == "false")
      json += "false";
    else if (read == "None" || read == "null" || read == "none")
      json += "null";
    else if (is_number(read))
      json += read;
    else
      failed_ = true;
  }

  /// True for the numbers of JSON.
  static bool is_number(std::string_view text) {
    std::size_t at = !text.empty() && text.front() == '-' ? 1 : 0;
    const auto digits = [&] {
      const auto begin = at;
      while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
      return at - begin;
    };
    const auto first = at;
    const auto whole = digits();
    if (whole == 0 || (whole > 1 && text[first] == '0')) return false;
    if (at < text.size() && text[at] == '.') {
      ++at;
      if (digits() == 0) return false;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      if (digits() == 0) return false;
    }
    return at == text.size();
  }

  /// Reads a text in Gemma's quotes, which has no escapes, or in Python's quotes.
  std::optional<std::string> string() {
    blanks();
    if (take(gemma_quote)) {
      const auto end = text_.find(gemma_quote, at_);
      failed_ = failed_ || end == std::string_view::npos;
      if (failed_) return std::nullopt;
      std::string text(text_.substr(at_, end - at_));
      at_ = end + gemma_quote.size();
      return text;
    }
    if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return std::nullopt;
    return quoted(text_[at_++]);
  }

  /// Appends what the escape at `at_`, behind its backslash, stands for in Python, which keeps unknown ones.
  /// `at_` is then its last character. Two halves of a character are joined, as in JSON.
  void append_escaped(std::string& text) {
    static constexpr std::string_view letters = "ntrbfav\\'\"", meanings = "\n\t\r\b\f\a\v\\'\"";
    const char escape = text_[at_];
    if (const auto known = letters.find(escape); known != std::string_view::npos) {
      text += meanings[known];
      return;
    }
    const std::size_t num_digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    auto code = num_digits > 0 ? hexadecimal(at_ + 1, num_digits) : std::nullopt;
    if (!code || *code > 0x10FFFF) {
      text.append({'\\', escape});
      return;
    }
    at_ += num_digits;
    if (!is_surrogate(*code)) return append_utf8(text, *code);
    const bool goes_on = text_.substr(at_ + 1, 2) == "\\u";
    const auto low = goes_on ? hexadecimal(at_ + 3, 4) : std::nullopt;
    const auto joined = low ? joined_surrogates(*code, *low) : std::nullopt;
    if (!joined) return void(text += replacement_character);
    at_ += 6;
    append_utf8(text, *joined);
  }

  std::optional<char32_t> hexadecimal(std::size_t from, std::size_t num_digits) const {
    const auto digits = text_.substr(std::min(from, text_.size()), num_digits);
    std::uint32_t code = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (failure != std::errc{} || digits.size() < num_digits || end != digits.data() + num_digits)
      return std::nullopt;
    return code;
  }

  std::optional<std::string> quoted(char quote) {
    std::string text;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        text += text_[at_];
        continue;
      }
      ++at_;
      append_escaped(text);
    }
    failed_ = failed_ || at_ == text_.size();
    if (failed_) return std::nullopt;
    ++at_;
    return text;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

/// [f(p="…", q=1), g()]
std::vector<read_call> read_python(std::string_view block) {
  literals text(block);
  std::vector<read_call> calls;
  text.expect("[");
  while (!text.failed() && !text.take("]")) {
    if (!calls.empty()) text.expect(",");
    read_call call;
    call.name = text.name();
    text.expect("(");
    text.members("=", ")", call.arguments);
    calls.push_back(std::move(call));
  }
  if (text.failed() || !text.at_end()) calls.clear();
  return calls;
}

/// call:f{p:<|"|>…<|"|>,q:1}
std::vector<read_call> read_gemma(std::string_view block) {
  literals text(block);
  read_call call;
  text.expect("call:");
  call.name = text.name();
  text.expect("{");
  text.members(":", "}", call.arguments);
  if (text.failed() || !text.at_end()) return {};
  return {std::move(call)};
}

class literal_reader final : public call_reader {
 public:
  explicit literal_reader(call_syntax syntax) : syntax_(syntax) {}

  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    const std::string_view close = syntax_ == call_syntax::lfm2 ? "<|tool_call_end|>" : "<tool_call|>";
    const auto end = text.find(close, searched_);
    if (end == std::string::npos) {
      searched_ = text.size() - undecided_bytes(text, close);
      return outcome::wants_more;
    }
    const auto block = std::string_view(text).substr(0, end);
    const auto found = syntax_ == call_syntax::lfm2 ? read_python(block) : read_gemma(block);
    if (found.empty()) return outcome::no_call;
    for (const auto& call : found) {
      calls.begin(call.name, out);
      calls.arguments(call.arguments, out);
      calls.end(out);
    }
    text.erase(0, end + close.size());
    return outcome::ended;
  }

 private:
  const call_syntax syntax_;
  std::size_t searched_ = 0; ///< bytes that do not hold the closing marker
};

} // namespace

std::unique_ptr<call_reader> make_literal_call_reader(call_syntax syntax) {
  return std::make_unique<literal_reader>(syntax);
}

} // namespace paceline::wire
