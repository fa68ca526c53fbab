#include "tests/support/tiny_vocabulary.hpp"

#include "runtime/tokenizer/text/byte_alphabet.hpp"
#include "runtime/tokenizer/text/replace.hpp"

#include <string_view>

namespace paceline::test {

namespace {

using tokenizer::token_type;
using tokenizer::vocabulary_data;

token_id add(vocabulary_data& data, std::string spelling, token_type type, float score = 0) {
  data.tokens.push_back(std::move(spelling));
  data.types.push_back(type);
  data.scores.push_back(score);
  return token_id{static_cast<token_id::rep>(data.tokens.size() - 1)};
}

std::string byte_spelling(std::string_view bytes) {
  std::string out;
  tokenizer::append_byte_spelling(out, bytes);
  return out;
}

} // namespace

vocabulary_data make_vocabulary(const tiny_bpe& options) {
  vocabulary_data data;
  data.kind = tokenizer::vocabulary_kind::bpe;
  data.pre = options.pre;
  for (int byte = 0; byte < 256; ++byte)
    add(data, byte_spelling(std::string(1, static_cast<char>(byte))), token_type::normal);
  for (const auto& [left, right] : options.merges) {
    data.merges.emplace_back(byte_spelling(left), byte_spelling(right));
    add(data, byte_spelling(left + right), token_type::normal);
  }
  for (const auto& spelling : options.control) {
    const token_id id = add(data, spelling, token_type::control);
    if (!data.bos) data.bos = id;
    data.eos = id;
  }
  for (const auto& spelling : options.user_defined) add(data, spelling, token_type::user_defined);
  if (data.eos) data.eos_like = {*data.eos};
  data.scores.clear();
  return data;
}

vocabulary_data make_vocabulary(const tiny_spm& options) {
  vocabulary_data data;
  data.kind = tokenizer::vocabulary_kind::spm;
  data.unk = add(data, "<unk>", token_type::unknown);
  data.bos = add(data, "<s>", token_type::control);
  data.eos = add(data, "</s>", token_type::control);
  for (int byte = 0; byte < 256; ++byte)
    add(data, tokenizer::hex_byte_spelling(static_cast<std::uint8_t>(byte)), token_type::byte);
  for (const auto& [piece, score] : options.pieces) {
    std::string spelling;
    tokenizer::append_replaced(spelling, piece, " ", tokenizer::space_mark);
    add(data, std::move(spelling), token_type::normal, score);
  }
  for (const auto& spelling : options.control) add(data, spelling, token_type::control);
  data.eos_like = {*data.eos};
  return data;
}

} // namespace paceline::test
