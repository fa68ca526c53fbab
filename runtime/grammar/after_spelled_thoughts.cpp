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

/// A position in an output. `before`: the text so far is a beginning of the opening mark.
enum class place : std::uint8_t { before, thoughts, answer };
struct progress {
  place where = place::before;
  std::uint32_t matched = 0;     ///< bytes at the end of the text that are a beginning of the mark
  std::uint32_t answer_from = 0; ///< number of tokens before the answer
  bool is_allowed = true;        ///< false behind a token that must not follow
};

/// The longest beginning of `mark` that `text` ends with, if `text` without its last byte ends with the first
/// `matched` bytes of the mark.
std::uint32_t extend(std::string_view mark, std::uint32_t matched, char next) {
  std::string text(mark.substr(0, matched));
  text += next;
  while (!text.empty() && !mark.starts_with(text)) text.erase(0, 1);
  return static_cast<std::uint32_t>(text.size());
}

/// Follows a text of thoughts through `piece`. Returns the number of bytes of it up to the end of the closing
/// mark; npos if the mark is not complete.
std::size_t find_close(std::string_view close, std::uint32_t& matched, std::string_view piece) {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    matched = extend(close, matched, piece[i]);
    if (matched == close.size()) return i + 1;
  }
  return std::string_view::npos;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

struct terms {
  std::shared_ptr<const token_constraint> answer;
  thought_spellings marks;
  std::string pieces;              ///< the texts of all tokens one after the other
  std::vector<std::uint32_t> ends; ///< where they end, by token
  std::vector<mask> within;        ///< tokens within thoughts, by the bytes matched of the closing mark
  std::vector<mask> opening;       ///< tokens that go on with the opening mark, by its bytes so far

  bool is_end(token_id token) const { return std::ranges::find(marks.end_ids, token) != marks.end_ids.end(); }

  std::size_t num_bytes() const noexcept {
    std::size_t count = answer->num_bytes() + pieces.size() + ends.size() * sizeof(std::uint32_t);
    for (const auto& list : {&within, &opening})
      for (const auto& one : *list) count += one.size() * sizeof(mask_word);
    return count;
  }

  std::string_view piece_of(token_id token) const {
    const auto i = static_cast<std::size_t>(token.value); // a negative one is above all
    if (i >= ends.size()) return {};
    const auto begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(pieces).substr(begin, ends[i] - begin);
  }

  progress begin() const { return {marks.open.empty() ? place::thoughts : place::before}; }

  /// The position behind `token`, which is the `number`th of the output.
  progress behind(progress at, token_id token, std::size_t number) const {
    auto piece = piece_of(token);
    if (at.where == place::before) {
      const auto rest = std::string_view(marks.open).substr(at.matched);
      if (is_end(token) || piece.empty() || (!rest.starts_with(piece) && !piece.starts_with(rest)))
        return {place::answer, 0, 0};
      if (piece.size() < rest.size())
        return {place::before, at.matched + static_cast<std::uint32_t>(piece.size()), 0};
      at = {place::thoughts};
      piece.remove_prefix(rest.size());
    } else if (at.where == place::thoughts && is_end(token)) {
      at.is_allowed = false;
    }
    if (at.where != place::thoughts) return at;
    const auto size = find_close(marks.close, at.matched, piece);
    if (size == std::string_view::npos) return at;
    return {place::answer, 0, static_cast<std::uint32_t>(number + 1), is_blank(piece.substr(size))};
  }
};

void fill_masks(terms& out, std::uint32_t vocab_size) {
  const std::string_view open = out.marks.open, close = out.marks.close;
  mask all(num_mask_words(vocab_size));
  for (std::uint32_t i = 0; i < vocab_size; ++i) set_bit(all, i);
  for (const token_id end : out.marks.end_ids)
    if (end.value >= 0 && static_cast<std::uint32_t>(end.value) < vocab_size)
      clear_bit(all, static_cast<std::size_t>(end.value));
  out.within.assign(close.size(), all);
  out.opening.assign(open.size(), mask(num_mask_words(vocab_size)));
  for (std::size_t token = 0; token < vocab_size; ++token) {
    const token_id id{static_cast<token_id::rep>(token)};
    const auto piece = out.piece_of(id);
    for (std::uint32_t matched = 0; matched < open.size(); ++matched)
      if (!piece.empty() && piece.front() == open[matched]) {
        const auto after = out.behind({place::before, matched}, id, 0);
        const bool goes_on = after.where != place::answer || after.answer_from != 0;
        if (goes_on && after.is_allowed) set_bit(out.opening[matched], token);
      }
    if (piece.find(close.back()) == std::string_view::npos) continue; // it completes no mark
    for (std::uint32_t matched = 0; matched < close.size(); ++matched)
      if (!out.behind({place::thoughts, matched}, id, 0).is_allowed) clear_bit(out.within[matched], token);
  }
}

class cursor final : public constraint_cursor {
 public:
  explicit cursor(std::shared_ptr<const terms> common)
      : terms_(std::move(common)), answer_(terms_->answer->begin()) {}

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    const auto at = find(output, path);
    if (!at.is_allowed) return none();
    if (at.where == place::thoughts) return terms_->within[at.matched];
    const auto [rest_of_output, rest_of_path] = behind(at, output, path);
    const auto answer = answer_->allowed(rest_of_output, rest_of_path);
    if (at.where == place::answer) return answer;
    // The next token goes on either with the answer or with the opening mark.
    const auto& opening = terms_->opening[at.matched];
    mask_.assign(answer.begin(), answer.end());
    mask_.resize(opening.size());
    for (std::size_t i = 0; i < mask_.size(); ++i) mask_[i] |= opening[i];
    return mask_;
  }

  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    auto at = find(output, path);
    if (!at.is_allowed) return 0;
    if (at.where == place::answer) {
      const auto [rest_of_output, rest_of_path] = behind(at, output, path);
      return answer_->num_allowed(rest_of_output, rest_of_path, next);
    }
    if (at.where == place::before) {
      // Either the tokens lead into thoughts, or all of them belong to the answer.
      const auto into = num_into_thoughts(at, output.size() + path.size(), next);
      return std::max(into, answer_->num_allowed(output, path, next));
    }
    return num_into_thoughts(at, output.size() + path.size(), next);
  }

  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    const auto at = find(output, {});
    if (at.where != place::answer || !at.is_allowed) return std::nullopt;
    return answer_->append_forced(output.subspan(at.answer_from), max_tokens, out);
  }

  bool is_exhausted() const noexcept override { return answer_->is_exhausted(); }

 private:
  /// How many tokens of `next` may follow as a part of the opening mark, as thoughts, or behind thoughts.
  std::size_t num_into_thoughts(progress at, std::size_t number, tokens next) {
    for (std::size_t count = 0; count < next.size(); ++count) {
      at = terms_->behind(at, next[count], number + count);
      if (!at.is_allowed || (at.where == place::answer && at.answer_from == 0)) return count;
      if (at.where == place::answer) return count + 1 + answer_->num_allowed({}, {}, next.subspan(count + 1));
    }
    return next.size();
  }

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

  progress at(std::size_t num_tokens) const {
    return num_tokens == 0 ? terms_->begin() : after_[num_tokens - 1];
  }

  std::span<const std::uint32_t> none() {
    mask_.assign(terms_->within.front().size(), 0);
    return mask_;
  }

  std::shared_ptr<const terms> terms_;
  std::unique_ptr<constraint_cursor> answer_;
  std::vector<token_id> seen_;  ///< tokens of the last calls
  std::vector<progress> after_; ///< the position behind each of them
  mask mask_;
};

} // namespace

std::shared_ptr<const token_constraint> after_spelled_thoughts(std::shared_ptr<const token_constraint> answer,
                                                               thought_spellings marks,
                                                               const token_speller& spell,
                                                               std::uint32_t vocab_size) {
  terms common;
  common.answer = std::move(answer);
  common.marks = std::move(marks);
  common.ends.reserve(vocab_size);
  for (std::uint32_t token = 0; token < vocab_size; ++token) {
    common.pieces += spell(token_id{static_cast<token_id::rep>(token)});
    common.ends.push_back(static_cast<std::uint32_t>(common.pieces.size()));
  }
  fill_masks(common, vocab_size);
  return make_constraint<cursor>(std::move(common));
}

} // namespace paceline::grammar
