#pragma once

#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/text_automaton.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace paceline::grammar {

const code_set& every_character();

/// A nondeterministic automaton. Its states are called places; it is at several places at the same time. A
/// text obeys it if `end` is one of its places after the text.
struct text_machine {
  /// A machine with more places than this is not complete.
  static constexpr std::size_t max_places = 6'000;

  struct place {
    std::vector<std::uint32_t> free;     ///< reached without a character
    std::vector<std::uint32_t> at_begin; ///< the same, at the beginning of the text
    std::vector<std::uint32_t> at_end;   ///< the same, at its end: no character may follow
    std::vector<std::pair<code_set, std::uint32_t>> on;
  };
  std::vector<place> places{1};
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool may_go_on = false; ///< any text may follow `end`

  /// Adds a place and returns its number.
  std::uint32_t add() {
    places.emplace_back();
    return static_cast<std::uint32_t>(places.size() - 1);
  }
};

struct condition_part {
  text_machine machine;
  bool is_wanted;
};
/// A text obeys the condition if it obeys all machines with `is_wanted` and none of the others. At least one
/// machine has `is_wanted`. Every other one has `may_go_on`.
std::vector<condition_part> parts_of(const text_condition& condition);

} // namespace paceline::grammar
