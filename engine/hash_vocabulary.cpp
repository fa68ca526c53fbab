#include "engine/hash_vocabulary.hpp"

#include "runtime/tokenizer/text/byte_alphabet.hpp"

namespace paceline {

tokenizer::vocabulary_data hash_vocabulary(std::uint32_t vocab_size) {
  using tokenizer::token_type;
  tokenizer::vocabulary_data data;
  data.kind = tokenizer::vocabulary_kind::bpe;
  data.pre = "gpt-2";
  const auto add = [&](std::string spelling, token_type type) {
    data.tokens.push_back(std::move(spelling));
    data.types.push_back(type);
    return token_id{static_cast<std::int32_t>(data.tokens.size() - 1)};
  };
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    tokenizer::append_byte_spelling(spelling, std::string(1, static_cast<char>(byte)));
    add(std::move(spelling), token_type::normal);
  }
  data.bos = add("<bos>", token_type::control);
  data.eos = add("<eos>", token_type::control);
  data.eos_like = {*data.eos};
  data.add_bos = true;
  for (std::uint32_t i = 258; i < vocab_size; ++i) add("[" + std::to_string(i) + "]", token_type::normal);
  return data;
}

} // namespace paceline
