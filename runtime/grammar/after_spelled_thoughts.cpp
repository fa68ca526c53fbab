#include "runtime/grammar/after_spelled_thoughts.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/grammar/constraint_of.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace paceline::grammar {

namespace {

using tokens = std::span<const token_id>;
using mask = std::vector<mask_word>;

/// A position in an output.
struct progress {
  bool in_answer = false;
  bool is_allowed = true;        ///< false behind a token that must not follow
  std::uint32_t matched = 0;     ///< bytes at the end of the thoughts that are a beginning of the mark
  std::uint32_t answer_from = 0; ///< number of tokens before the answer
};

/// Follows thoughts whose text ends with the first `matched` bytes of the closing mark through `piece`.
/// Returns the number of bytes of it up to the end of the mark. If the mark is not complete: npos, and
/// `matched` for the text with `piece`.
std::size_t find_close(std::string_view close, std::uint32_t& matched, std::string_view piece) {
  const std::string text = std::string(close.substr(0, matched)).append(piece);
  if (const auto begin = text.find(close); begin != std::string::npos) return begin + close.size() - matched;
  matched = static_cast<std::uint32_t>(std::min(close.size() - 1, text.size()));
  while (!text.ends_with(close.substr(0, matched))) --matched;
  return std::string_view::npos;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

struct after_spelled_thoughts_terms {
  std::shared_ptr<const token_constraint> answer;
  std::string close;
  std::vector<token_id> end_ids;
  std::string pieces;              ///< the texts of all tokens one after the other
  std::vector<std::uint32_t> ends; ///< where they end, by token
  std::vector<mask> within;        ///< tokens within thoughts, by the bytes matched of the closing mark

  bool is_end(token_id token) const { return std::ranges::find(end_ids, token) != end_ids.end(); }

  std::size_t num_bytes() const noexcept {
    std::size_t count = answer->num_bytes() + pieces.size() + ends.size() * sizeof(std::uint32_t);
    for (const auto& one : within) count += one.size() * sizeof(mask_word);
    return count;
  }

  std::string_view piece_of(token_id token) const {
    const auto i = static_cast<std::size_t>(token.value); // a negative one is above all
    if (i >= ends.size()) return {};
    const auto begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(pieces).substr(begin, ends[i] - begin);
  }

  /// The position behind `token`, which is the `number`th of the output.
  progress behind(progress at, token_id token, std::size_t number) const {
    if (at.in_answer) return at;
    if (is_end(token)) at.is_allowed = false;
    const auto piece = piece_of(token);
    const auto size = find_close(close, at.matched, piece);
    if (size == std::string_view::npos) return at;
    return {true, at.is_allowed && is_blank(piece.substr(size)), 0, static_cast<std::uint32_t>(number + 1)};
  }
};

void fill_masks(after_spelled_thoughts_terms& out, std::uint32_t vocab_size) {
  mask all(num_mask_words(vocab_size));
  for (std::uint32_t i = 0; i < vocab_size; ++i)
    if (!out.is_end(token_id{static_cast<token_id::rep>(i)})) set_bit(all, i);
  out.within.assign(out.close.size(), all);
  for (std::uint32_t i = 0; i < vocab_size; ++i) {
    const token_id token{static_cast<token_id::rep>(i)};
    if (out.piece_of(token).find(out.close.back()) == std::string_view::npos)
      continue; // it completes no mark
    for (std::uint32_t matched = 0; matched < out.close.size(); ++matched)
      if (!out.behind({.matched = matched}, token, 0).is_allowed) clear_bit(out.within[matched], i);
  }
}

class after_spelled_thoughts_cursor final : public constraint_cursor {
 public:
  explicit after_spelled_thoughts_cursor(std::shared_ptr<const after_spelled_thoughts_terms> common)
      : terms_(std::move(common)), answer_(terms_->answer->begin()) {}

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    const auto at = find(output, path);
    if (!at.is_allowed) return none();
    if (!at.in_answer) return terms_->within[at.matched];
    const auto [rest_of_output, rest_of_path] = behind(at, output, path);
    return answer_->allowed(rest_of_output, rest_of_path);
  }

  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    auto at = find(output, path);
    if (!at.is_allowed) return 0;
    if (at.in_answer) {
      const auto [rest_of_output, rest_of_path] = behind(at, output, path);
      return answer_->num_allowed(rest_of_output, rest_of_path, next);
    }
    for (std::size_t count = 0; count < next.size(); ++count) {
      at = terms_->behind(at, next[count], output.size() + path.size() + count);
      if (!at.is_allowed) return count;
      if (at.in_answer) return count + 1 + answer_->num_allowed({}, {}, next.subspan(count + 1));
    }
    return next.size();
  }

  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    const auto at = find(output, {});
    if (!at.in_answer || !at.is_allowed) return std::nullopt;
    return answer_->append_forced(output.subspan(at.answer_from), max_tokens, out);
  }

  bool is_exhausted() const noexcept override { return answer_->is_exhausted(); }

 private:
  std::pair<tokens, tokens> behind(const progress& at, tokens output, tokens path) const {
    const auto of_output = std::min<std::size_t>(at.answer_from, output.size());
    return {output.subspan(of_output), path.subspan(at.answer_from - of_output)};
  }

  /// The position behind `output` and `path`. What is known of their common beginning with the previous
  /// call's is not computed again.
  progress find(tokens output, tokens path) {
    const auto follow = [&](tokens part, std::size_t from) {
      const auto known = tokens(seen_).subspan(std::min(from, seen_.size()));
      const auto same = static_cast<std::size_t>(std::ranges::mismatch(part, known).in1 - part.begin());
      if (same < part.size()) {
        seen_.resize(from + same);
        after_.resize(from + same);
        for (const token_id token : part.subspan(same)) {
          after_.push_back(terms_->behind(at(seen_.size()), token, seen_.size()));
          seen_.push_back(token);
        }
      }
      return from + part.size();
    };
    return at(follow(path, follow(output, 0)));
  }

  progress at(std::size_t num_tokens) const { return num_tokens == 0 ? progress{} : after_[num_tokens - 1]; }

  std::span<const std::uint32_t> none() {
    mask_.assign(terms_->within.front().size(), 0);
    return mask_;
  }

  std::shared_ptr<const after_spelled_thoughts_terms> terms_;
  std::unique_ptr<constraint_cursor> answer_;
  std::vector<token_id> seen_;  ///< tokens of the last calls
  std::vector<progress> after_; ///< the position behind each of them
  mask mask_;
};

} // namespace

std::shared_ptr<const token_constraint>
after_spelled_thoughts(std::shared_ptr<const token_constraint> answer, std::string close,
                       std::vector<token_id> end_ids, const token_speller& spell, std::uint32_t vocab_size) {
  after_spelled_thoughts_terms common;
  common.answer = std::move(answer);
  common.close = std::move(close);
  common.end_ids = std::move(end_ids);
  common.ends.reserve(vocab_size);
  for (std::uint32_t token = 0; token < vocab_size; ++token) {
    common.pieces += spell(token_id{static_cast<token_id::rep>(token)});
    common.ends.push_back(static_cast<std::uint32_t>(common.pieces.size()));
  }
  fill_masks(common, vocab_size);
  return make_constraint<after_spelled_thoughts_cursor>(std::move(common));
}

} // namespace paceline::grammar
