#pragma once

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/models/merge_list.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace paceline::tokenizer {

/// Merges a word of any length with the memory that one window needs. The result is the same as for the whole
/// word at once.
///
/// A node is a symbol that is left after merging. A sequence of nodes is the result for a text if and only if
/// each pair of neighbours is the result for the text of this pair. The reason: as long as no merge crosses
/// the border between the two nodes of a pair, the merges within each node are those of the pair's text
/// alone.
///
/// Algorithm: the first window of the text is merged, and the last part of its result is dropped, because
/// later text may change it. The next window begins with the last remaining node. If the result of the next
/// window begins with the same node, all pairs of neighbours are right. Otherwise the windows were too short:
/// `restart()` is called, and the word is merged again with windows of twice the length, if necessary as a
/// whole.
///
/// `append(begin, end)` appends the characters of these bytes of the word to `work`. `find`: see
/// `merge_list::merge_all`. `visit(node)` is called for the nodes in order. If it returns false, merging
/// ends. Later windows, which could have led to a restart, are then not computed.
template <class Append, class Find, class Visit, class Restart>
void merge_in_windows(std::string_view word, merge_list& work, Append append, Find find, Visit visit,
                      Restart restart) {
  auto window = work.window_bytes();
  std::size_t begin = 0;
  std::optional<merge_list::node> known; // the node with which the window's result must begin
  for (;;) {
    auto end = begin + std::min(window, word.size() - begin);
    while (end < word.size() && is_utf8_continuation(word[end])) --end;
    const bool is_last = end == word.size();
    work.clear();
    append(begin, end);
    work.merge_all(find);
    const auto trusted = is_last ? end : end - window / 8;
    std::optional<merge_list::node> first, next; // next: begins the next window
    work.for_each([&](const merge_list::node& node) {
      if (!first) first = node;
      if (node.begin + node.bytes > trusted) return false;
      if (node.begin > begin) next = node;
      return true;
    });
    if ((known && (!first || first->bytes != known->bytes)) || (!is_last && !next)) {
      restart();
      window *= 2;
      begin = 0;
      known.reset();
      continue;
    }
    bool wanted = true;
    work.for_each([&](const merge_list::node& node) {
      return (is_last || node.begin < next->begin) && (wanted = visit(node));
    });
    if (is_last || !wanted) return;
    begin = next->begin;
    known = next;
  }
}

} // namespace paceline::tokenizer
