#include "protocol/wire/fields/field_table.hpp"

#include <algorithm>
#include <array>

namespace paceline::wire {

namespace {

constexpr std::size_t num_rows = [] {
  std::size_t count = 0;
  for (const auto& group : field_groups) count += group.rows.size();
  return count;
}();

struct name_list {
  std::array<std::string_view, num_rows> names{};
  std::size_t size = 0;
};

/// The names of all rows, each once.
constexpr name_list listed = [] {
  name_list out;
  for (const auto& group : field_groups)
    for (const auto& row : group.rows) {
      const auto* end = out.names.data() + out.size;
      if (std::find(static_cast<const std::string_view*>(out.names.data()), end, row.name) == end)
        out.names[out.size++] = row.name;
    }
  return out;
}();

constexpr std::size_t longest_name = [] {
  std::size_t most = 0;
  for (std::size_t i = 0; i < listed.size; ++i) most = std::max(most, listed.names[i].size());
  return most;
}();

constexpr std::size_t num_slots = 1024;

/// The first slot to examine for a name, which is not empty.
constexpr std::size_t first_slot(std::string_view name) noexcept {
  const auto at = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(name[i]));
  };
  const auto size = name.size();
  const auto mixed =
      (static_cast<std::uint32_t>(size) + (at(0) << 8U) + (at(size / 2) << 16U) + (at(size - 1) << 24U)) *
      0x9e3779b1U;
  return (mixed ^ at(size / 3) * 0x85ebca6bU) >> 22U;
}

/// Open addressing with linear probing.
struct name_slots {
  std::array<std::int16_t, num_slots> index{};
  std::size_t longest_probe = 0;
};

constexpr name_slots slots = [] {
  name_slots out;
  for (auto& index : out.index) index = -1;
  for (std::size_t i = 0; i < listed.size; ++i) {
    auto slot = first_slot(listed.names[i]);
    std::size_t probe = 1;
    for (; out.index[slot] >= 0; ++probe) slot = (slot + 1) % num_slots;
    out.index[slot] = static_cast<std::int16_t>(i);
    out.longest_probe = std::max(out.longest_probe, probe);
  }
  return out;
}();
static_assert(slots.longest_probe <= 4, "names collide: change the hash");

} // namespace

const std::size_t num_field_names = listed.size;
const std::size_t longest_field_name = longest_name;
static_assert(listed.size < 255, "field_reader keeps positions in bytes");

int index_of_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > longest_name) return -1;
  for (auto slot = first_slot(name);; slot = (slot + 1) % num_slots) {
    const auto index = slots.index[slot];
    if (index < 0 || listed.names[static_cast<std::size_t>(index)] == name) return index;
  }
}

std::string path_of(const field_spec& row) {
  auto path = std::string(row.object);
  if (!path.empty()) path += '.';
  return path.append(row.name);
}

bool is_json(std::string_view initial) noexcept {
  if (initial == "true" || initial == "false" || initial.starts_with('"')) return true;
  return !initial.empty() && initial.find_first_not_of("-.0123456789") == std::string_view::npos;
}

bool is_neutral(neutral_value neutral, json_view value) {
  const auto number = value.number();
  switch (neutral) {
  case neutral_value::none:
    return false;
  case neutral_value::is_true:
    return value.boolean() == true;
  case neutral_value::is_false:
    return value.boolean() == false;
  case neutral_value::zero:
    return number == 0.0;
  case neutral_value::not_positive:
    return number && *number <= 0;
  case neutral_value::at_least_one:
    return number && *number >= 1;
  case neutral_value::at_most_one:
    return number && *number <= 1;
  case neutral_value::empty:
    return value.is_string("") || (value.is_array() && value.elements().empty()) ||
           (value.is_object() && value.members().empty());
  case neutral_value::medium:
    return value.is_string("medium");
  case neutral_value::calls_no_function:
    return value.is_string("none") || value.is_string("auto");
  }
  return false;
}

} // namespace paceline::wire
