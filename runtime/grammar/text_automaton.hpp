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

/// What a text may obey: one of these.
struct text_condition {
  const regex_node* regex = nullptr;            ///< it matches a part of the text
  const std::set<std::string>* texts = nullptr; ///< the text is one of them
  std::uint32_t min_length = 0;                 ///< in characters
  std::uint32_t max_length = unbounded;
};

/// A deterministic automaton that tells which of several conditions a text obeys.
class text_automaton {
 public:
  struct edge {
    code_set on;
    std::uint32_t to;
  };
  struct state {
    std::vector<edge> edges; ///< to different states; other characters lead nowhere
    std::uint64_t obeyed;    ///< bit i: a text that ends here obeys condition i
    bool is_alive;           ///< a text that `is_wanted` can still come about
    bool is_wanted;
  };

  /// For at most 64 conditions, in at most `max_states` states; nullopt if that is not enough. `is_wanted`
  /// tells by the obeyed conditions whether a text is asked for. `work` is what may be spent, up to 100
  /// nanoseconds each: it becomes less.
  static std::optional<text_automaton> make(const std::vector<text_condition>& conditions,
                                            const std::function<bool(std::uint64_t)>& is_wanted,
                                            std::size_t max_states, std::size_t& work);

  /// Whether a text, which is well-formed UTF-8, is wanted.
  bool accepts(std::string_view text) const;
  /// The first state is where a text begins.
  const std::vector<state>& states() const noexcept { return states_; }
  /// Characters of the longest text that is wanted, and of the longest beginning of such a text that is not
  /// itself wanted; nullopt if there is no longest.
  std::optional<std::uint32_t> longest_text() const;
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
