#include "tests/support/tiny_gguf_vocabulary.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::test {

namespace {

/// GPT-2's representation of bytes as printable characters, in UTF-8.
std::array<std::string, 256> byte_spellings() {
  std::array<std::string, 256> out;
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const std::uint32_t code = printable ? byte : next++;
    if (code < 0x80)
      out[byte] = static_cast<char>(code);
    else
      out[byte] = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  }
  return out;
}

struct vocabulary_lists {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  void add(std::string token, std::int32_t type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
  void fill(std::uint32_t size) {
    while (tokens.size() < size) add("<unused" + std::to_string(tokens.size()) + ">", 5);
  }
};

} // namespace

void set_bpe_vocabulary(gguf_builder& file, std::uint32_t size) {
  const auto bytes = byte_spellings();
  const std::vector<std::string> merges = {"t h",
                                           "th e",
                                           "i n",
                                           "a n",
                                           bytes[' '] + " the",
                                           "in g",
                                           "an d",
                                           bytes[' '] + " a",
                                           "o n",
                                           bytes[' '] + " and"};
  vocabulary_lists lists;
  for (const auto& byte : bytes) lists.add(byte, 1);
  for (auto merge : merges) lists.add(merge.erase(merge.find(' '), 1), 1);
  const auto special = static_cast<std::uint32_t>(lists.tokens.size());
  for (const auto* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) lists.add(token, 3);
  lists.fill(size);
  file.set_string("tokenizer.ggml.model", "gpt2").set_string("tokenizer.ggml.pre", "gpt-2");
  file.set_strings("tokenizer.ggml.tokens", lists.tokens)
      .set_int32s("tokenizer.ggml.token_type", lists.types);
  file.set_strings("tokenizer.ggml.merges", merges);
  file.set_uint32("tokenizer.ggml.bos_token_id", special)
      .set_uint32("tokenizer.ggml.eos_token_id", special + 2);
  file.set_bool("tokenizer.ggml.add_bos_token", false);
}

void set_spm_vocabulary(gguf_builder& file, std::uint32_t size) {
  vocabulary_lists lists;
  for (const auto* token : {"<pad>", "<eos>", "<bos>"}) lists.add(token, 3);
  lists.add("<unk>", 2);
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte)
    lists.add(std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", 6);
  for (const auto* token : {"<start_of_turn>", "<end_of_turn>"}) lists.add(token, 3);
  const std::string space = "\xe2\x96\x81";
  const std::vector<std::string> pieces = {space, "t", "h", "e", "th", "the", "a", "n", "an", space + "the"};
  for (const auto& piece : pieces) lists.add(piece, 1);
  lists.fill(size);
  std::vector<float> scores(lists.tokens.size());
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = -static_cast<float>(i);
  file.set_string("tokenizer.ggml.model", "llama").set_string("tokenizer.ggml.pre", "default");
  file.set_strings("tokenizer.ggml.tokens", lists.tokens).set_float32s("tokenizer.ggml.scores", scores);
  file.set_int32s("tokenizer.ggml.token_type", lists.types);
  file.set_uint32("tokenizer.ggml.bos_token_id", 2).set_uint32("tokenizer.ggml.eos_token_id", 1);
  file.set_uint32("tokenizer.ggml.unknown_token_id", 3).set_uint32("tokenizer.ggml.padding_token_id", 0);
  file.set_bool("tokenizer.ggml.add_bos_token", true).set_bool("tokenizer.ggml.add_space_prefix", false);
}

} // namespace paceline::test
