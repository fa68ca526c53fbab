#pragma once

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/models/merge_list.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace paceline::tokenizer {

/// Merges `word` with the memory of a window, whatever its length.
///
/// Nodes are what merging a whole text leaves iff each two neighbours are what merging these two alone
/// leaves: up to the first merge across a boundary between nodes, what happens on both sides of it is what
/// happens when the two stand alone. So the beginning of a text is merged, its last part is dropped, because
/// what follows may change it, and the next window begins with the last node that is left. If that node comes
/// out of it again, all neighbours are right. Else the windows were too short: `restart()` is called, and the
/// word is merged anew with windows of twice the length, at last as a whole.
///
/// `append(begin, end)` gives `work` the characters of these bytes; `find`: see `merge_list::merge_all`;
/// `visit(node)` is called in order, until it says false: then later windows, which might have led to a
/// restart, are not looked at.
template <class Append, class Find, class Visit, class Restart>
void merge_in_windows(std::string_view word, merge_list& work, Append append, Find find, Visit visit,
                      Restart restart) {
  auto window = work.window_bytes();
  std::size_t begin = 0;
  std::optional<merge_list::node> known; // what the window has to begin with
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
