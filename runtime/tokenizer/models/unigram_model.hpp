#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/text/token_table.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// SentencePiece's unigram model (Kudo 2018): finds the segmentation of a word with the highest sum of
/// log-probabilities (Viterbi). Time is proportional to the length of the word times the length of the
/// longest token. Const and thread-safe.
class unigram_model {
 public:
  /// Scratch memory of one thread, reused from word to word.
  struct workspace {
    struct arrival {
      double score;
      std::int32_t token;  ///< the token that ends here; -1: none
      std::uint32_t begin; ///< where that token begins
    };
    std::vector<arrival> best; ///< by byte
    std::vector<arrival> path;
  };

  /// `scores` has one finite value for each token. With `byte_fallback`, unknown characters become "<0xHH>"
  /// tokens if all their bytes have one. Otherwise a run of unknown characters becomes one `unknown`.
  unigram_model(std::shared_ptr<const token_table> tokens, std::vector<double> scores, token_id unknown,
                bool byte_fallback);

  void encode(std::string_view word, workspace& work, std::vector<token_id>& out) const;

 private:
  void find_best(std::string_view word, workspace& work) const;
  void emit_unknown(std::string_view spelling, std::vector<token_id>& out) const;

  std::shared_ptr<const token_table> tokens_;
  std::vector<double> scores_;
  token_id unknown_;
  double unknown_score_;
  bool byte_fallback_;
};

} // namespace paceline::tokenizer
