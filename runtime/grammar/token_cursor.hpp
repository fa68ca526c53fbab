#pragma once

#include "runtime/base/token_constraint.hpp"
#include "runtime/grammar/token_texts.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <xgrammar/matcher.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// A cursor over XGrammar's matcher. Where only one text may follow, it allows only the tokens into which the
/// vocabulary divides that text: the model is not asked to divide a text that it has not chosen, and drafts
/// of such texts are right (docs/decisions/0627). The matcher keeps a state for each token that it has
/// accepted. A call with other tokens than the last one takes back those behind the common prefix and accepts
/// the rest, so the usual step of one token costs one token's work, in both directions. Not thread-safe.
class token_cursor final : public constraint_cursor {
 public:
  token_cursor(const xgrammar::CompiledGrammar& grammar, std::shared_ptr<const token_texts> texts);

  std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                         std::span<const token_id> path) override;
  std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                          std::span<const token_id> next) override;
  std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override;

 private:
  /// Moves to `output` and `path`; false if they are not allowed. Then it stands where they cease to be.
  bool move_to(std::span<const token_id> output, std::span<const token_id> path);
  bool accept(token_id token);
  void keep(std::size_t num_tokens); ///< takes back all but the first `num_tokens`
  /// Fills `mask_` with the tokens that may follow; `fill_grammar_mask` with those that the grammar alone
  /// allows.
  void fill_mask();
  void fill_grammar_mask();
  /// What must follow, whatever is chosen; its beginning, if it is long. Valid until the next token.
  std::string_view forced_text();
  struct forced_token {
    std::optional<token_id> first; ///< of what must follow
    bool is_only = false; ///< no token that is longer than all that must follow may stand in its place
  };
  forced_token find_forced_token();
  /// The only token that may follow, if one text must; else none.
  std::optional<token_id> only_token();
  /// The longest token that has the beginning of `text`, which is the rest of a character, and nothing more.
  std::optional<token_id> token_within_character(std::string_view text) const;
  /// Whether a token may follow that begins with `text` and is longer.
  bool has_longer(std::string_view text);
  bool is_usable(token_id token) const;
  bool is_text(token_id token) const; ///< usable, and not one that ends the output
  /// The last token of `output` that begins like `token` and may stand in its place, else `token`.
  token_id usual_in_place_of(token_id token, std::span<const token_id> output);
  std::vector<token_id> tokens_of(const std::string& text) const;

  std::shared_ptr<const token_texts> texts_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<token_id> taken_; ///< what the matcher has accepted
  enum class mask_state : std::uint8_t { stale, of_grammar, complete };
  std::vector<std::uint32_t> mask_;
  mask_state mask_state_ = mask_state::stale; ///< what `mask_` is for `taken_`
  std::string forced_; ///< what had to follow the first `forced_at_` tokens of `taken_`
  std::size_t forced_at_ = 0;
};

} // namespace paceline::grammar
