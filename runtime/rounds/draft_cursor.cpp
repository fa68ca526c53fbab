#include "runtime/rounds/draft_cursor.hpp"

namespace paceline::rounds {

constraint_cursor* draft_cursor::at(const token_constraint* constraint, std::size_t num_output) {
  if (constraint == nullptr) return nullptr;
  if (!cursor_) cursor_ = constraint->begin();
  if (!cursor_->is_exhausted()) return cursor_.get();
  if (!rests_until_) {
    rests_until_ = num_output + next_rest_;
    next_rest_ *= 2;
  }
  if (num_output >= *rests_until_) {
    cursor_ = constraint->begin();
    rests_until_.reset();
  }
  return cursor_.get();
}

} // namespace paceline::rounds
