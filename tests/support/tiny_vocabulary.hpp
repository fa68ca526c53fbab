#pragma once

#include "runtime/tokenizer/vocabulary.hpp"

#include <string>
#include <utility>
#include <vector>

namespace paceline::test {

/// A byte-level BPE vocabulary: the 256 bytes (ids are their values), then one token for each merge, in rank
/// order, then `control` and `user_defined` tokens. Merges are given as plain text ("th", "e"); spaces and
/// other bytes are converted to their spelling.
struct tiny_bpe {
  std::string pre = "gpt-2";
  std::vector<std::pair<std::string, std::string>> merges{};
  std::vector<std::string> control = {"<|begin|>", "<|end|>"}; ///< the first is BOS, the last EOS
  std::vector<std::string> user_defined{};
};
tokenizer::vocabulary_data make_vocabulary(const tiny_bpe& options);

/// An SPM vocabulary: "<unk>", "<s>", "</s>", the 256 bytes, then pieces with their scores, then control
/// tokens.
struct tiny_spm {
  std::vector<std::pair<std::string, float>> pieces{}; ///< spaces are written as spaces
  std::vector<std::string> control{};
};
tokenizer::vocabulary_data make_vocabulary(const tiny_spm& options);

} // namespace paceline::test
