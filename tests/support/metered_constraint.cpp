#include "tests/support/metered_constraint.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace paceline::test {

namespace {

using tokens = std::span<const token_id>;

struct meter {
  std::uint32_t vocab_size = 0;
  work_budget budget;
  std::shared_ptr<std::atomic<int>> num_exhausted;
};

class metered_cursor final : public constraint_cursor {
 public:
  metered_cursor(std::unique_ptr<constraint_cursor> inner, meter terms)
      : inner_(std::move(inner)), terms_(std::move(terms)), nothing_((terms_.vocab_size + 31) / 32),
        left_(terms_.budget.first) {}

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    if (!spend(output.size() + path.size(), 1)) return nothing_;
    return inner_->allowed(output, path);
  }
  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    return spend(output.size() + path.size(), next.size()) ? inner_->num_allowed(output, path, next) : 0;
  }
  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    std::vector<token_id> forced;
    const auto partly = inner_->append_forced(output, max_tokens, forced);
    if (!spend(output.size(), 1 + forced.size())) return std::nullopt;
    out.insert(out.end(), forced.begin(), forced.end());
    return partly;
  }
  bool is_exhausted() const noexcept override { return is_exhausted_; }

 private:
  bool spend(std::size_t length, std::uint64_t work) {
    if (is_exhausted_) return false;
    if (length > num_paid_) left_ += (length - num_paid_) * terms_.budget.per_token;
    num_paid_ = std::max(num_paid_, length);
    is_exhausted_ = work > left_;
    if (is_exhausted_)
      ++*terms_.num_exhausted;
    else
      left_ -= work;
    return !is_exhausted_;
  }

  std::unique_ptr<constraint_cursor> inner_;
  meter terms_;
  std::vector<std::uint32_t> nothing_;
  std::uint64_t left_;
  std::size_t num_paid_ = 0;
  bool is_exhausted_ = false;
};

class metered_constraint final : public token_constraint {
 public:
  metered_constraint(std::shared_ptr<const token_constraint> inner, meter terms)
      : inner_(std::move(inner)), terms_(std::move(terms)) {}
  std::unique_ptr<constraint_cursor> begin() const override {
    return std::make_unique<metered_cursor>(inner_->begin(), terms_);
  }
  std::size_t num_bytes() const noexcept override { return inner_->num_bytes(); }

 private:
  std::shared_ptr<const token_constraint> inner_;
  meter terms_;
};

} // namespace

std::shared_ptr<const token_constraint>
make_metered_constraint(std::shared_ptr<const token_constraint> inner, std::uint32_t vocab_size,
                        work_budget budget, std::shared_ptr<std::atomic<int>> num_exhausted) {
  return std::make_shared<metered_constraint>(std::move(inner),
                                              meter{vocab_size, budget, std::move(num_exhausted)});
}

} // namespace paceline::test
