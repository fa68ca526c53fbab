#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/text/string_list.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// Spellings by id, and ids by spelling in an open-addressing hash table. Thread-safe when const.
class token_table {
 public:
  token_table() = default;
  /// The id of a spelling is its index. If spellings are equal, `find` returns the last id. An empty spelling
  /// has an id, but `find` does not return it. `spellings` hold at most 4 GiB in total (ensured by the file's
  /// size check).
  explicit token_table(const std::vector<std::string>& spellings);

  std::size_t size() const noexcept { return spellings_.size(); }
  /// `id` must be below size().
  std::string_view operator[](token_id id) const noexcept {
    return spellings_[static_cast<std::size_t>(id.value)];
  }
  std::optional<token_id> find(std::string_view spelling) const noexcept;
  /// The id of `spelling`, which is added if it is not in the table.
  token_id intern(std::string_view spelling);
  std::size_t longest_bytes() const noexcept { return longest_bytes_; }

 private:
  token_id append(std::string_view spelling);
  void rehash(std::size_t num_slots);
  /// The slot that holds `spelling`, or the free one where it belongs.
  std::size_t slot_of(std::string_view spelling) const noexcept;

  string_list spellings_;
  std::vector<std::int32_t> slots_; ///< ids; -1 = free; size a power of two, at most half full
  std::size_t num_used_slots_ = 0;
  std::size_t longest_bytes_ = 0;
};

} // namespace paceline::tokenizer
