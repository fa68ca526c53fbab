#pragma once

#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/regex_syntax.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::grammar {

/// A condition on a text: `regex` if it is set, else `texts` if it is set, else the limits of its length.
struct text_condition {
  const regex_node* regex = nullptr;            ///< it matches a part of the text
  const std::set<std::string>* texts = nullptr; ///< the text is one of them
  std::uint32_t min_length = 0;                 ///< in characters
  std::uint32_t max_length = unbounded;
};

/// A deterministic automaton that decides which of several conditions a text obeys. The caller defines which
/// of these results make a text *wanted* (`make`).
class text_automaton {
 public:
  struct edge {
    code_set on;
    std::uint32_t to;
  };
  struct state {
    std::vector<edge> edges; ///< to different states; for any other character the text is not wanted
    std::uint64_t obeyed;    ///< bit i: a text that ends here obeys condition i
    bool is_alive;           ///< a wanted text can still be reached from here
    bool is_wanted;
  };

  /// Makes the automaton of at most 64 conditions; nullopt if more than `max_states` states or more than
  /// `work` units of work (at most 100 ns each) would be needed. `is_wanted` receives the conditions
  /// that a text obeys (bit i: condition i) and returns true if such a text is wanted. The work that was done
  /// is subtracted from `work`.
  static std::optional<text_automaton> make(const std::vector<text_condition>& conditions,
                                            const std::function<bool(std::uint64_t)>& is_wanted,
                                            std::size_t max_states, std::size_t& work);

  /// True if `text`, which must be well-formed UTF-8, is wanted.
  bool accepts(std::string_view text) const;
  /// The first state is where a text begins.
  const std::vector<state>& states() const noexcept { return states_; }
  /// Number of characters of the longest wanted text; nullopt if there is no longest one.
  std::optional<std::uint32_t> longest_text() const;
  /// The same for the longest text that is not wanted but is a prefix of a wanted text.
  std::optional<std::uint32_t> longest_beginning() const;

 private:
  void find_alive();
  std::optional<std::uint32_t> longest_way_to(const std::function<bool(const state&)>& is_end) const;

  struct way {
    code_range on;
    std::uint32_t to;
  };
  std::vector<state> states_;
  std::vector<std::vector<way>> ways_; ///< of each state, ascending: its edges in the order of characters
};

} // namespace paceline::grammar
