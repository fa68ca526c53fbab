#include "runtime/grammar/text_automaton.hpp"

#include "runtime/grammar/text_machine.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace paceline::grammar {

namespace {

/// Numbers of places. 2 * p stands for place p, and 2 * p + 1 for place p after an end anchor.
using places_at = std::vector<std::uint32_t>;

class builder {
 public:
  explicit builder(const std::vector<text_condition>& conditions) : num_conditions_(conditions.size()) {
    for (std::size_t i = 0; i < conditions.size(); ++i)
      for (auto& [machine, is_wanted] : parts_of(conditions[i])) {
        machines_.push_back(std::move(machine));
        uses_.push_back({i, is_wanted});
      }
  }

  bool is_possible() const {
    return std::all_of(machines_.begin(), machines_.end(),
                       [](const text_machine& m) { return m.places.size() <= text_machine::max_places; });
  }

  /// The work of looking once at every place and at every range of a set.
  std::size_t size() const {
    std::size_t count = 0;
    for (const auto& one : machines_)
      for (const auto& where : one.places) {
        count += 4;
        for (const auto& [set, target] : where.on) count += set.size();
      }
    return count;
  }
  std::size_t num_machines() const noexcept { return machines_.size(); }

  std::vector<places_at> start() {
    std::vector<places_at> out;
    for (const auto& one : machines_) out.push_back(closed(one, {one.begin * 2}, true));
    give_up(out);
    return out;
  }

  std::vector<places_at> next(const std::vector<places_at>& from, std::uint32_t code) {
    std::vector<places_at> out;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      const auto& one = machines_[i];
      if (one.may_go_on && from[i] == places_at{one.end * 2}) {
        out.push_back(from[i]);
        continue;
      }
      places_at to;
      for (const auto at : from[i]) {
        if (at % 2 == 1) continue; // no character may follow an end anchor
        for (const auto& [set, target] : one.places[at / 2].on) {
          ++work_;
          if (contains(set, code)) to.push_back(target * 2);
        }
      }
      out.push_back(closed(one, std::move(to), false));
    }
    give_up(out);
    return out;
  }

  std::uint64_t obeyed(const std::vector<places_at>& at) const {
    std::uint64_t broken = 0;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      const bool is_at_end = std::ranges::any_of(
          at[i], [&](std::uint32_t place_at) { return place_at / 2 == machines_[i].end; });
      if (is_at_end != uses_[i].is_wanted) broken |= std::uint64_t{1} << uses_[i].condition;
    }
    const auto all = num_conditions_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << num_conditions_) - 1;
    return all & ~broken;
  }

  /// Divides all characters into classes. Each set of a condition contains either all or none of a class's
  /// characters. Returns no classes if `spend` refuses the work.
  template <typename Spend>
  std::vector<code_set> classes(const Spend& spend) const {
    const auto by_content = [](const code_set* a, const code_set* b) {
      return std::lexicographical_compare(
          a->begin(), a->end(), b->begin(), b->end(),
          [](code_range x, code_range y) { return std::pair(x.first, x.last) < std::pair(y.first, y.last); });
    };
    std::set<const code_set*, decltype(by_content)> sets(by_content);
    for (const auto& one : machines_)
      for (const auto& where : one.places)
        for (const auto& [set, target] : where.on) sets.insert(&set);
    std::vector<std::uint32_t> borders; // all characters between two adjacent borders belong to the same sets
    for (const code_range range : every_character())
      borders.insert(borders.end(), {range.first, range.last + 1});
    for (const code_set* set : sets)
      for (const code_range range : *set) borders.insert(borders.end(), {range.first, range.last + 1});
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    // Each set divides the classes so far into the part inside the set and the part outside.
    std::vector<std::size_t> class_of(borders.size(), 0);
    std::size_t num_classes = 1;
    for (const code_set* set : sets) {
      std::map<std::size_t, std::size_t> parts;
      std::size_t num_seen = 0;
      for (const code_range range : *set) {
        const auto first = std::lower_bound(borders.begin(), borders.end(), range.first) - borders.begin();
        for (auto k = static_cast<std::size_t>(first); borders[k] <= range.last; ++k) {
          const auto [part, is_new] = parts.try_emplace(class_of[k], num_classes);
          num_classes += is_new ? 1 : 0;
          class_of[k] = part->second;
          ++num_seen;
        }
      }
      if (!spend(num_seen)) return {};
    }
    std::vector<code_set> out;
    std::map<std::size_t, std::size_t> numbers; // classes in the order of their first characters
    for (std::size_t k = 0; k + 1 < borders.size(); ++k) {
      const code_set range = to_set({{borders[k], borders[k + 1] - 1}});
      if (range.empty()) continue; // surrogates, which are not characters
      const auto [number, is_new] = numbers.try_emplace(class_of[k], out.size());
      if (is_new) out.emplace_back();
      auto& of_class = out[number->second];
      of_class.insert(of_class.end(), range.begin(), range.end());
    }
    return out;
  }

  std::size_t work() const noexcept { return work_; }

 private:
  /// Clears the places of conditions that no continuation can obey any more, so that they all count as one
  /// state.
  void give_up(std::vector<places_at>& at) const {
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (uses_[i].is_wanted || at[i] != places_at{machines_[i].end * 2}) continue;
      for (std::size_t k = 0; k < machines_.size(); ++k)
        if (uses_[k].condition == uses_[i].condition) at[k].clear();
    }
  }

  /// All places that can be reached from `at` without a character.
  places_at closed(const text_machine& one, places_at at, bool is_begin) {
    std::set<std::uint32_t> seen(at.begin(), at.end());
    while (!at.empty()) {
      const auto now = at.back();
      at.pop_back();
      const auto reach = [&](std::uint32_t to, std::uint32_t is_behind) {
        ++work_;
        if (seen.insert(to * 2 + is_behind).second) at.push_back(to * 2 + is_behind);
      };
      const auto& where = one.places[now / 2];
      for (const auto to : where.free) reach(to, now % 2);
      if (is_begin)
        for (const auto to : where.at_begin) reach(to, now % 2);
      for (const auto to : where.at_end) reach(to, 1);
    }
    // If the condition holds for every continuation, the other places make no difference.
    if (one.may_go_on && seen.contains(one.end * 2)) return {one.end * 2};
    return {seen.begin(), seen.end()};
  }

  /// A text obeys the condition only if `is_wanted` tells whether it obeys the machine.
  struct use {
    std::size_t condition;
    bool is_wanted;
  };
  std::size_t num_conditions_;
  std::vector<text_machine> machines_;
  std::vector<use> uses_; ///< of `machines_`
  std::size_t work_ = 0;
};

} // namespace

std::optional<text_automaton> text_automaton::make(const std::vector<text_condition>& conditions,
                                                   const std::function<bool(std::uint64_t)>& is_wanted,
                                                   std::size_t max_states, std::size_t& work) {
  constexpr std::size_t max_conditions = 64;
  if (conditions.size() > max_conditions || work == 0) return std::nullopt;
  builder from(conditions);
  const auto spend = [&](std::size_t count) {
    work -= std::min(work, count);
    return work > 0;
  };
  if (!spend(from.size()) || !from.is_possible()) return std::nullopt;
  const auto classes = from.classes(spend);
  if (classes.empty()) return std::nullopt;
  text_automaton out;
  std::map<std::vector<places_at>, std::uint32_t> numbers;
  std::vector<std::vector<places_at>> open;
  const auto number_of = [&](std::vector<places_at> at) {
    const auto [found, is_new] = numbers.emplace(std::move(at), static_cast<std::uint32_t>(numbers.size()));
    if (is_new) open.push_back(found->first);
    return found->second;
  };
  number_of(from.start());
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto now = open[i];
    auto& ways = out.ways_.emplace_back();
    for (const auto& one : classes) {
      const auto before = from.work();
      const auto to = number_of(from.next(now, one.front().first));
      for (const code_range range : one) ways.push_back({range, to});
      const auto spent = 10 + one.size() + from.num_machines() + from.work() - before;
      if (!spend(spent) || numbers.size() > max_states) return std::nullopt;
    }
    std::sort(ways.begin(), ways.end(), [](const way& a, const way& b) { return a.on.first < b.on.first; });
    std::map<std::uint32_t, std::vector<code_range>> targets;
    for (const auto& [range, to] : ways) targets[to].push_back(range);
    state made{{}, from.obeyed(now), false, false};
    made.is_wanted = is_wanted(made.obeyed);
    for (auto& [to, ranges] : targets) made.edges.push_back({to_set(std::move(ranges)), to});
    out.states_.push_back(std::move(made));
  }
  out.find_alive();
  return out;
}

bool text_automaton::accepts(std::string_view text) const {
  std::uint32_t now = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto code = next_code_point(text, at);
    if (!code) return false;
    const auto& ways = ways_[now];
    const auto behind = std::upper_bound(ways.begin(), ways.end(), *code,
                                         [](std::uint32_t c, const way& w) { return c < w.on.first; });
    if (behind == ways.begin() || std::prev(behind)->on.last < *code) return false;
    now = std::prev(behind)->to;
  }
  return states_[now].is_wanted;
}

void text_automaton::find_alive() {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (auto one = states_.rbegin(); one != states_.rend(); ++one) {
      if (one->is_alive) continue;
      one->is_alive = one->is_wanted || std::any_of(one->edges.begin(), one->edges.end(),
                                                    [&](const edge& e) { return states_[e.to].is_alive; });
      is_changed = is_changed || one->is_alive;
    }
  }
  for (auto& one : states_) std::erase_if(one.edges, [&](const edge& e) { return !states_[e.to].is_alive; });
}

std::optional<std::uint32_t>
text_automaton::longest_way_to(const std::function<bool(const state&)>& is_end) const {
  // A path that is longer than the number of states contains a cycle.
  std::vector<bool> now(states_.size(), false);
  now[0] = true;
  std::uint32_t longest = 0;
  for (std::uint32_t length = 0;; ++length) {
    std::vector<bool> next(states_.size(), false);
    bool goes_on = false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!now[i]) continue;
      if (is_end(states_[i])) longest = length;
      for (const auto& e : states_[i].edges) next[e.to] = goes_on = true;
    }
    if (longest == length && length > states_.size()) return std::nullopt;
    if (!goes_on || length > 2 * states_.size()) return longest;
    now = std::move(next);
  }
}

std::optional<std::uint32_t> text_automaton::longest_text() const {
  return longest_way_to([](const state& one) { return one.is_wanted; });
}

std::optional<std::uint32_t> text_automaton::longest_beginning() const {
  return longest_way_to([](const state& one) { return one.is_alive && !one.is_wanted; });
}

} // namespace paceline::grammar
