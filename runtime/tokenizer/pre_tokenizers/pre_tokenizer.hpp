#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/pre_tokenizers/splitter.hpp"
#include "runtime/tokenizer/pre_tokenizers/text_pieces.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace paceline::tokenizer {

/// Adds `prefix` before every piece that does not begin with it.
struct prefix_step {
  std::string prefix;
  bool first_only = false; ///< only before the piece at the start of the input
};

/// Replaces `from` by `to` everywhere; for example " " by U+2581.
struct substitute_step {
  std::string from, to;
};

/// Spells bytes in the byte-level BPE alphabet.
struct byte_spelling_step {};

/// Divides normalized text into words, which a model encodes separately. Thread-safe when const.
class pre_tokenizer {
 public:
  using step = std::variant<splitter, prefix_step, substitute_step, byte_spelling_step>;

  void add(step next) { steps_.push_back(std::move(next)); }

  /// `begins_input`: nothing precedes the text, not even a special token.
  expected<void> apply(text_pieces& pieces, bool begins_input, regex::scratch& work) const;

 private:
  std::vector<step> steps_;
};

} // namespace paceline::tokenizer
