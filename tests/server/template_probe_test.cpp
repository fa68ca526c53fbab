// What is found out about models by their published chat templates.
#include "server/template_probe.hpp"

#include "protocol/wire/mistral_prompt.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace paceline::server {
namespace {

struct published {
  const char* file;
  call_syntax calls;
  const char* thoughts; ///< the marker that opens them
  bool is_switched;
};

class template_of : public ::testing::TestWithParam<published> {};

std::string source_of(const std::string& file) {
  std::ifstream text(PACELINE_SOURCE_DIR "/tests/fixtures/templates/" + file);
  EXPECT_TRUE(text) << file;
  return {std::istreambuf_iterator<char>(text), {}};
}

const tokenizer::special_spellings spellings{"<s>", "</s>", std::nullopt, std::nullopt};

template_traits traits_of(const std::string& source) {
  const auto parsed = tokenizer::chat_template::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message();
  if (!parsed) return {};
  return probe_template(
      [&](boost::json::object asked) { return render_chat(*parsed, spellings, std::move(asked)); });
}

TEST_P(template_of, tells_the_syntax_of_calls_and_how_the_model_reasons) {
  const auto traits = traits_of(source_of(GetParam().file));
  EXPECT_EQ(call_syntax_names[static_cast<std::size_t>(traits.calls)],
            call_syntax_names[static_cast<std::size_t>(GetParam().calls)]);
  EXPECT_EQ(traits.takes_tools, GetParam().calls != call_syntax::none);
  EXPECT_EQ(traits.thoughts.open, GetParam().thoughts);
  EXPECT_EQ(traits.reasoning.is_switched, GetParam().is_switched);
}

INSTANTIATE_TEST_SUITE_P(
    models, template_of,
    ::testing::Values(
        published{"Qwen-Qwen2.5-7B-Instruct.jinja", call_syntax::hermes, "", false},
        published{"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", call_syntax::hermes, "", false},
        published{"Qwen3-Coder.jinja", call_syntax::qwen3_coder, "", false},
        published{"GLM-4.7-Flash.jinja", call_syntax::glm, "<think>", true},
        published{"meta-llama-Llama-3.2-3B-Instruct.jinja", call_syntax::llama3, "", false},
        published{"mistralai-Mistral-Nemo-Instruct-2407.jinja", call_syntax::mistral, "", false},
        published{"Mistral-Small-3.2-24B-Instruct-2506.jinja", call_syntax::mistral, "", false},
        published{"unsloth-mistral-Devstral-Small-2507.jinja", call_syntax::mistral, "", false},
        published{"../templates_written/spaced_tool_lists.jinja", call_syntax::mistral, "", false},
        published{"../templates_written/thoughts_in_brackets.jinja", call_syntax::mistral, "[THINK]", false},
        published{"LFM2.5-8B-A1B.jinja", call_syntax::lfm2, "", false},
        published{"google-gemma-4-31B-it.jinja", call_syntax::gemma4, "", true},
        published{"google-gemma-2-2b-it.jinja", call_syntax::none, "", false},
        published{"microsoft-Phi-3.5-mini-instruct.jinja", call_syntax::none, "", false}),
    [](const auto& named) {
      std::string name = named.param.file;
      name.resize(name.size() - 6);
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

TEST(template_probe, a_template_that_always_refuses_tells_nothing) {
  const auto traits = traits_of("{{ raise_exception('no') }}");
  EXPECT_FALSE(traits.takes_tools || traits.reasoning.any || traits.thoughts);
  EXPECT_EQ(traits.calls, call_syntax::none);
}

TEST(template_probe, options_go_before_what_the_template_tells) {
  template_traits traits;
  traits.calls = call_syntax::hermes;
  traits.thoughts = wire::think_markers;
  const auto thoughts = [&](std::string_view calls, std::string_view reasoning) {
    return output_format_of(traits, calls, reasoning).reasoning.open;
  };
  EXPECT_EQ(output_format_of(traits, "auto", "auto").calls, call_syntax::hermes);
  EXPECT_EQ(output_format_of(traits, "mistral", "auto").calls, call_syntax::mistral);
  EXPECT_EQ(thoughts("auto", "auto"), "<think>");
  EXPECT_EQ(thoughts("auto", "mistral"), "[THINK]");
  EXPECT_EQ(thoughts("auto", "none"), "");
  EXPECT_EQ(thoughts("harmony", "think"), wire::harmony_markers.open);
  EXPECT_EQ(thoughts("harmony", "none"), "");
  traits.thoughts = {};
  EXPECT_EQ(thoughts("auto", "auto"), "");
  EXPECT_EQ(thoughts("auto", "think"), "<think>");
}

TEST(mistral_templates, render_the_ids_that_this_server_gives_to_calls) {
  const auto parsed =
      tokenizer::chat_template::parse(source_of("mistralai-Mistral-Nemo-Instruct-2407.jinja"));
  ASSERT_TRUE(parsed);
  auto talk = boost::json::parse(R"({"messages":[{"role":"user","content":"x"},{"role":"assistant",
    "tool_calls":[{"id":"call_00112233445566778899aabbccddeeff","type":"function",
                   "function":{"name":"f","arguments":{}}}]},
    {"role":"tool","content":"1","tool_call_id":"call_00112233445566778899aabbccddeeff"}]})")
                  .as_object();
  EXPECT_FALSE(render_chat(*parsed, spellings, talk)) << "no id of nine characters";
  wire::fit_to_mistral(talk);
  const auto text = render_chat(*parsed, spellings, talk);
  ASSERT_TRUE(text) << text.error().message();
  const std::string id(talk.at("messages").at(2).at("tool_call_id").as_string());
  EXPECT_NE(text->find(R"("id": ")" + id + '"'), std::string::npos) << *text;
  EXPECT_NE(text->find(R"("call_id": ")" + id + '"'), std::string::npos) << *text;
}

} // namespace
} // namespace paceline::server
