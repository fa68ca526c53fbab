#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// Vocabularies of real models, with texts and the ids of their own tokenizers.
// deploy/tokenizer_vocabularies.sh downloads them into .cache/tokenizer_vocabularies; PACELINE_TOKENIZER_DIR
// names another directory.
namespace paceline::tokenizer {
namespace {

std::filesystem::path directory() {
  const char* named = std::getenv("PACELINE_TOKENIZER_DIR");
  return named != nullptr ? named : PACELINE_SOURCE_DIR "/.cache/tokenizer_vocabularies";
}

/// Files that come with texts.
std::vector<std::filesystem::path> vocabulary_files() {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(directory(), code))
    if (entry.path().extension() == ".gguf" && std::filesystem::exists(entry.path().string() + ".inp"))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::vector<std::string> split_texts(const std::string& all) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (std::size_t end = all.find(separator); end != all.npos; end = all.find(separator, begin)) {
    texts.push_back(all.substr(begin, end - begin));
    begin = end + separator.size();
  }
  if (begin < all.size()) texts.push_back(all.substr(begin)); // a separator may end the file
  return texts;
}

expected<vocabulary_data> read(const std::filesystem::path& path) {
  auto file = model::gguf_file::open(path);
  if (!file) return std::move(file).error();
  return model::read_gguf_vocabulary(file->metadata());
}

std::string composed(const std::string& text) {
  normalizer nfc;
  nfc.add(unicode_form::nfc);
  regex::scratch work;
  auto changed = nfc.apply(text, work);
  return changed ? *changed : text;
}

/// True if the normalizer changes the text. The ids of Qwen's files are those of the pattern without the
/// normalizer.
bool is_rewritten(const vocabulary_data& vocabulary, const std::string& text) {
  return vocabulary.kind == vocabulary_kind::bpe && find_bpe_family(vocabulary.pre)->composes &&
         composed(text) != text;
}

TEST(vocabulary_files, every_text_gives_the_ids_its_own_tokenizer_gives) {
  const auto files = vocabulary_files();
  if (files.empty()) GTEST_SKIP() << "no vocabularies in " << directory();
  for (const auto& path : files) {
    SCOPED_TRACE(path.filename().string());
    const auto vocabulary = read(path);
    ASSERT_TRUE(vocabulary) << vocabulary.error().message();
    const auto t = tokenizer::from_vocabulary(*vocabulary);
    ASSERT_TRUE(t) << t.error().message();
    const auto texts = split_texts(contents(path.string() + ".inp"));
    std::istringstream lines(contents(path.string() + ".out"));
    std::size_t num_ids = 0;
    std::size_t num_rewritten = 0;
    for (const auto& text : texts) {
      std::string line;
      ASSERT_TRUE(std::getline(lines, line));
      std::istringstream numbers(line);
      std::vector<token_id> expected_ids;
      for (int id = 0; numbers >> id;) expected_ids.emplace_back(id);
      const auto ids = t->encode(text, {.add_special = false, .parse_special = false});
      ASSERT_TRUE(ids) << ids.error().message();
      if (is_rewritten(*vocabulary, text)) {
        EXPECT_EQ(t->decode(*ids), composed(text));
        ++num_rewritten;
        continue;
      }
      EXPECT_EQ(*ids, expected_ids) << '"' << text << '"';
      EXPECT_EQ(t->decode(*ids), text);
      num_ids += ids->size();
    }
    EXPECT_LT(num_rewritten, texts.size() / 8);
    EXPECT_GT(num_ids, 100U) << "the file of texts is not what it should be";
  }
}

using strings = std::vector<std::string>;

/// The tokens that end a generation in the file called `name`. The result is empty if there is no such file.
strings ends_of(const std::string& name) {
  const auto path = directory() / ("ggml-vocab-" + name + ".gguf");
  if (!std::filesystem::exists(path)) return {};
  const auto vocabulary = read(path);
  EXPECT_TRUE(vocabulary) << name;
  const auto t = tokenizer::from_vocabulary(*vocabulary);
  EXPECT_TRUE(t) << name;
  strings ends;
  for (const token_id id : t->eos_like()) ends.emplace_back(t->spelling(id));
  return ends;
}

TEST(vocabulary_files, a_generation_ends_at_what_the_file_names_and_at_known_spellings) {
  if (vocabulary_files().empty()) GTEST_SKIP() << "no vocabularies in " << directory();
  EXPECT_EQ(ends_of("qwen2"), (strings{"<|endoftext|>", "<|im_end|>"}));
  EXPECT_EQ(ends_of("llama-bpe"), (strings{"<|end_of_text|>", "<|eot_id|>"}));
  EXPECT_EQ(ends_of("phi-3"), (strings{"<|endoftext|>", "<|end|>"}));
  EXPECT_EQ(ends_of("refact"), (strings{"<|endoftext|>", "<fim_pad>", "<reponame>"}));
  EXPECT_EQ(ends_of("gemma-4"), (strings{"<eos>", "<|tool_response>", "<turn|>"}))
      << "not </s>, which is HTML";
}

} // namespace
} // namespace paceline::tokenizer
