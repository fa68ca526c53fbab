#pragma once

#include "runtime/base/token_constraint.hpp"
#include "runtime/grammar/grammar_compiler.hpp"
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

/// A cursor over XGrammar's matcher. Where the grammar allows only one text, the cursor allows only the
/// tokens into which the tokenizer divides this text, so drafts of such texts are always accepted
/// (docs/decisions/0627). The matcher keeps a state for each token that it has accepted. If the tokens of a
/// call differ from those of the previous call, the cursor takes back the tokens after the common prefix and
/// accepts the new ones. So a step of one token, forwards or backwards, costs the work of one token. Not
/// thread-safe.
class token_cursor final : public constraint_cursor {
 public:
  /// Of `limits`, the cursor uses `cursor_work` and `cursor_work_per_token`.
  token_cursor(const xgrammar::CompiledGrammar& grammar, std::shared_ptr<const token_texts> texts,
               const compile_limits& limits);

  std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                         std::span<const token_id> path) override;
  std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                          std::span<const token_id> next) override;
  std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override;
  bool is_exhausted() const noexcept override { return is_exhausted_; }

 private:
  /// Runs `work`, which calls the library for a text of `num_tokens` tokens. Returns its result, or `failure`
  /// if the library throws now or threw before. The library throws if the cursor's work is used up, or if an
  /// invariant of the library is broken; other requests are not affected.
  template <class Work, class Result>
  Result run(std::size_t num_tokens, Result failure, Work work);
  /// Moves to the end of `output` and `path`. False if they are not allowed; the cursor is then after the
  /// last allowed token.
  bool move_to(std::span<const token_id> output, std::span<const token_id> path);
  bool accept(token_id token);
  void keep(std::size_t num_tokens); ///< takes back all but the first `num_tokens`
  /// Fills `mask_` with the tokens that may follow.
  void fill_mask();
  /// Fills `mask_` with the tokens that the grammar allows, also where one text must follow.
  void fill_grammar_mask();
  /// The text that must follow, or the beginning of it if it is long. Valid until the next token is accepted
  /// or taken back.
  std::string_view forced_text();
  struct forced_token {
    std::optional<token_id> first; ///< first token of the text that must follow
    bool is_only = false;          ///< no token that is longer than the whole forced text is allowed instead
  };
  forced_token find_forced_token();
  /// The only token that is allowed next if one text must follow; else nullopt.
  std::optional<token_id> only_token();
  /// `text` is the remaining bytes of a character. Returns the longest token whose bytes are a beginning of
  /// `text`.
  std::optional<token_id> token_within_character(std::string_view text) const;
  /// True if a token may follow that begins with `text` and is longer.
  bool has_longer(std::string_view text);
  bool is_usable(token_id token) const;
  bool is_text(token_id token) const; ///< usable, and not one that ends the output
  /// The latest of the last 512 tokens of `output` that begins with the text of `token` and is allowed next.
  /// If there is none, `token`.
  token_id usual_in_place_of(token_id token, std::span<const token_id> output);
  std::vector<token_id> tokens_of(const std::string& text) const;

  std::shared_ptr<const token_texts> texts_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<token_id> taken_; ///< what the matcher has accepted
  enum class mask_state : std::uint8_t { stale, of_grammar, complete };
  std::vector<std::uint32_t> mask_;
  /// Whether `mask_` is up to date with `taken_`, and of which kind.
  mask_state mask_state_ = mask_state::stale;
  std::string forced_; ///< the text that must follow the first `forced_at_` tokens of `taken_`
  std::size_t forced_at_ = 0;
  std::uint64_t work_left_;
  std::uint64_t work_per_token_;
  /// Upper bound of `work_left_`: without it a long output could save up work for a mask that takes minutes.
  std::uint64_t most_work_;
  /// Number of tokens that have added to `work_left_`. The tokens of a path add to it like output tokens,
  /// so the masks along a path that is accepted have the same budget as in plain decoding.
  std::size_t num_paid_ = 0;
  bool is_exhausted_ = false;
  bool is_broken_ = false; ///< the library has thrown; the state of the matcher is unknown
};

} // namespace paceline::grammar
