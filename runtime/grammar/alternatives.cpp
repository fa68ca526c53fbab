#include "runtime/grammar/alternatives.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/grammar/constraint_of.hpp"

#include <algorithm>
#include <utility>

namespace paceline::grammar {

namespace {

using tokens = std::span<const token_id>;
using list = std::vector<std::shared_ptr<const token_constraint>>;

struct alternatives_terms {
  list alternatives;
  std::size_t num_words = 0; ///< of a mask

  std::size_t num_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const auto& one : alternatives) bytes += one->num_bytes();
    return bytes;
  }
};

bool has_any(std::span<const std::uint32_t> mask) {
  return std::ranges::any_of(mask, [](std::uint32_t word) { return word != 0; });
}

class alternatives_cursor final : public constraint_cursor {
 public:
  explicit alternatives_cursor(std::shared_ptr<const alternatives_terms> common) : terms_(std::move(common)) {
    for (const auto& one : terms_->alternatives) cursors_.push_back(one->begin());
  }

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    mask_.assign(terms_->num_words, 0);
    for (const auto& one : cursors_) {
      const auto own = one->allowed(output, path);
      for (std::size_t i = 0; i < std::min(own.size(), mask_.size()); ++i) mask_[i] |= own[i];
    }
    return mask_;
  }

  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    std::size_t most = 0;
    for (const auto& one : cursors_) most = std::max(most, one->num_allowed(output, path, next));
    return most;
  }

  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    constraint_cursor* only = nullptr;
    for (const auto& one : cursors_) {
      if (!has_any(one->allowed(output, {}))) continue;
      if (only != nullptr) return std::nullopt;
      only = one.get();
    }
    return only == nullptr ? std::nullopt : only->append_forced(output, max_tokens, out);
  }

  bool is_exhausted() const noexcept override {
    return std::ranges::any_of(cursors_, [](const auto& one) { return one->is_exhausted(); });
  }

 private:
  std::shared_ptr<const alternatives_terms> terms_;
  std::vector<std::unique_ptr<constraint_cursor>> cursors_;
  std::vector<std::uint32_t> mask_;
};

} // namespace

std::shared_ptr<const token_constraint> any_alternative(list alternatives, std::uint32_t vocab_size) {
  alternatives_terms common;
  common.alternatives = std::move(alternatives);
  common.num_words = num_mask_words(vocab_size);
  return make_constraint<alternatives_cursor>(std::move(common));
}

} // namespace paceline::grammar
