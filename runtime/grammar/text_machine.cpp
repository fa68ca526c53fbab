#include "runtime/grammar/text_machine.hpp"

#include "runtime/grammar/regex_syntax.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace paceline::grammar {

namespace {

using node_kind = regex_node::kind;

/// Adds the places and edges of regular expressions to a machine.
class expression_writer {
 public:
  explicit expression_writer(text_machine& to) : to_(to) {}

  /// Adds `node` behind the place `from`. Returns the place where it ends.
  std::uint32_t put(const regex_node& node, std::uint32_t from) {
    if (is_full()) return from;
    const auto step = [&](auto member) {
      const auto to = to_.add();
      (to_.places[from].*member).push_back(to);
      return to;
    };
    switch (node.what) {
    case node_kind::characters: {
      const auto to = to_.add();
      to_.places[from].on.emplace_back(node.characters, to);
      return to;
    }
    case node_kind::begin_anchor:
      return step(&text_machine::place::at_begin);
    case node_kind::end_anchor:
      return step(&text_machine::place::at_end);
    case node_kind::sequence:
      for (const auto& part : node.parts) from = put(part, from);
      return from;
    case node_kind::choice:
      return put_choice(node, from);
    case node_kind::repeat:
      return put_repeat(node, from);
    case node_kind::look_ahead:
    case node_kind::negative_look_ahead:
      break; // these are machines of their own
    }
    return from;
  }

 private:
  bool is_full() const { return to_.places.size() > text_machine::max_places; }
  void put_free(std::uint32_t from, std::uint32_t to) { to_.places[from].free.push_back(to); }

  std::uint32_t put_choice(const regex_node& node, std::uint32_t from) {
    const auto to = to_.add();
    for (const auto& part : node.parts) {
      const auto first = to_.add();
      put_free(from, first);
      put_free(put(part, first), to);
    }
    return to;
  }

  std::uint32_t put_repeat(const regex_node& node, std::uint32_t from) {
    const auto& part = node.parts.front();
    for (std::uint32_t i = 0; i < node.min && !is_full(); ++i) from = put(part, from);
    const auto to = to_.add();
    put_free(from, to);
    if (node.max == unbounded) {
      const auto again = to_.add();
      put_free(from, again);
      const auto last = put(part, again);
      put_free(last, again);
      put_free(last, to);
      return to;
    }
    for (std::uint32_t i = node.min; i < node.max && !is_full(); ++i) {
      const auto first = to_.add();
      put_free(from, first);
      from = put(part, first);
      put_free(from, to);
    }
    return to;
  }

  text_machine& to_;
};

/// A machine for texts of which a part matches.
text_machine machine_of(const regex_node& regex) {
  text_machine out;
  const auto start = out.add();
  out.places[0].on.emplace_back(every_character(), 0);
  out.places[0].free.push_back(start);
  out.end = expression_writer(out).put(regex, start);
  out.may_go_on = true;
  return out;
}

text_machine machine_of(const std::set<std::string>& texts) {
  text_machine out;
  out.end = out.add();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known; // by place and character
  for (const auto& text : texts) {
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < text.size() && out.places.size() <= text_machine::max_places;) {
      const auto code = next_code_point(text, i).value_or(0);
      const auto [found, is_new] = known.try_emplace({at, code}, 0);
      if (is_new) {
        found->second = out.add();
        out.places[at].on.push_back({{{code, code}}, found->second});
      }
      at = found->second;
    }
    out.places[at].free.push_back(out.end);
  }
  return out;
}

text_machine machine_of_length(std::uint32_t min, std::uint32_t max) {
  text_machine out;
  const auto count = max == unbounded ? min : max;
  out.end = out.add();
  std::uint32_t at = 0;
  for (std::uint32_t i = 0;; ++i) {
    if (i >= min) out.places[at].free.push_back(out.end);
    if (i == count || out.places.size() > text_machine::max_places) break;
    const auto next = out.add();
    out.places[at].on.emplace_back(every_character(), next);
    at = next;
  }
  out.may_go_on = max == unbounded;
  return out;
}

} // namespace

const code_set& every_character() {
  static const code_set set = complement({});
  return set;
}

std::vector<condition_part> parts_of(const text_condition& condition) {
  std::vector<condition_part> out;
  if (condition.regex == nullptr) {
    out.push_back({condition.texts != nullptr ? machine_of(*condition.texts)
                                              : machine_of_length(condition.min_length, condition.max_length),
                   true});
    return out;
  }
  for (const auto& part : condition.regex->parts) {
    if (part.what != node_kind::look_ahead && part.what != node_kind::negative_look_ahead) continue;
    regex_node ahead; // the anchor in front of the look-aheads, and what this one looks for
    ahead.parts = {condition.regex->parts.front(), part.parts.front()};
    out.push_back({machine_of(ahead), part.what == node_kind::look_ahead});
  }
  out.push_back({machine_of(*condition.regex), true});
  return out;
}

} // namespace paceline::grammar
