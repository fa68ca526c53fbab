// Calls whose arguments are between tags: Qwen3-Coder, GLM. Each argument is passed on when it is complete.
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_view.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/output/blanks.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace paceline::wire {

namespace {

using outcome = call_reader::outcome;

std::string_view trimmed(std::string_view text) {
  text = without_blanks(text);
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

/// The JSON of `text` if it is exactly one JSON value.
std::optional<std::string> as_json(std::string_view text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  const auto checked_text = "{\"v\":" + std::string(text) + "}";
  const auto checked = parse_object(checked_text, {checked_text.size(), 64});
  if (!checked || text.empty()) return std::nullopt;
  const auto value = (*checked->members().begin()).value.source();
  if (value.size() != text.size()) return std::nullopt; // several members
  return std::string(text);
}

/// The tags of a syntax. A name is between `name_begin` and `name_end`.
struct tags {
  std::span<const std::string_view> call_ends; ///< the first one is the call's own
  std::string_view name_begin, name_end, value_begin;
  std::span<const std::string_view> value_ends; ///< likewise the value's
  bool strips_line;                             ///< a value stands between two line breaks of its own
};
// Models leave out closing tags now and then. Then the tag that must come next ends the call or the value.
// For a value it must stand on a line of its own, as the templates write it, because files that a call writes
// may have such tags in them.
constexpr std::string_view qwen3_coder_call_ends[] = {"</function>", "</tool_call>", "<tool_call>",
                                                      function_tag};
constexpr std::string_view qwen3_coder_value_ends[] = {"</parameter>",
                                                       "\n<parameter=", "\n</function>\n</tool_call>"};
constexpr std::string_view glm_call_ends[] = {"</tool_call>", "<tool_call>"};
constexpr std::string_view glm_value_ends[] = {"</arg_value>"};
constexpr tags qwen3_coder_tags{qwen3_coder_call_ends, "<parameter=", ">", "", qwen3_coder_value_ends, true};
constexpr tags glm_tags{glm_call_ends, "<arg_key>", "</arg_key>", "<arg_value>", glm_value_ends, false};

class tagged_reader final : public call_reader {
 public:
  tagged_reader(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, bool begun)
      : syntax_(syntax), tags_(syntax == call_syntax::glm ? glm_tags : qwen3_coder_tags),
        tools_(std::move(tools)), begun_(begun) {}

  outcome read(std::string& text, call_writer& calls, output_items& out) override {
    if (state_ == state::name) {
      const auto found = read_name(text, calls, out);
      if (found != outcome::ended) return found;
      state_ = state::arguments;
    }
    while (state_ == state::arguments)
      if (!read_argument(text, calls, out)) return outcome::wants_more;
    const auto closed = take_closing_tag(text);
    if (closed == outcome::ended) text.insert(0, std::exchange(between_, {}));
    return closed;
  }

  /// Handles output that ends within a call. If it is cut, an open value becomes a text without an end, and
  /// the arguments stay open. If the model has ended it, they end there. Tags without a value become text of
  /// the answer.
  void finish(std::string& text, bool is_cut, call_writer& calls, output_items& out) override {
    if (state_ == state::arguments) {
      if (const auto found = find_argument(text)) {
        keep_between(text, *found);
        const auto value = std::string_view(text).substr(found->value);
        write_last(found->name, value.substr(0, first_marker(value, tags_.value_ends).begin), is_cut, calls,
                   out);
        text.clear();
      }
      if (!is_cut && num_arguments_ > 0) calls.arguments("}", out);
    }
    if (state_ == state::close) text.clear();
    text.insert(0, std::exchange(between_, {}));
  }

 private:
  enum class state : std::uint8_t { name, arguments, close };

  /// `ended` means that the name is complete.
  outcome read_name(std::string& text, call_writer& calls, output_items& out) {
    constexpr std::size_t longest_name = 512;
    std::string_view name;
    std::size_t end = 0;
    if (syntax_ == call_syntax::glm) {
      end = std::min(text.find(tags_.name_begin), text.find(tags_.call_ends.front()));
      name = trimmed(std::string_view(text).substr(0, end));
    } else {
      std::size_t begin = 0;
      if (!begun_) {
        begin = text.find_first_not_of(blanks);
        if (begin == std::string::npos) return outcome::wants_more;
        const auto rest = std::string_view(text).substr(begin);
        if (rest.substr(0, function_tag.size()) != function_tag.substr(0, rest.size()))
          return outcome::no_call;
        begin += function_tag.size();
      }
      end = text.find('>');
      if (end != std::string::npos) {
        name = trimmed(std::string_view(text).substr(begin, end - begin));
        ++end;
      }
    }
    if (end == std::string::npos) return text.size() < longest_name ? outcome::wants_more : outcome::no_call;
    if (name.empty() || end > longest_name) return outcome::no_call;
    if (begun_ && (!tools_ || !tools_->has(name))) return outcome::no_call;
    function_ = std::string(name);
    calls.begin(function_, out);
    text.erase(0, end);
    return outcome::ended;
  }

  /// Where the tags of an argument stand.
  struct argument {
    std::size_t tag;
    std::string_view name;
    std::size_t behind_name, value_tag, value;
  };
  /// The first argument, if its tags are complete up to its value.
  std::optional<argument> find_argument(std::string_view text) const {
    const auto tag = text.find(tags_.name_begin);
    if (tag == std::string_view::npos) return std::nullopt;
    const auto name = tag + tags_.name_begin.size();
    const auto name_end = text.find(tags_.name_end, name);
    if (name_end == std::string_view::npos) return std::nullopt;
    const auto behind_name = name_end + tags_.name_end.size();
    const auto value_tag = text.find(tags_.value_begin, behind_name);
    if (value_tag == std::string_view::npos) return std::nullopt;
    return argument{tag, trimmed(text.substr(name, name_end - name)), behind_name, value_tag,
                    value_tag + tags_.value_begin.size()};
  }

  /// Reads one argument, or the end of the call. False if more text is needed.
  bool read_argument(std::string& text, call_writer& calls, output_items& out) {
    const auto all = std::string_view(text);
    const auto call_end = first_marker(all.substr(0, all.find(tags_.name_begin)), tags_.call_ends);
    if (!call_end.marker.empty()) {
      keep_between(all.substr(0, call_end.begin));
      if (num_arguments_ > 0) calls.arguments("}", out);
      calls.end(out);
      const bool is_own = syntax_ != call_syntax::glm && call_end.marker == tags_.call_ends.front();
      text.erase(0, call_end.begin + (is_own ? call_end.marker.size() : 0));
      state_ = state::close;
      return true;
    }
    const auto found = find_argument(text);
    if (!found) return false;
    const auto from = std::max(found->value, searched_);
    const auto end = first_marker(all.substr(from), tags_.value_ends);
    if (end.marker.empty()) {
      searched_ = from + end.begin;
      return false;
    }
    searched_ = 0;
    keep_between(all, *found);
    write(found->name, all.substr(found->value, from + end.begin - found->value), calls, out);
    const bool is_own = end.marker == tags_.value_ends.front();
    text.erase(0, from + end.begin + (is_own ? end.marker.size() : 0));
    return true;
  }

  /// Keeps text that is neither a tag nor a value. It becomes text after the call.
  void keep_between(std::string_view text) {
    text = trimmed(text);
    if (!text.empty()) between_.append(between_.empty() ? "" : " ").append(text);
  }
  void keep_between(std::string_view text, const argument& found) {
    keep_between(text.substr(0, found.tag));
    keep_between(text.substr(found.behind_name, found.value_tag - found.behind_name));
  }

  std::string beginning_of(std::string_view name) {
    std::string json = num_arguments_++ == 0 ? "{" : ", ";
    append_json_string(json, name);
    return json += ": ";
  }

  /// Writes the value in which the output ends.
  void write_last(std::string_view name, std::string_view value, bool is_cut, call_writer& calls,
                  output_items& out) {
    if (!is_cut) return write(name, value, calls, out);
    if (tags_.strips_line && value.starts_with('\n')) value.remove_prefix(1);
    auto json = beginning_of(name);
    append_json_string(json, value);
    json.pop_back(); // the text has no end
    calls.arguments(json, out);
  }

  void write(std::string_view name, std::string_view value, call_writer& calls, output_items& out) {
    if (tags_.strips_line) {
      if (!value.empty() && value.front() == '\n') value.remove_prefix(1);
      if (!value.empty() && value.back() == '\n') value.remove_suffix(1);
    }
    auto json = beginning_of(name);
    using takes = tool_signatures::value;
    const auto wanted = tools_ ? tools_->values_of(function_, name) : takes::any;
    // Templates write null as JSON does, or as Python does.
    const bool is_null = trimmed(value) == "null" || trimmed(value) == "None";
    if (wanted == takes::text_or_null && is_null)
      json += "null";
    else if (const auto typed = wanted == takes::any ? as_json(trimmed(value)) : std::nullopt)
      json += *typed;
    else
      append_json_string(json, value);
    calls.arguments(json, out);
  }

  const call_syntax syntax_;
  const tags tags_;
  std::shared_ptr<const tool_signatures> tools_;
  const bool begun_; ///< the text begins with a function's name, behind `function_tag`
  state state_ = state::name;
  std::string function_;
  std::size_t num_arguments_ = 0;
  std::string between_;      ///< what stands between arguments and belongs to none
  std::size_t searched_ = 0; ///< bytes of the text in which an incomplete value does not end
};

} // namespace

std::unique_ptr<call_reader>
make_tagged_call_reader(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, bool begun) {
  return std::make_unique<tagged_reader>(syntax, std::move(tools), begun);
}

} // namespace paceline::wire
