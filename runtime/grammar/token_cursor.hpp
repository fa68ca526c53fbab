#pragma once

#include "runtime/base/token_constraint.hpp"
#include "runtime/grammar/token_texts.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <xgrammar/matcher.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::grammar {

/// A cursor over XGrammar's matcher. The matcher keeps a state for each token that it has accepted. A call
/// with other tokens than the last one takes back those behind the common prefix and accepts the rest, so the
/// usual step of one token costs one token's work, in both directions. Not thread-safe.
class token_cursor final : public constraint_cursor {
 public:
  token_cursor(const xgrammar::CompiledGrammar& grammar, std::shared_ptr<const token_texts> texts);

  std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                         std::span<const token_id> path) override;
  std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                          std::span<const token_id> next) override;
  void append_forced(std::span<const token_id> output, std::size_t max_tokens,
                     std::vector<token_id>& out) override;

 private:
  /// Moves to `output` and `path`; false if they are not allowed. Then it stands where they cease to be.
  bool move_to(std::span<const token_id> output, std::span<const token_id> path);
  bool accept(token_id token);
  void keep(std::size_t num_tokens); ///< takes back all but the first `num_tokens`
  void fill_mask();
  /// Whether a longer token than `token` may stand in its place.
  bool has_longer(token_id token);
  std::vector<token_id> tokens_of(const std::string& text) const;

  std::shared_ptr<const token_texts> texts_;
  xgrammar::GrammarMatcher matcher_;
  std::vector<token_id> taken_; ///< what the matcher has accepted
  std::vector<std::uint32_t> mask_;
  bool mask_is_current_ = false; ///< `mask_` belongs to `taken_`
};

} // namespace paceline::grammar
