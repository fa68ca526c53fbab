#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace paceline::grammar {

/// A constraint whose cursors have type `Cursor` and share one immutable `Terms`. `Terms` has a function
/// `num_bytes()`.
template <class Cursor, class Terms>
class constraint_of final : public token_constraint {
 public:
  explicit constraint_of(Terms terms) : terms_(std::make_shared<const Terms>(std::move(terms))) {}
  std::unique_ptr<constraint_cursor> begin() const override { return std::make_unique<Cursor>(terms_); }
  std::size_t num_bytes() const noexcept override { return terms_->num_bytes(); }

 private:
  std::shared_ptr<const Terms> terms_;
};

template <class Cursor, class Terms>
std::shared_ptr<const token_constraint> make_constraint(Terms terms) {
  return std::make_shared<constraint_of<Cursor, Terms>>(std::move(terms));
}

} // namespace paceline::grammar
