#pragma once

#include "runtime/kv/pool_manager.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::kv {

/// The expected content of a cell: a fingerprint of everything on which its keys and values depend, so that a
/// cell of another prefix, tenant or request never equals the right one.
inline std::uint64_t next_content(std::uint64_t before, token_id token, bool as_prompt) {
  auto h = before + static_cast<std::uint64_t>(token.value) * 2 + (as_prompt ? 1 : 0) + 0x9E37'79B9'7F4A'7C15;
  h = (h ^ (h >> 30)) * 0xBF58'476D'1CE4'E5B9;
  return h ^ (h >> 31);
}

/// Memory and stream of one pool. Programs write and copy cells and run only when the stream reaches them,
/// long after the pool manager has continued. Newly leased blocks are filled with invalid values. Leasing a
/// block while a program still waits to use it is an error.
class shadow_device {
 public:
  static constexpr std::uint64_t poison = 0xDEAD'DEAD'DEAD'DEAD;

  struct write {
    std::uint64_t cell;
    std::uint64_t content;
  };

  shadow_device(std::uint32_t num_blocks, std::uint32_t block_size)
      : block_size_(block_size), cells_(std::size_t{num_blocks} * block_size, poison),
        num_pending_(num_blocks) {}

  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t content(block_id block, std::uint32_t offset) const {
    return cells_[std::size_t{block.value} * block_size_ + offset];
  }
  std::uint64_t cell_of(std::span<const block_id> blocks, std::uint32_t slot) const {
    return std::uint64_t{blocks[slot / block_size_].value} * block_size_ + slot % block_size_;
  }

  /// The pool manager has leased `blocks`. Returns an error if there is one.
  std::optional<std::string> lease_fresh(std::span<const block_id> blocks) {
    for (const auto block : blocks) {
      if (num_pending_[block.value] > 0)
        return "block " + to_string(block) + " leased while work on it is under way";
      for (std::uint32_t i = 0; i < block_size_; ++i)
        cells_[std::size_t{block.value} * block_size_ + i] = poison;
    }
    return std::nullopt;
  }

  std::uint64_t submit(std::vector<device::kv_copy> copies, std::vector<write> writes) {
    programs_.push_back({std::move(copies), std::move(writes)});
    count_pending(programs_.back(), 1);
    return ++submitted_;
  }

  /// Runs the oldest program; false if there is none.
  bool complete_one() {
    if (programs_.empty()) return false;
    const auto& p = programs_.front();
    for (const auto& c : p.copies)
      for (std::uint32_t i = 0; i < c.num_cells; ++i)
        cells_[std::size_t{c.to_block.value} * block_size_ + c.to_offset + i] =
            content(c.from_block, c.from_offset + i);
    for (const auto& w : p.writes) cells_[w.cell] = w.content;
    count_pending(p, -1);
    programs_.pop_front();
    ++completed_;
    return true;
  }

 private:
  struct program {
    std::vector<device::kv_copy> copies;
    std::vector<write> writes;
  };

  void count_pending(const program& p, std::int32_t by) {
    for (const auto& c : p.copies) {
      num_pending_[c.from_block.value] += by;
      num_pending_[c.to_block.value] += by;
    }
    for (const auto& w : p.writes) num_pending_[w.cell / block_size_] += by;
  }

  std::uint32_t block_size_;
  std::vector<std::uint64_t> cells_;
  std::vector<std::int32_t> num_pending_; ///< by block: number of programs that wait to use it
  std::deque<program> programs_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
};

} // namespace paceline::kv
