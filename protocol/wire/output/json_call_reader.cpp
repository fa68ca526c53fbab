// Calls whose body is JSON: Hermes, Llama 3, Mistral. Arguments are passed on while they arrive.
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_view.hpp"
#include "protocol/wire/output/call_reader.hpp"
#include "protocol/wire/output/json_value_scan.hpp"

#include "protocol/wire/output/blanks.hpp"
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

using outcome = call_reader::outcome;

/// Removes blanks and commas from the front.
std::string take_separators(std::string& text) {
  std::size_t count = 0;
  while (count < text.size() && (is_blank(text[count]) || text[count] == ',')) ++count;
  auto taken = text.substr(0, count);
  text.erase(0, count);
  return taken;
}

/// Reads {"name": "f", "arguments": {…}} character by character. Other members are skipped. Arguments that
/// precede the name are kept until the name is known.
class json_call {
 public:
  enum class progress : std::uint8_t { going, done, broken };

  /// If `known` is given, an object that names a function outside of it is not a call.
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
      // A long answer in JSON must be recognised as an answer before its end.
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

  /// Handles output that ends within the call: writes the part of the arguments that was not passed on.
  void cut(call_writer& calls, output_items& out) {
    if (state_ != state::value || !of_arguments_ || !begun_ || is_object_) return;
    calls.arguments(end_.in_string() ? beginning_of_text(value_) : written_arguments(value_), out);
  }

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
    // The value is an object before the name, or a string with the JSON text of an object.
    auto arguments = is_object_ ? std::exchange(value_, {}) : written_arguments(value_);
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

  /// The arguments for a value that is not an object: none, the content of a text, or the value as written.
  static std::string written_arguments(const std::string& json) {
    if (auto text = text_of(json)) return *std::move(text);
    const auto written = json.substr(0, json.find_last_not_of(" \n\r\t") + 1);
    return written == "null" ? "" : written;
  }

  /// The text of a truncated JSON string. A truncated escape is dropped.
  static std::string beginning_of_text(const std::string& json) {
    constexpr std::size_t longest_escape = 12; // two halves of a character
    for (std::size_t size = json.size(); size > 0 && size + longest_escape > json.size(); --size)
      if (auto text = text_of(json.substr(0, size) + '"')) return *std::move(text);
    return json;
  }

  static std::optional<std::string> text_of(const std::string& json) {
    const auto size = json.find_last_not_of(" \n\r\t") + 1;
    if (size < 2 || json.front() != '"' || json[size - 1] != '"') return std::nullopt;
    // Views accept only checked JSON, but a model may write any escape.
    const auto text = "{\"v\":" + json.substr(0, size) + "}";
    const auto checked = parse_object(text);
    return checked ? (*checked->members().begin()).value.string() : std::nullopt;
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

/// Feeds `call` from the front of `text`. Removes nothing before the call has begun.
json_call::progress feed(json_call& call, std::string& text, std::size_t& num_read, call_writer& calls,
                         output_items& out) {
  auto progress = json_call::progress::going;
  while (num_read < text.size() && progress == json_call::progress::going)
    progress = call.feed(text[num_read++], calls, out);
  if (!call.begun()) return progress;
  // A character that breaks the call is not part of it: it may begin the closing tag.
  text.erase(0, progress == json_call::progress::broken ? num_read - 1 : num_read);
  num_read = 0;
  if (progress == json_call::progress::broken) calls.end(out);
  return progress;
}

/// Reads calls after <tool_call>. The closing tag may be missing.
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
  void finish(std::string& text, bool /*is_cut*/, call_writer& calls, output_items& out) override {
    call_.cut(calls, out);
    text.clear();
  }

 private:
  json_call call_;
  std::size_t num_read_ = 0; ///< bytes of the text that the call has seen
  bool done_ = false;
};

/// Reads a call that consists of the object alone. The function must exist, because an answer in JSON must
/// not be taken for a call.
class bare_reader final : public call_reader {
 public:
  bare_reader(std::shared_ptr<const tool_signatures> tools, bool fenced)
      : tools_(std::move(tools)), call_(tools_.get()), fenced_(fenced) {}
  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    if (!done_) {
      const auto progress = feed(call_, text, num_read_, calls, out);
      if (progress == json_call::progress::going) return outcome::wants_more;
      if (!call_.begun()) return outcome::no_call;
      done_ = true;
    }
    // A model that leaves out the opening tag may write the closing one.
    return fenced_ ? take_closing_tag(text, "```") : take_closing_tag(text);
  }
  void finish(std::string& text, bool /*is_cut*/, call_writer& calls, output_items& out) override {
    call_.cut(calls, out);
    text.clear();
  }

 private:
  std::shared_ptr<const tool_signatures> tools_;
  json_call call_;
  bool fenced_;
  std::size_t num_read_ = 0;
  bool done_ = false;
};

/// Reads what follows [TOOL_CALLS]: a list of objects, or a name followed by its arguments.
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
  void give_back(std::string& text) override { text.insert(0, before_); }
  void finish(std::string& text, bool /*is_cut*/, call_writer& calls, output_items& out) override {
    if (call_) call_->cut(calls, out);
    text.clear();
  }

 private:
  enum class form : std::uint8_t { unknown, list, name, arguments };

  outcome read_list(std::string& text, call_writer& calls, output_items& out) {
    for (;;) {
      if (!call_) {
        const auto separators = take_separators(text);
        if (!any_) before_ += separators;
        if (text.empty()) return outcome::wants_more;
        if (text.front() != '{') {
          const bool closed = text.front() == ']';
          if (!any_) return no_list(text);
          if (closed) text.erase(0, 1);
          return outcome::ended;
        }
        call_.emplace();
        num_read_ = 0;
      }
      const auto progress = feed(*call_, text, num_read_, calls, out);
      if (progress == json_call::progress::going) return outcome::wants_more;
      if (!call_->begun()) return any_ ? outcome::ended : no_list(text);
      any_ = true;
      call_.reset();
    }
  }

  static constexpr std::size_t longest_name = 512;

  /// The name in front of the arguments, "f", "f[ARGS]" or "f[CALL_ID]123[ARGS]". It is empty if the text has
  /// none of these forms.
  static std::string name_of(std::string_view text) {
    const auto take_word = [&] {
      while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
      const auto word = text.substr(0, text.find_first_of(" \n\r\t["));
      text.remove_prefix(word.size());
      while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
      return word;
    };
    const auto take = [&](std::string_view mark) {
      if (!text.starts_with(mark)) return false;
      text.remove_prefix(mark.size());
      return true;
    };
    const auto name = take_word();
    if (take("[CALL_ID]")) take_word();
    take("[ARGS]");
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    return text.empty() ? std::string(name) : "";
  }

  outcome no_list(std::string& text) {
    give_back(text);
    return outcome::no_call;
  }

  outcome read_named(std::string& text, call_writer& calls, output_items& out) {
    if (form_ == form::name) {
      const auto begin = text.find('{');
      if (begin == std::string::npos && text.size() < longest_name) return outcome::wants_more;
      if (begin >= longest_name) return outcome::no_call;
      const auto name = name_of(std::string_view(text).substr(0, begin));
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
  value_end end_; ///< finds the end of arguments that follow a name
};

} // namespace

std::unique_ptr<call_reader> make_json_call_reader(call_syntax syntax) {
  if (syntax == call_syntax::mistral) return std::make_unique<mistral_reader>();
  return std::make_unique<hermes_reader>();
}

std::unique_ptr<call_reader> make_bare_call_reader(std::shared_ptr<const tool_signatures> tools,
                                                   bool fenced) {
  return std::make_unique<bare_reader>(std::move(tools), fenced);
}

} // namespace paceline::wire
