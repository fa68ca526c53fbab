#include "runtime/grammar/token_texts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace paceline::grammar {

token_texts make_token_texts(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                             const std::vector<token_id>& end_ids) {
  const std::size_t num_texts = std::min<std::size_t>(vocabulary.size(), vocab_size);
  std::vector<std::string> texts(num_texts);
  std::vector<bool> usable(vocab_size, false);
  for (std::size_t i = 0; i < num_texts; ++i) {
    const token_id token{static_cast<token_id::rep>(i)};
    if (vocabulary.is_special(token)) continue;
    texts[i] = vocabulary.piece(token);
    usable[i] = !texts[i].empty();
  }
  std::vector<std::int32_t> ends;
  for (const token_id end : end_ids) {
    if (end.value < 0 || static_cast<std::size_t>(end.value) >= num_texts) continue;
    ends.push_back(end.value);
    texts[static_cast<std::size_t>(end.value)].clear();
    usable[static_cast<std::size_t>(end.value)] = true;
  }
  xgrammar::TokenizerInfo info(texts, xgrammar::VocabType::RAW, static_cast<int>(vocab_size), ends);
  return {vocabulary, vocab_size, std::move(info), std::move(usable)};
}

} // namespace paceline::grammar
