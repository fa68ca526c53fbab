#include "runtime/grammar/token_cursor.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/base/utf8.hpp"
#include "runtime/grammar/library_work.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <string_view>
#include <utility>

namespace paceline::grammar {

namespace {

/// The library returns at most `most_found_bytes` bytes of the forced text, that is, the text that must
/// follow (deploy/xgrammar.sh). Only the first `window_bytes` of it determine the next token.
constexpr std::size_t most_found_bytes = 96, window_bytes = 64;

/// Removes an incomplete character at the end of a text that fills the window.
std::string_view without_cut_character(std::string_view text) {
  if (text.size() < window_bytes) return text;
  while (!text.empty() && is_utf8_continuation(text.back())) text.remove_suffix(1);
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0x80) text.remove_suffix(1);
  return text;
}

} // namespace

token_cursor::token_cursor(const xgrammar::CompiledGrammar& grammar, std::shared_ptr<const token_texts> texts,
                           const compile_limits& limits)
    : texts_(std::move(texts)), matcher_(grammar), mask_(num_mask_words(texts_->vocab_size)),
      work_left_(limits.cursor_work), work_per_token_(limits.cursor_work_per_token),
      most_work_(limits.cursor_work + 32 * limits.cursor_work_per_token) {}

template <class Work, class Result>
Result token_cursor::run(std::size_t num_tokens, Result failure, Work work) {
  if (is_broken_) return failure;
  if (num_tokens > num_paid_) {
    work_left_ = std::min(work_left_ + (num_tokens - num_paid_) * work_per_token_, most_work_);
    num_paid_ = num_tokens;
  }
  const work_limit limit(work_left_);
  try {
    return work();
  } catch (const work_exhausted&) {
    is_exhausted_ = true;
  } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): this request ends, or has no draft
  }
  is_broken_ = true;
  return failure;
}

void token_cursor::keep(std::size_t num_tokens) {
  if (num_tokens == taken_.size()) return;
  matcher_.Rollback(static_cast<int>(taken_.size() - num_tokens));
  taken_.resize(num_tokens);
  mask_state_ = mask_state::stale;
  if (num_tokens < forced_at_) forced_.clear();
}

bool token_cursor::is_usable(token_id token) const {
  return token.value >= 0 && static_cast<std::size_t>(token.value) < texts_->usable.size() &&
         texts_->usable[static_cast<std::size_t>(token.value)];
}

bool token_cursor::is_text(token_id token) const {
  return is_usable(token) &&
         std::ranges::find(matcher_.GetStopTokenIds(), token.value) == matcher_.GetStopTokenIds().end();
}

bool token_cursor::accept(token_id token) {
  // These calls are avoided because the library writes a warning to the standard error stream for each of
  // them.
  if (!is_usable(token) || matcher_.IsTerminated()) return false;
  if (!matcher_.AcceptToken(token.value)) return false;
  taken_.push_back(token);
  mask_state_ = mask_state::stale;
  return true;
}

bool token_cursor::move_to(std::span<const token_id> output, std::span<const token_id> path) {
  const std::size_t in_output = std::min(output.size(), taken_.size());
  std::size_t common = static_cast<std::size_t>(
      std::mismatch(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(in_output), taken_.begin())
          .first -
      output.begin());
  if (common == output.size()) {
    const auto rest = std::span<const token_id>(taken_).subspan(common);
    const std::size_t in_path = std::min(path.size(), rest.size());
    common += static_cast<std::size_t>(
        std::mismatch(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(in_path), rest.begin()).first -
        path.begin());
  }
  keep(common);
  while (taken_.size() < output.size())
    if (!accept(output[taken_.size()])) return false;
  while (taken_.size() < output.size() + path.size())
    if (!accept(path[taken_.size() - output.size()])) return false;
  return true;
}

void token_cursor::fill_mask() {
  if (mask_state_ == mask_state::complete) return;
  if (const auto only = only_token()) {
    std::fill(mask_.begin(), mask_.end(), 0U);
    set_bit(mask_, static_cast<std::size_t>(only->value));
  } else {
    fill_grammar_mask();
  }
  mask_state_ = mask_state::complete;
}

void token_cursor::fill_grammar_mask() {
  if (mask_state_ == mask_state::of_grammar) return;
  std::fill(mask_.begin(), mask_.end(), 0U);
  if (matcher_.IsTerminated()) {
    for (const int token : matcher_.GetStopTokenIds()) set_bit(mask_, static_cast<std::size_t>(token));
  } else {
    std::int64_t shape = static_cast<std::int64_t>(mask_.size());
    DLTensor tensor{};
    tensor.data = mask_.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = &shape;
    matcher_.FillNextTokenBitmask(&tensor);
    if (const std::size_t used = texts_->vocab_size % mask_word_bits; used != 0)
      mask_.back() &= (1U << used) - 1U;
  }
  mask_state_ = mask_state::of_grammar;
}

std::string_view token_cursor::forced_text() {
  if (matcher_.IsTerminated()) return {};
  if (!forced_.empty()) {
    std::size_t used = 0;
    for (std::size_t i = forced_at_; i < taken_.size(); ++i)
      used += texts_->vocabulary.piece(taken_[i]).size();
    const bool is_whole = forced_.size() < most_found_bytes;
    if (used < forced_.size() && (is_whole || forced_.size() - used >= window_bytes))
      return std::string_view(forced_).substr(used, window_bytes);
  }
  forced_ = matcher_.FindJumpForwardString();
  forced_at_ = taken_.size();
  return std::string_view(forced_).substr(0, window_bytes);
}

std::optional<token_id> token_cursor::token_within_character(std::string_view text) const {
  const auto& sorted = texts_->info.GetSortedDecodedVocab();
  std::size_t size = 0;
  while (size < text.size() && is_utf8_continuation(text[size])) ++size;
  for (; size > 0; --size) {
    const auto wanted = text.substr(0, size);
    const auto at =
        std::lower_bound(sorted.begin(), sorted.end(), wanted,
                         [](const auto& entry, std::string_view value) { return entry.second < value; });
    if (at != sorted.end() && at->second == wanted && is_text(token_id{at->first}))
      return token_id{at->first};
  }
  return std::nullopt;
}

token_cursor::forced_token token_cursor::find_forced_token() {
  // The window is enough, because a token depends only on the text close after it. The text is tokenised
  // again for each token, so that the result does not depend on where the cursor was before.
  const auto text = forced_text();
  if (text.empty()) return {};
  std::optional<token_id> first;
  if (is_utf8_continuation(text.front())) {
    first = token_within_character(text);
  } else {
    const auto tokens = tokens_of(std::string(without_cut_character(text)));
    if (!tokens.empty()) first = tokens.front();
  }
  if (!first || !is_text(*first)) return {};
  return {first, text.size() == window_bytes || !has_longer(text)};
}

std::optional<token_id> token_cursor::only_token() {
  const auto found = find_forced_token();
  return found.is_only ? found.first : std::nullopt;
}

std::span<const std::uint32_t> token_cursor::allowed(std::span<const token_id> output,
                                                     std::span<const token_id> path) {
  const bool is_filled = run(output.size() + path.size(), false, [&] {
    if (!move_to(output, path) && !matcher_.IsTerminated()) return false;
    fill_mask(); // tokens after the end of the grammar are dropped
    return true;
  });
  if (is_filled) return mask_;
  mask_state_ = mask_state::stale;
  std::fill(mask_.begin(), mask_.end(), 0U);
  return mask_;
}

std::size_t token_cursor::num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                                      std::span<const token_id> next) {
  return run(output.size() + path.size(), std::size_t{0}, [&]() -> std::size_t {
    if (!move_to(output, path)) return 0;
    std::size_t count = 0;
    // The accepted tokens are kept, because the next call usually continues after them.
    const std::size_t begin = output.size() + path.size();
    for (; count < next.size(); ++count) {
      const auto only = only_token();
      if ((only && *only != next[count]) || !accept(next[count])) break;
    }
    return std::min(count, taken_.size() - begin);
  });
}

std::vector<token_id> token_cursor::tokens_of(const std::string& text) const {
  const tokenizer::encode_options plain{.add_special = false, .parse_special = false};
  const auto& vocabulary = texts_->vocabulary;
  // Some vocabularies put a space before a text. After a line break they do not add another one.
  const std::string_view line_break = "\n";
  const auto encoded = vocabulary.encode(std::string(line_break) + text, plain);
  if (!encoded) return {};
  std::string before;
  std::size_t first = 0;
  while (first < encoded->size() && !before.ends_with(line_break))
    before += vocabulary.piece((*encoded)[first++]);
  if (!before.ends_with(line_break)) return {}; // the line break is part of a longer token
  std::vector<token_id> tokens(encoded->begin() + static_cast<std::ptrdiff_t>(first), encoded->end());
  // Normalization may have changed the text: use the tokens that spell it.
  std::size_t at = 0;
  std::size_t good = 0;
  for (const token_id token : tokens) {
    const auto piece = vocabulary.piece(token);
    if (piece.empty() || !std::string_view(text).substr(at).starts_with(piece)) break;
    at += piece.size();
    ++good;
  }
  tokens.resize(good);
  return tokens;
}

bool token_cursor::has_longer(std::string_view text) {
  const auto& sorted = texts_->info.GetSortedDecodedVocab();
  auto at = std::upper_bound(sorted.begin(), sorted.end(), text,
                             [](std::string_view value, const auto& entry) { return value < entry.second; });
  for (; at != sorted.end() && std::string_view(at->second).starts_with(text); ++at) {
    fill_grammar_mask();
    if (has_bit(mask_, static_cast<std::size_t>(at->first))) return true;
  }
  return false;
}

token_id token_cursor::usual_in_place_of(token_id token, std::span<const token_id> output) {
  constexpr std::size_t most_looks = 512;
  const std::string_view text = texts_->vocabulary.piece(token);
  fill_grammar_mask();
  for (const token_id earlier : output.last(std::min(output.size(), most_looks)) | std::views::reverse)
    if (has_bit(mask_, static_cast<std::size_t>(earlier.value)) &&
        std::string_view(texts_->vocabulary.piece(earlier)).starts_with(text))
      return earlier;
  return token;
}

std::optional<token_id> token_cursor::append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                                    std::vector<token_id>& out) {
  return run(output.size(), std::optional<token_id>{}, [&]() -> std::optional<token_id> {
    if (!move_to(output, {})) return std::nullopt;
    for (; max_tokens > 0; --max_tokens) {
      const auto found = find_forced_token();
      if (!found.first) return std::nullopt;
      if (!found.is_only) return usual_in_place_of(*found.first, output);
      if (!accept(*found.first)) return std::nullopt;
      out.push_back(*found.first);
    }
    return std::nullopt;
  });
}

} // namespace paceline::grammar
