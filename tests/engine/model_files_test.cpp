// Errors of tokenizers and chat templates name the model's file.
#include "engine/model_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <boost/json/object.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>

namespace paceline::model_files_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class model_files : public ::testing::Test {
 protected:
  /// The tiny GGUF model with `key` as given.
  model::model_source gguf(std::string_view key, std::string_view value) {
    test::make_tiny_gguf({}).set_string(key, value).write(folder_ / "x.gguf");
    return model::open_model(folder_ / "x.gguf").value();
  }

  model::model_source directory() {
    test::write_tiny_hf({.arch = model::architecture::qwen3}, folder_ / "hf");
    return model::open_model(folder_ / "hf").value();
  }

  test::scratch_folder folder_;
};

TEST_F(model_files, a_vocabulary_that_cannot_be_used_names_the_file) {
  const auto made = make_tokenizer(gguf("tokenizer.ggml.pre", "unknown"));
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message(), StartsWith((folder_ / "x.gguf: ").string()));
}

TEST_F(model_files, a_directory_without_a_tokenizer_is_named) {
  EXPECT_EQ(make_tokenizer(directory()).error(),
            error(errc::invalid_file, (folder_ / "hf: the model has no tokenizer").string()));
}

TEST_F(model_files, a_pipe_is_no_tokenizer) {
  std::filesystem::create_directory(folder_ / "hf");
  const auto path = folder_ / "hf/tokenizer.json";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(make_tokenizer(directory()).error(),
            error(errc::invalid_file, path.string() + ": is a pipe, not a file"));
}

TEST_F(model_files, a_template_of_the_model_that_cannot_be_parsed_names_the_file) {
  const auto source = gguf("tokenizer.chat_template", "{% if %}");
  const auto made = chat_template_of(source, "");
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message(), StartsWith((folder_ / "x.gguf: chat template:1: ").string()));
  EXPECT_TRUE(chat_template_of(source, "chatml").value().has_value()) << "a configured one takes its place";
}

TEST_F(model_files, clients_do_not_see_the_path_of_the_model) {
  const auto made = chat_template_of(gguf("tokenizer.chat_template", "{{ raise_exception('no') }}"), "");
  const auto rendered = made.value()->render(boost::json::object{});
  ASSERT_FALSE(rendered.has_value());
  EXPECT_THAT(rendered.error().message(), HasSubstr("no"));
  EXPECT_THAT(rendered.error().message(), Not(HasSubstr(folder_.path().string())));
}

} // namespace
} // namespace paceline::model_files_test
