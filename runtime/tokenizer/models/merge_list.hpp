#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::tokenizer {

/// A word during merging: a linked list of symbols, and a heap of the possible merges between neighbours.
/// Time is O(n log n) in the number of symbols. An object is used by one thread, which reuses its memory (36
/// bytes for each symbol) for each word.
class merge_list {
 public:
  static constexpr std::uint32_t no_node = 0xffffffff;
  static constexpr std::size_t default_window_bytes = 64U << 10U;

  /// Words of more than `window_bytes` bytes are merged in windows of this size (`merge_in_windows`).
  explicit merge_list(std::size_t window_bytes = default_window_bytes) : window_bytes_(window_bytes) {}

  struct node {
    std::int32_t symbol; ///< defined by the model
    std::uint32_t begin; ///< bytes into the word
    std::uint32_t bytes; ///< 0: absorbed by its left neighbour
    std::uint32_t previous;
    std::uint32_t next;
  };
  /// The symbol that two neighbours would become.
  struct merge {
    std::uint32_t priority; ///< lowest first; among equal ones the leftmost
    std::int32_t symbol;
  };

  void clear() noexcept { nodes_.clear(); }

  void append(std::int32_t symbol, std::size_t begin, std::size_t bytes) {
    const auto index = static_cast<std::uint32_t>(nodes_.size());
    if (index != 0) nodes_.back().next = index;
    nodes_.push_back({symbol, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(bytes),
                      index == 0 ? no_node : index - 1, no_node});
  }

  /// Merges until no merge is possible. `find(left, right)` returns the optional merge of two neighbouring
  /// nodes.
  template <class Find>
  void merge_all(Find&& find) {
    heap_.clear();
    for (std::uint32_t i = 0; i + 1 < nodes_.size(); ++i) add_candidate(i, find);
    std::make_heap(heap_.begin(), heap_.end(), later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const candidate best = heap_.back();
      heap_.pop_back();
      node& left = nodes_[best.left];
      // Nodes only grow or disappear: the pair is unchanged iff both nodes exist and have the same total
      // length as when the candidate was found.
      if (left.bytes == 0 || left.next == no_node) continue;
      node& right = nodes_[left.next];
      if (left.bytes + right.bytes != best.bytes) continue;
      left.symbol = best.what.symbol;
      left.bytes = best.bytes;
      right.bytes = 0;
      left.next = right.next;
      if (right.next != no_node) nodes_[right.next].previous = best.left;
      for (const std::uint32_t i : {left.previous, best.left})
        if (add_candidate(i, find)) std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }

  /// Calls `visit(node)` for the remaining nodes, in order, until it returns false.
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (nodes_.empty()) return;
    for (std::uint32_t i = 0; i != no_node && visit(nodes_[i]); i = nodes_[i].next) {
    }
  }

  std::size_t window_bytes() const noexcept { return window_bytes_; }
  /// Bytes of memory that are kept from word to word.
  std::size_t num_bytes() const noexcept {
    return nodes_.capacity() * sizeof(node) + heap_.capacity() * sizeof(candidate);
  }

 private:
  struct candidate {
    merge what;
    std::uint32_t left;  ///< index of the left node
    std::uint32_t bytes; ///< of both nodes together when the candidate was found
  };

  static bool later(const candidate& a, const candidate& b) noexcept {
    return a.what.priority != b.what.priority ? a.what.priority > b.what.priority : a.left > b.left;
  }

  template <class Find>
  bool add_candidate(std::uint32_t left, Find& find) {
    if (left == no_node || nodes_[left].next == no_node) return false;
    const node& a = nodes_[left];
    const node& b = nodes_[a.next];
    const std::optional<merge> what = find(a, b);
    if (what) heap_.push_back({*what, left, a.bytes + b.bytes});
    return what.has_value();
  }

  std::size_t window_bytes_;
  std::vector<node> nodes_;
  std::vector<candidate> heap_;
};

} // namespace paceline::tokenizer
