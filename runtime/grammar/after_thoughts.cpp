#include "runtime/grammar/after_thoughts.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/grammar/constraint_of.hpp"

#include <algorithm>
#include <utility>

namespace paceline::grammar {

namespace {

using tokens = std::span<const token_id>;

struct after_thoughts_terms {
  std::shared_ptr<const token_constraint> answer;
  thought_tokens marks;
  std::vector<std::uint32_t> free; ///< mask within thoughts

  std::size_t num_bytes() const noexcept { return answer->num_bytes() + free.size() * sizeof(std::uint32_t); }
};

class after_thoughts_cursor final : public constraint_cursor {
 public:
  explicit after_thoughts_cursor(std::shared_ptr<const after_thoughts_terms> common)
      : terms_(std::move(common)), answer_(terms_->answer->begin()) {}

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    const auto [where, rest_of_output, rest_of_path] = find(output, path);
    if (where == place::thoughts) return terms_->free;
    const auto mask = answer_->allowed(rest_of_output, rest_of_path);
    if (where == place::answer) return mask;
    // At the beginning, the next token either begins the answer or opens thoughts.
    beginning_.assign(mask.begin(), mask.end());
    set_bit(beginning_, static_cast<std::size_t>(terms_->marks.open->value));
    return beginning_;
  }

  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    const auto& marks = terms_->marks;
    const auto [where, rest_of_output, rest_of_path] = find(output, path);
    if (where == place::answer) return answer_->num_allowed(rest_of_output, rest_of_path, next);
    std::size_t count = 0; // number of tokens within thoughts
    if (where == place::beginning) {
      if (next.empty() || next.front() != *marks.open) return answer_->num_allowed({}, {}, next);
      count = 1;
    }
    while (count < next.size() && next[count] != marks.close && !is_end(next[count])) ++count;
    if (count == next.size() || is_end(next[count])) return count;
    ++count;
    return count + answer_->num_allowed({}, {}, next.subspan(count));
  }

  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    const auto found = find(output, {});
    if (found.where != place::answer) return std::nullopt;
    return answer_->append_forced(found.output, max_tokens, out);
  }

  bool is_exhausted() const noexcept override { return answer_->is_exhausted(); }

 private:
  enum class place : std::uint8_t { beginning, thoughts, answer };
  struct position {
    place where;
    tokens output, path; ///< of the answer
  };

  /// Finds where the next token stands. If the output does not begin with thoughts, all of it is the answer.
  position find(tokens output, tokens path) const {
    const auto& marks = terms_->marks;
    if (marks.open) {
      if (output.empty() && path.empty()) return {place::beginning, {}, {}};
      if ((output.empty() ? path.front() : output.front()) != *marks.open)
        return {place::answer, output, path};
    }
    if (const auto in_output = std::ranges::find(output, marks.close); in_output != output.end())
      return {place::answer, output.subspan(static_cast<std::size_t>(in_output - output.begin()) + 1), path};
    if (const auto in_path = std::ranges::find(path, marks.close); in_path != path.end())
      return {place::answer, {}, path.subspan(static_cast<std::size_t>(in_path - path.begin()) + 1)};
    return {place::thoughts, {}, {}};
  }

  bool is_end(token_id token) const {
    return std::ranges::find(terms_->marks.end_ids, token) != terms_->marks.end_ids.end();
  }

  std::shared_ptr<const after_thoughts_terms> terms_;
  std::unique_ptr<constraint_cursor> answer_;
  std::vector<std::uint32_t> beginning_;
};

} // namespace

std::shared_ptr<const token_constraint> after_thoughts(std::shared_ptr<const token_constraint> answer,
                                                       thought_tokens marks, std::uint32_t vocab_size) {
  after_thoughts_terms common;
  common.answer = std::move(answer);
  common.free.assign(num_mask_words(vocab_size), 0xFFFFFFFFU);
  for (const auto token : marks.end_ids) clear_bit(common.free, static_cast<std::size_t>(token.value));
  common.marks = std::move(marks);
  return make_constraint<after_thoughts_cursor>(std::move(common));
}

} // namespace paceline::grammar
