#include "output_reading.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_view.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <random>
#include <set>

namespace paceline::wire {
namespace {

using test::bytes_of;
using test::read;
using test::told;

const call_syntax syntaxes[] = {call_syntax::hermes, call_syntax::qwen3_coder, call_syntax::glm,
                                call_syntax::llama3, call_syntax::mistral,     call_syntax::lfm2,
                                call_syntax::gemma4, call_syntax::harmony};

/// The number of outputs to test. It is small in a build's tests; PACELINE_FUZZ_RUNS sets another number.
int num_runs() {
  const char* wanted = std::getenv("PACELINE_FUZZ_RUNS");
  return wanted != nullptr ? std::atoi(wanted) : 300;
}

output_plan plan_of(call_syntax calls) {
  static const auto tools = std::make_shared<const tool_signatures>(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"s":{"type":"string"}}}}},)"
      R"({"type":"function","function":{"name":"g"}}])");
  output_plan plan;
  plan.calls = calls;
  plan.tools = tools;
  plan.in_harmony = calls == call_syntax::harmony;
  plan.reasoning = plan.in_harmony ? harmony_markers : think_markers;
  return plan;
}

/// Makes a model's outputs from words that are all different, so that a lost word is noticed.
class writer {
 public:
  writer(call_syntax syntax, std::uint32_t seed) : syntax_(syntax), random_(seed) {}

  std::string output() {
    std::string text;
    if (syntax_ == call_syntax::harmony) return harmony();
    if (one_of(3) == 0) text += "<think>" + prose() + "</think>\n\n";
    const bool bare = syntax_ == call_syntax::llama3;
    if (!bare && one_of(2) == 0) text += prose() + "\n";
    for (auto count = one_of(4); count > 0; --count) {
      text += call();
      if (bare && count > 1) text += "; ";
      if (!bare && one_of(3) == 0) text += "\n" + prose();
    }
    return text;
  }

  const std::vector<std::string>& words() const { return words_; }
  std::size_t num_calls() const { return num_calls_; }
  std::size_t one_of(std::size_t count) { return random_() % count; }

  /// `text` with some of its bytes dropped, doubled, moved, or replaced by what readers look for.
  std::string damaged(std::string text) {
    static const char* const pieces[] = {"<tool_call>",
                                         "</tool_call>",
                                         "<function=f>",
                                         "</function>",
                                         "<parameter=s>",
                                         "</parameter>",
                                         "<arg_key>",
                                         "</arg_key>",
                                         "<arg_value>",
                                         "</arg_value>",
                                         "[TOOL_CALLS]",
                                         "[ARGS]",
                                         "<|tool_call_start|>",
                                         "<|tool_call_end|>",
                                         "<|tool_call>",
                                         "<tool_call|>",
                                         "```",
                                         "```json\n",
                                         "<|python_tag|>",
                                         "<|\"|>",
                                         "<think>",
                                         "</think>",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         "\\",
                                         "'",
                                         ",",
                                         ":",
                                         ";",
                                         "(",
                                         ")",
                                         "=",
                                         "\n",
                                         " ",
                                         "\\u00e4",
                                         "\\ud800",
                                         "\xc3\xa4",
                                         "null",
                                         "1e5",
                                         "<|channel|>",
                                         "<|message|>",
                                         "<|start|>",
                                         "<|end|>",
                                         "<|call|>",
                                         "<|return|>",
                                         "<|constrain|>",
                                         " to=functions.f",
                                         "analysis",
                                         "final",
                                         "\"name\"",
                                         "\"arguments\"",
                                         "call:f{"};
    for (auto count = 1 + one_of(4); count > 0 && !text.empty(); --count) {
      const auto at = one_of(text.size());
      switch (one_of(4)) {
      case 0:
        text.erase(at, 1 + one_of(12));
        break;
      case 1:
        text.insert(at, text.substr(one_of(text.size()), 1 + one_of(24)));
        break;
      case 2:
        text.insert(at, pieces[one_of(std::size(pieces))]);
        break;
      default:
        text.resize(at);
      }
    }
    return text;
  }

 private:
  std::string word() {
    words_.push_back("w" + std::to_string(words_.size()) + "q");
    return words_.back();
  }
  std::string prose() {
    std::string text = word();
    for (auto count = one_of(4); count > 0; --count) text += (one_of(4) == 0 ? ".\n" : " ") + word();
    return text;
  }

  /// The text of an argument, with what may confuse a reader.
  std::string content() {
    static const char* const parts[] = {"{", "}", "[", "]", "\xc3\xa4", ", ", ": ", "; ",
                                        "(", ")", "=", "'", "\"",       "\\", "\n"};
    std::string text = word();
    for (auto count = one_of(5); count > 0; --count) text += parts[one_of(std::size(parts))] + word();
    if (one_of(6) == 0 && closing_tag_may_stand_in_text()) text += closing_tag();
    return text;
  }

  bool closing_tag_may_stand_in_text() const {
    return syntax_ == call_syntax::hermes || syntax_ == call_syntax::mistral ||
           syntax_ == call_syntax::llama3 || syntax_ == call_syntax::harmony;
  }
  std::string closing_tag() const {
    return syntax_ == call_syntax::harmony   ? "<|call|>"
           : syntax_ == call_syntax::mistral ? "[TOOL_CALLS]"
                                             : "</tool_call>";
  }

  static std::string quoted(const std::string& text, char quote) {
    std::string out(1, quote);
    for (const char c : text) {
      if (c == quote || c == '\\') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    return out + quote;
  }

  std::string json_value(int depth = 0) {
    switch (one_of(depth < 3 ? 6 : 4)) {
    case 0:
      return "-1.5e3";
    case 1:
      return one_of(2) == 0 ? "true" : "null";
    case 4: {
      std::string out = "[";
      for (auto i = one_of(3); i > 0; --i) out += (out.size() > 1 ? ", " : "") + json_value(depth + 1);
      return out + "]";
    }
    case 5:
      return json_object(depth + 1);
    default:
      return quoted(content(), '"');
    }
  }
  std::string json_object(int depth = 0) {
    std::string out = "{";
    for (auto i = one_of(4); i > 0; --i)
      out += (out.size() > 1 ? ", " : "") + quoted(word(), '"') + (one_of(2) == 0 ? ": " : ":") +
             json_value(depth + 1);
    return out + "}";
  }

  std::string literal(char quote) {
    if (one_of(4) == 0) return one_of(2) == 0 ? "3" : "None";
    return quote == '"' && syntax_ == call_syntax::gemma4 ? "<|\"|>" + content() + "<|\"|>"
                                                          : quoted(content(), quote);
  }

  std::string call() {
    ++num_calls_;
    const std::string name = one_of(2) == 0 ? "f" : "g";
    std::string out;
    switch (syntax_) {
    case call_syntax::hermes:
      return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + json_object() + "}\n</tool_call>";
    case call_syntax::llama3:
      return "{\"name\": \"" + name + "\", \"parameters\": " + json_object() + "}";
    case call_syntax::mistral:
      return one_of(2) == 0
                 ? "[TOOL_CALLS]" + name + "[ARGS]" + json_object()
                 : "[TOOL_CALLS][{\"name\": \"" + name + "\", \"arguments\": " + json_object() + "}]";
    case call_syntax::qwen3_coder:
      for (auto i = one_of(4); i > 0; --i)
        out +=
            "<parameter=" + (one_of(3) == 0 ? "s" + word() : word()) + ">\n" + content() + "\n</parameter>\n";
      return (one_of(4) == 0 ? "<function=" : "<tool_call>\n<function=") + name + ">\n" + out +
             "</function>\n</tool_call>";
    case call_syntax::glm:
      for (auto i = one_of(4); i > 0; --i)
        out += "<arg_key>" + word() + "</arg_key>\n<arg_value>" + content() + "</arg_value>\n";
      return "<tool_call>" + name + "\n" + out + "</tool_call>";
    case call_syntax::lfm2:
      for (auto i = one_of(4); i > 0; --i)
        out += (out.empty() ? "" : ", ") + word() + "=" + literal(one_of(2) == 0 ? '"' : '\'');
      return "<|tool_call_start|>[" + name + "(" + out + ")]<|tool_call_end|>";
    case call_syntax::gemma4:
      for (auto i = one_of(4); i > 0; --i) out += (out.empty() ? "" : ",") + word() + ":" + literal('"');
      return "<|tool_call>call:" + name + "{" + out + "}<tool_call|>";
    default:
      return {};
    }
  }

  std::string harmony() {
    std::string text;
    for (auto count = 1 + one_of(4); count > 0; --count) {
      if (!text.empty()) text += "<|start|>assistant";
      switch (one_of(4)) {
      case 0:
        text += "<|channel|>analysis<|message|>" + prose() + "<|end|>";
        break;
      case 1:
        text += "<|channel|>commentary<|message|>" + prose() + "<|end|>";
        break;
      case 2:
        ++num_calls_;
        text += one_of(2) == 0 ? "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
                               : " to=functions.f<|channel|>commentary<|message|>";
        text += json_object() + "<|call|>";
        break;
      default:
        text += "<|channel|>final<|message|>" + prose() + "<|return|>";
      }
    }
    return text;
  }

  const call_syntax syntax_;
  std::mt19937 random_;
  std::vector<std::string> words_;
  std::size_t num_calls_ = 0;
};

std::vector<std::string> random_parts(const std::string& text, writer& random) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = 1 + random.one_of(random.one_of(2) == 0 ? 4 : 40);
    parts.push_back(text.substr(at, size));
    at += size;
  }
  return parts;
}

/// Names of calls and their arguments in order; an argument list that has not ended has no "}" behind it.
std::vector<std::string> arguments_of(const output_items& items) {
  std::vector<std::string> out;
  for (const auto& item : items) {
    if (item.what == output_item::kind::call_begin) out.emplace_back();
    if (item.what == output_item::kind::call_arguments) out.back() += item.text;
  }
  return out;
}

TEST(output_fuzz, all_that_a_model_writes_arrives) {
  for (const auto syntax : syntaxes)
    for (int run = 0; run < num_runs(); ++run) {
      writer model(syntax, static_cast<std::uint32_t>(run));
      const auto text = model.output();
      const auto items = read(plan_of(syntax), random_parts(text, model));
      const auto shown = told(items);
      const auto arguments = arguments_of(items);
      ASSERT_EQ(arguments.size(), model.num_calls())
          << call_syntax_names[static_cast<std::size_t>(syntax)] << "\n"
          << text << "\n"
          << shown;
      for (const auto& one : arguments) ASSERT_TRUE(parse_object(one)) << text << "\n" << one;
      for (const auto& word : model.words())
        ASSERT_NE(shown.find(word), std::string::npos) << word << " of\n" << text << "\n" << shown;
    }
}

TEST(output_fuzz, damaged_outputs_are_the_same_in_all_parts_and_lose_no_text) {
  for (const auto syntax : syntaxes)
    for (int run = 0; run < num_runs(); ++run) {
      writer model(syntax, static_cast<std::uint32_t>(run));
      auto text = model.output();
      text = model.damaged(std::move(text));
      const auto plan = plan_of(syntax);
      const auto whole = read(plan, {text});
      ASSERT_EQ(told(read(plan, bytes_of(text))), told(whole)) << text;
      ASSERT_EQ(told(read(plan, random_parts(text, model))), told(whole)) << text;
      const auto shown = told(whole);
      // Members of a call in JSON that are neither its name nor its arguments are dropped. A damaged one may
      // be all of the rest.
      const bool is_json =
          syntax == call_syntax::hermes || syntax == call_syntax::llama3 || syntax == call_syntax::mistral;
      const auto certain = is_json ? text.find('{') : text.size();
      for (const auto& word : model.words()) {
        if (text.find(word) >= certain) continue;
        ASSERT_NE(shown.find(word), std::string::npos)
            << call_syntax_names[static_cast<std::size_t>(syntax)] << " lost " << word << " of\n"
            << text << "\n"
            << shown;
      }
    }
}

/// Arguments that are not passed on while they arrive are JSON, whatever the model wrote.
TEST(output_fuzz, arguments_between_tags_and_literals_are_json) {
  for (const auto syntax :
       {call_syntax::qwen3_coder, call_syntax::glm, call_syntax::lfm2, call_syntax::gemma4})
    for (int run = 0; run < num_runs(); ++run) {
      writer model(syntax, static_cast<std::uint32_t>(run));
      auto text = model.output();
      text = model.damaged(std::move(text));
      auto all = arguments_of(read(plan_of(syntax), {text}));
      if (!all.empty() && all.back().empty()) all.pop_back(); // cut in front of its arguments
      if (all.empty()) continue;
      for (const auto* end : {"}", "\"}"}) // cut between two arguments, or in the last one
        if (parse_object(all.back() + end)) all.back() += end;
      for (const auto& one : all) ASSERT_TRUE(parse_object(one)) << text << "\n" << one;
    }
}

} // namespace
} // namespace paceline::wire
