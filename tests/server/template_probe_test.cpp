// What is found out about models by their published chat templates.
#include "server/template_probe.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace paceline::server {
namespace {

struct published {
  const char* file;
  call_syntax calls;
  bool shows_thoughts, is_switched;
};

class template_of : public ::testing::TestWithParam<published> {};

template_traits traits_of(const std::string& source) {
  const auto parsed = tokenizer::chat_template::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message();
  if (!parsed) return {};
  const tokenizer::special_spellings spellings{"<s>", "</s>", std::nullopt, std::nullopt};
  return probe_template(
      [&](boost::json::object asked) { return render_chat(*parsed, spellings, std::move(asked)); });
}

TEST_P(template_of, tells_the_syntax_of_calls_and_how_the_model_reasons) {
  std::ifstream file(std::string(PACELINE_SOURCE_DIR "/tests/fixtures/templates/") + GetParam().file);
  ASSERT_TRUE(file);
  const auto traits = traits_of({std::istreambuf_iterator<char>(file), {}});
  EXPECT_EQ(call_syntax_names[static_cast<std::size_t>(traits.calls)],
            call_syntax_names[static_cast<std::size_t>(GetParam().calls)]);
  EXPECT_EQ(traits.takes_tools, GetParam().calls != call_syntax::none);
  EXPECT_EQ(traits.shows_thoughts, GetParam().shows_thoughts);
  EXPECT_EQ(traits.reasoning.is_switched, GetParam().is_switched);
}

INSTANTIATE_TEST_SUITE_P(
    models, template_of,
    ::testing::Values(
        published{"Qwen-Qwen2.5-7B-Instruct.jinja", call_syntax::hermes, false, false},
        published{"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", call_syntax::hermes, false, false},
        published{"Qwen3-Coder.jinja", call_syntax::qwen3_coder, false, false},
        published{"GLM-4.7-Flash.jinja", call_syntax::glm, true, true},
        published{"meta-llama-Llama-3.2-3B-Instruct.jinja", call_syntax::llama3, false, false},
        published{"mistralai-Mistral-Nemo-Instruct-2407.jinja", call_syntax::mistral, false, false},
        published{"Mistral-Small-3.2-24B-Instruct-2506.jinja", call_syntax::mistral, false, false},
        published{"unsloth-mistral-Devstral-Small-2507.jinja", call_syntax::mistral, false, false},
        published{"LFM2.5-8B-A1B.jinja", call_syntax::lfm2, false, false},
        published{"google-gemma-4-31B-it.jinja", call_syntax::gemma4, false, true},
        published{"google-gemma-2-2b-it.jinja", call_syntax::none, false, false},
        published{"microsoft-Phi-3.5-mini-instruct.jinja", call_syntax::none, false, false}),
    [](const auto& named) {
      std::string name = named.param.file;
      name.resize(name.size() - 6);
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      return name;
    });

TEST(template_probe, a_template_that_always_refuses_tells_nothing) {
  const auto traits = traits_of("{{ raise_exception('no') }}");
  EXPECT_FALSE(traits.takes_tools || traits.reasoning.any || traits.shows_thoughts);
  EXPECT_EQ(traits.calls, call_syntax::none);
}

} // namespace
} // namespace paceline::server
