#pragma once

#include "config/option.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Helpers for writing the option table: an option is declared with the struct member that stores it.
namespace paceline::config {

/// The double with the same decimal spelling as `x`: 0.1 for 0.1F.
inline double widen(float x) {
  std::array<char, 32> text{};
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), x);
  double wide = 0;
  std::from_chars(text.data(), end, wide);
  return wide;
}

/// The value of the option that is stored in `m`. `choices`: for an enum, the word of each enumerator, in
/// order (the enumerators must have the values 0, 1, ...); for other types unused.
template <class Member>
value to_value(const Member& m, const std::vector<std::string_view>& choices) {
  if constexpr (std::is_enum_v<Member>)
    return std::string(choices.at(static_cast<std::size_t>(m)));
  else if constexpr (std::is_same_v<Member, bool>)
    return m;
  else if constexpr (std::is_integral_v<Member>)
    return std::uint64_t{m};
  else if constexpr (std::is_floating_point_v<Member>)
    return widen(m);
  else if constexpr (std::is_same_v<Member, std::chrono::seconds>)
    return std::chrono::milliseconds(m);
  else
    return m;
}

/// Stores `v` in `m`. `v` must have the type that `to_value` returns for `m`, and for an enum be one of
/// `choices`. A member in seconds gets a duration rounded up.
template <class Member>
void from_value(Member& m, const value& v, const std::vector<std::string_view>& choices) {
  if constexpr (std::is_enum_v<Member>)
    m = static_cast<Member>(std::ranges::find(choices, std::get<std::string>(v)) - choices.begin());
  else if constexpr (std::is_same_v<Member, bool>)
    m = std::get<bool>(v);
  else if constexpr (std::is_integral_v<Member>)
    m = static_cast<Member>(std::get<std::uint64_t>(v));
  else if constexpr (std::is_floating_point_v<Member>)
    m = static_cast<Member>(std::get<double>(v));
  else if constexpr (std::is_same_v<Member, std::chrono::seconds>)
    m = std::chrono::ceil<std::chrono::seconds>(std::get<std::chrono::milliseconds>(v));
  else
    m = std::get<Member>(v);
}

/// The type of an option and, for integers, numbers, sizes (bytes) and durations (milliseconds), its range,
/// both ends included. For other types `lowest` and `highest` are 0.
struct limits {
  value_type type;
  std::uint64_t lowest;
  std::uint64_t highest;
};
inline limits integers(std::uint64_t lowest, std::uint64_t highest) {
  return {value_type::integer, lowest, highest};
}
inline limits numbers(std::uint64_t lowest, std::uint64_t highest) {
  return {value_type::number, lowest, highest};
}
inline limits sizes(std::uint64_t lowest, std::uint64_t highest) {
  return {value_type::size, lowest, highest};
}
inline limits durations(std::chrono::milliseconds lowest, std::chrono::milliseconds highest) {
  return {value_type::duration, static_cast<std::uint64_t>(lowest.count()),
          static_cast<std::uint64_t>(highest.count())};
}
inline constexpr limits booleans{value_type::boolean, 0, 0};
inline constexpr limits texts{value_type::text, 0, 0};
inline constexpr limits text_lists{value_type::text_list, 0, 0};

/// For the parameter `reloadable`: SIGHUP applies the option. Other options need a restart.
inline constexpr bool on_reload = true;

/// Declares options of `Object` in a group. `member(object)` returns a reference to the struct member that
/// stores the value. The initialiser of this member in `Object` is the option's default. The group must not
/// move while it is in use. `path`, `doc` and the words are stored as views and must outlive the group.
template <class Object>
class group_builder {
 public:
  explicit group_builder(option_group& group) : group_(group) {
    group.initial = [&group](std::string_view path) {
      const Object fresh;
      return group.find(path)->get(&fresh);
    };
  }

  template <class Access>
  void add(std::string_view path, limits l, Access member, std::string_view doc, bool reloadable = false) {
    declare(path, l, {}, member, doc, reloadable);
  }
  /// An option whose value is one of `words`. For an enum, word i belongs to the enumerator with value i.
  template <class Access>
  void add(std::string_view path, std::vector<std::string_view> words, Access member, std::string_view doc,
           bool reloadable = false) {
    declare(path, {value_type::choice, 0, 0}, std::move(words), member, doc, reloadable);
  }

 private:
  template <class Access>
  void declare(std::string_view path, limits l, std::vector<std::string_view> words, Access member,
               std::string_view doc, bool reloadable) {
    option o{path, l.type, l.lowest, l.highest, words, doc, reloadable, {}, {}};
    o.get = [member, words](const void* object) {
      return to_value(member(const_cast<Object&>(*static_cast<const Object*>(object))), words);
    };
    o.set = [member, words](void* object, const value& v) {
      from_value(member(*static_cast<Object*>(object)), v, words);
    };
    group_.options.push_back(std::move(o));
  }

  option_group& group_;
};

} // namespace paceline::config
