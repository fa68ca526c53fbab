#include "tests/support/cycle_constraint.hpp"

#include <algorithm>

namespace paceline::test {

namespace {

bool is_forced_place(std::size_t place) { return place % 6 == 3 || place % 6 == 4; }

std::int32_t forced_at(std::size_t place, std::uint32_t vocab_size) {
  return static_cast<std::int32_t>(7 * place % vocab_size);
}

class cycle_cursor final : public constraint_cursor {
 public:
  explicit cycle_cursor(std::uint32_t vocab_size) : vocab_size_(vocab_size) {}

  std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                         std::span<const token_id> path) override {
    mask_.assign((vocab_size_ + 31) / 32, 0);
    const auto before = joined(output, path);
    if (!is_valid(before)) return mask_;
    for (std::uint32_t t = 0; t < vocab_size_; ++t)
      if (cycle_allows(before, token_id{static_cast<std::int32_t>(t)}, vocab_size_))
        mask_[t / 32] |= 1U << t % 32;
    return mask_;
  }

  std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                          std::span<const token_id> next) override {
    auto before = joined(output, path);
    if (!is_valid(before)) return 0;
    std::size_t count = 0;
    for (; count < next.size() && cycle_allows(before, next[count], vocab_size_); ++count)
      before.push_back(next[count]);
    return count;
  }

  std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    for (auto place = output.size(); max_tokens > 0 && is_forced_place(place); ++place, --max_tokens)
      out.emplace_back(forced_at(place, vocab_size_));
    return std::nullopt;
  }

 private:
  static std::vector<token_id> joined(std::span<const token_id> output, std::span<const token_id> path) {
    std::vector<token_id> all(output.begin(), output.end());
    all.insert(all.end(), path.begin(), path.end());
    return all;
  }
  bool is_valid(std::span<const token_id> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (!cycle_allows(tokens.first(i), tokens[i], vocab_size_)) return false;
    return true;
  }

  std::uint32_t vocab_size_;
  std::vector<std::uint32_t> mask_;
};

class free_cursor final : public constraint_cursor {
 public:
  explicit free_cursor(std::uint32_t vocab_size) : mask_((vocab_size + 31) / 32, 0xFFFFFFFFU) {
    if (vocab_size % 32 != 0) mask_.back() = (1U << vocab_size % 32) - 1U;
  }

  std::span<const std::uint32_t> allowed(std::span<const token_id>, std::span<const token_id>) override {
    return mask_;
  }
  std::size_t num_allowed(std::span<const token_id>, std::span<const token_id>,
                          std::span<const token_id> next) override {
    return next.size();
  }
  std::optional<token_id> append_forced(std::span<const token_id>, std::size_t,
                                        std::vector<token_id>&) override {
    return std::nullopt;
  }

 private:
  std::vector<std::uint32_t> mask_;
};

template <class Cursor>
class constraint_by_size final : public token_constraint {
 public:
  explicit constraint_by_size(std::uint32_t vocab_size) : vocab_size_(vocab_size) {}
  std::unique_ptr<constraint_cursor> begin() const override { return std::make_unique<Cursor>(vocab_size_); }
  std::size_t num_bytes() const noexcept override { return sizeof *this; }

 private:
  std::uint32_t vocab_size_;
};

} // namespace

bool cycle_allows(std::span<const token_id> before, token_id token, std::uint32_t vocab_size) {
  const auto place = before.size();
  if (is_forced_place(place)) return token.value == forced_at(place, vocab_size);
  const bool repeats = !before.empty() && before.back() == token;
  return !repeats && (static_cast<std::size_t>(token.value) + place) % 3 != 0;
}

std::shared_ptr<const token_constraint> make_cycle_constraint(std::uint32_t vocab_size) {
  return std::make_shared<constraint_by_size<cycle_cursor>>(vocab_size);
}

std::shared_ptr<const token_constraint> make_free_constraint(std::uint32_t vocab_size) {
  return std::make_shared<constraint_by_size<free_cursor>>(vocab_size);
}

} // namespace paceline::test
