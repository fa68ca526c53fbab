#include "runtime/tokenizer/pre_tokenizers/pre_tokenizer.hpp"

#include "runtime/tokenizer/text/byte_alphabet.hpp"
#include "runtime/tokenizer/text/replace.hpp"

namespace paceline::tokenizer {

namespace {

/// Rewrites every piece: `write(piece, index, out)` appends the new form of the piece.
template <class Write>
void rewrite(text_pieces& pieces, Write&& write) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.text.size() / 4);
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
    const std::size_t begin = text.size();
    write(pieces[pieces.ranges[i]], i, text);
    pieces.ranges[i] = {begin, text.size()};
  }
  pieces.text = std::move(text);
}

struct split_runner {
  text_pieces& pieces;
  bool begins_input;
  regex::scratch& work;

  expected<void> operator()(const splitter& step) const { return step.apply(pieces, work); }

  expected<void> operator()(const prefix_step& step) const {
    const bool at_begin = begins_input && !pieces.ranges.empty() && pieces.ranges[0].begin == 0;
    rewrite(pieces, [&](std::string_view piece, std::size_t index, std::string& out) {
      const bool wanted = !step.first_only || (at_begin && index == 0);
      if (wanted && !piece.starts_with(step.prefix)) out += step.prefix;
      out += piece;
    });
    return {};
  }

  expected<void> operator()(const substitute_step& step) const {
    rewrite(pieces, [&](std::string_view piece, std::size_t, std::string& out) {
      append_replaced(out, piece, step.from, step.to);
    });
    return {};
  }

  expected<void> operator()(const byte_spelling_step&) const {
    rewrite(pieces,
            [](std::string_view piece, std::size_t, std::string& out) { append_byte_spelling(out, piece); });
    return {};
  }
};

} // namespace

expected<void> pre_tokenizer::apply(text_pieces& pieces, bool begins_input, regex::scratch& work) const {
  for (const auto& step : steps_)
    if (auto done = std::visit(split_runner{pieces, begins_input, work}, step); !done) return done;
  return {};
}

} // namespace paceline::tokenizer
