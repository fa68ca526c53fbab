// Calls whose body is JSON: Hermes, Llama 3, Mistral. Arguments are passed on as they arrive.
#include "protocol/wire/json_view.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

using outcome = call_reader::outcome;

bool is_blank(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Drops blanks, and `separator`, from the front.
void skip(std::string& text, char separator = ' ') {
  std::size_t count = 0;
  while (count < text.size() && (is_blank(text[count]) || text[count] == separator)) ++count;
  text.erase(0, count);
}

/// Follows the nesting of one JSON value to its end.
class value_end {
 public:
  /// False if `c` is no longer part of the value, which only a number or a word shows.
  bool takes(char c) noexcept {
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
      complete_ = !in_string_ && depth_ == 0;
      return true;
    }
    if (depth_ == 0 && (c == ',' || c == '}' || c == ']')) return false;
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') complete_ = --depth_ == 0;
    return true;
  }
  bool complete() const noexcept { return complete_; }
  bool in_string() const noexcept { return in_string_; }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool complete_ = false;
};

/// A character as it may stand in JSON: models write line breaks into strings.
void add_json(std::string& out, char c, bool in_string) {
  if (!in_string || static_cast<unsigned char>(c) >= 0x20) {
    out += c;
    return;
  }
  std::array<char, 8> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : escape.data();
}

/// {"name": "f", "arguments": {…}}, read character by character. Other members are skipped. Arguments that
/// come before the name wait for it.
class json_call {
 public:
  enum class progress : std::uint8_t { going, done, broken };

  /// `known`: where given, a function that is not among them makes the object no call.
  explicit json_call(const tool_signatures* known = nullptr) : known_(known) {}

  progress feed(char c, call_writer& calls, output_items& out) {
    switch (state_) {
    case state::before:
      if (is_blank(c)) return progress::going;
      if (c != '{') return progress::broken;
      state_ = state::members;
      return progress::going;
    case state::members:
      if (is_blank(c) || c == ',') return progress::going;
      if (c == '}') return finish(calls, out);
      if (c != '"') return progress::broken;
      key_.clear();
      state_ = state::key;
      return progress::going;
    case state::key:
      if (c != '"') {
        key_ += c;
        return progress::going;
      }
      state_ = state::colon;
      // A long answer in JSON must not wait for its end to be told from a call.
      return known_ != nullptr && !begun_ && !is_of_call(key_) ? progress::broken : progress::going;
    case state::colon:
      if (is_blank(c)) return progress::going;
      if (c != ':') return progress::broken;
      state_ = state::value_begins;
      return progress::going;
    case state::value_begins:
      if (is_blank(c)) return progress::going;
      begin_value(c);
      [[fallthrough]];
    case state::value:
      return feed_value(c, calls, out);
    }
    return progress::broken;
  }

  bool begun() const noexcept { return begun_; }

 private:
  enum class state : std::uint8_t { before, members, key, colon, value_begins, value };

  static bool is_of_call(std::string_view key) noexcept {
    return key == "name" || key == "arguments" || key == "parameters" || key == "type" || key == "id";
  }

  void begin_value(char c) {
    state_ = state::value;
    value_.clear();
    end_ = {};
    of_arguments_ = key_ == "arguments" || key_ == "parameters";
    is_object_ = c == '{';
  }

  progress feed_value(char c, call_writer& calls, output_items& out) {
    const bool in_string = end_.in_string();
    if (!end_.takes(c)) {
      state_ = state::members;
      const auto ended = end_value(calls, out);
      return ended == progress::broken ? ended : feed(c, calls, out);
    }
    if (of_arguments_ && is_object_ && begun_) {
      std::string piece;
      add_json(piece, c, in_string);
      calls.arguments(piece, out);
    } else {
      add_json(value_, c, in_string);
    }
    if (!end_.complete()) return progress::going;
    state_ = state::members;
    return end_value(calls, out);
  }

  progress end_value(call_writer& calls, output_items& out) {
    if (key_ == "name" && !begun_) {
      const auto name = text_of(value_);
      if (!name || name->empty() || (known_ != nullptr && !known_->has(*name))) return progress::broken;
      begun_ = true;
      calls.begin(*name, out);
      calls.arguments(std::exchange(waiting_, {}), out);
      return progress::going;
    }
    if (!of_arguments_ || (is_object_ && begun_)) return progress::going;
    // An object before the name, or the JSON text of one, as a string.
    auto arguments = is_object_ ? std::exchange(value_, {}) : text_of(value_).value_or("");
    if (!begun_)
      waiting_ = std::move(arguments);
    else
      calls.arguments(arguments, out);
    return progress::going;
  }

  progress finish(call_writer& calls, output_items& out) {
    if (!begun_) return progress::broken;
    calls.end(out);
    return progress::done;
  }

  static std::optional<std::string> text_of(const std::string& json) {
    const auto size = json.find_last_not_of(" \n\r\t") + 1;
    if (size < 2 || json.front() != '"' || json[size - 1] != '"') return std::nullopt;
    return json_view(std::string_view(json).substr(0, size)).string();
  }

  const tool_signatures* known_;
  state state_ = state::before;
  std::string key_;
  std::string value_; ///< unless it is passed on as it arrives
  std::string waiting_;
  value_end end_;
  bool of_arguments_ = false;
  bool is_object_ = false;
  bool begun_ = false;
};

/// Feeds `call` from the front of `text`; takes nothing away before the call has begun.
json_call::progress feed(json_call& call, std::string& text, std::size_t& num_read, call_writer& calls,
                         output_items& out) {
  auto progress = json_call::progress::going;
  while (num_read < text.size() && progress == json_call::progress::going)
    progress = call.feed(text[num_read++], calls, out);
  if (!call.begun()) return progress;
  text.erase(0, num_read);
  num_read = 0;
  if (progress == json_call::progress::broken) calls.end(out);
  return progress;
}

/// Behind <tool_call>; the closing tag may be missing.
class hermes_reader final : public call_reader {
 public:
  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    if (!done_) {
      const auto progress = feed(call_, text, num_read_, calls, out);
      if (progress == json_call::progress::going) return outcome::wants_more;
      if (!call_.begun()) return outcome::no_call;
      done_ = true;
    }
    return take_closing_tag(text);
  }

 private:
  json_call call_;
  std::size_t num_read_ = 0; ///< bytes of the text that the call has seen
  bool done_ = false;
};

/// The object itself is the call. An answer in JSON must not be taken for one, so the function must exist.
class bare_reader final : public call_reader {
 public:
  explicit bare_reader(std::shared_ptr<const tool_signatures> tools)
      : tools_(std::move(tools)), call_(tools_.get()) {}
  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    const auto progress = feed(call_, text, num_read_, calls, out);
    if (progress == json_call::progress::going) return outcome::wants_more;
    return call_.begun() ? outcome::ended : outcome::no_call;
  }

 private:
  std::shared_ptr<const tool_signatures> tools_;
  json_call call_;
  std::size_t num_read_ = 0;
};

/// Behind [TOOL_CALLS]: a list of objects, or a name followed by its arguments.
class mistral_reader final : public call_reader {
 public:
  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    if (form_ == form::unknown) {
      const auto first = text.find_first_not_of(" \n\r\t");
      if (first == std::string::npos) return outcome::wants_more;
      form_ = text[first] == '[' ? form::list : form::name;
      if (form_ == form::list) before_.assign(text, 0, first + 1);
      if (form_ == form::list) text.erase(0, first + 1);
    }
    return form_ == form::list ? read_list(text, calls, out) : read_named(text, calls, out);
  }

 private:
  enum class form : std::uint8_t { unknown, list, name, arguments };

  outcome read_list(std::string& text, call_writer& calls, output_items& out) {
    for (;;) {
      if (!call_) {
        skip(text, ',');
        if (text.empty()) return outcome::wants_more;
        if (text.front() != '{') {
          const bool closed = text.front() == ']';
          if (!any_) return give_back(text);
          if (closed) text.erase(0, 1);
          return outcome::ended;
        }
        call_.emplace();
        num_read_ = 0;
      }
      const auto progress = feed(*call_, text, num_read_, calls, out);
      if (progress == json_call::progress::going) return outcome::wants_more;
      if (!call_->begun()) return any_ ? outcome::ended : give_back(text);
      any_ = true;
      call_.reset();
    }
  }

  outcome give_back(std::string& text) {
    text.insert(0, before_);
    return outcome::no_call;
  }

  outcome read_named(std::string& text, call_writer& calls, output_items& out) {
    if (form_ == form::name) {
      const auto begin = text.find('{');
      if (begin == std::string::npos) return text.size() < 512 ? outcome::wants_more : outcome::no_call;
      auto name = text.substr(0, std::min(text.find('['), begin)); // before [CALL_ID] or [ARGS]
      skip(name);
      while (!name.empty() && is_blank(name.back())) name.pop_back();
      if (name.empty()) return outcome::no_call;
      calls.begin(name, out);
      text.erase(0, begin);
      form_ = form::arguments;
    }
    std::string piece;
    std::size_t count = 0;
    while (count < text.size() && !end_.complete()) {
      const bool in_string = end_.in_string();
      end_.takes(text[count]);
      add_json(piece, text[count++], in_string);
    }
    calls.arguments(piece, out);
    text.erase(0, count);
    if (!end_.complete()) return outcome::wants_more;
    calls.end(out);
    return outcome::ended;
  }

  form form_ = form::unknown;
  std::optional<json_call> call_; ///< of a list
  std::size_t num_read_ = 0;
  std::string before_;
  bool any_ = false;
  value_end end_; ///< of arguments behind a name
};

} // namespace

std::unique_ptr<call_reader> make_json_call_reader(call_syntax syntax) {
  if (syntax == call_syntax::mistral) return std::make_unique<mistral_reader>();
  return std::make_unique<hermes_reader>();
}

std::unique_ptr<call_reader> make_bare_call_reader(std::shared_ptr<const tool_signatures> tools) {
  return std::make_unique<bare_reader>(std::move(tools));
}

} // namespace paceline::wire
