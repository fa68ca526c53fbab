#include "runtime/tokenizer/text/token_table.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::tokenizer {

token_table::token_table(const std::vector<std::string>& spellings) {
  std::size_t num_bytes = 0;
  for (const auto& spelling : spellings) num_bytes += spelling.size();
  spellings_.reserve(spellings.size(), num_bytes);
  rehash(std::bit_ceil(spellings.size() * 2 + 2));
  for (const auto& spelling : spellings) append(spelling);
}

std::optional<token_id> token_table::find(std::string_view spelling) const noexcept {
  if (spelling.empty() || slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[slot_of(spelling)];
  return id < 0 ? std::nullopt : std::optional(token_id{id});
}

token_id token_table::intern(std::string_view spelling) {
  if (const auto id = find(spelling)) return *id;
  return append(spelling);
}

token_id token_table::append(std::string_view spelling) {
  const token_id id{static_cast<token_id::rep>(spellings_.size())};
  spellings_.push_back(spelling);
  longest_bytes_ = std::max(longest_bytes_, spelling.size());
  if (spelling.empty()) return id;
  if ((num_used_slots_ + 1) * 2 > slots_.size()) rehash(std::max<std::size_t>(slots_.size() * 2, 16));
  std::int32_t& slot = slots_[slot_of(spelling)];
  if (slot < 0) ++num_used_slots_;
  slot = id.value;
  return id;
}

void token_table::rehash(std::size_t num_slots) {
  const std::vector<std::int32_t> old = std::move(slots_);
  slots_.assign(num_slots, -1);
  for (const std::int32_t id : old)
    if (id >= 0) slots_[slot_of((*this)[token_id{id}])] = id;
}

std::size_t token_table::slot_of(std::string_view spelling) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = XXH3_64bits(spelling.data(), spelling.size()) & mask;
  while (slots_[slot] >= 0 && (*this)[token_id{slots_[slot]}] != spelling) slot = (slot + 1) & mask;
  return slot;
}

} // namespace paceline::tokenizer
