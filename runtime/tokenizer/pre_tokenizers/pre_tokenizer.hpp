#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/pre_tokenizers/splitter.hpp"
#include "runtime/tokenizer/pre_tokenizers/text_pieces.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace paceline::tokenizer {

/// Puts `prefix` before every piece that does not begin with it.
struct prefix_step {
  std::string prefix;
  bool first_only = false; ///< only before a piece that begins the whole input
};

/// Puts `to` for `from` everywhere (" " to U+2581).
struct substitute_step {
  std::string from, to;
};

/// Spells bytes in the alphabet of byte-level BPE.
struct byte_spelling_step {};

/// Cuts normalized text into the words a model encodes one by one. Const calls from any thread.
class pre_tokenizer {
 public:
  using step = std::variant<splitter, prefix_step, substitute_step, byte_spelling_step>;

  void add(step next) { steps_.push_back(std::move(next)); }

  /// `begins_input`: nothing, not even a special token, stands before the text.
  expected<void> apply(text_pieces& pieces, bool begins_input, regex::scratch& work) const;

 private:
  std::vector<step> steps_;
};

} // namespace paceline::tokenizer
