#include "protocol/wire/mistral_prompt.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::wire {

namespace {

constexpr std::size_t id_size = 9;

bool is_mistral_id(std::string_view id) noexcept {
  return id.size() == id_size &&
         std::ranges::all_of(id, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

/// Characters from the FNV-1a hash of the id.
std::string short_id(std::string_view id) {
  static constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::string out;
  for (; out.size() < id_size; hash /= digits.size()) out += digits[hash % digits.size()];
  return out;
}

void shorten_id(boost::json::object& owner, std::string_view name) {
  auto* id = owner.if_contains(name);
  if (id != nullptr && id->is_string() && !is_mistral_id(id->get_string())) *id = short_id(id->get_string());
}

} // namespace

void fit_to_mistral(boost::json::object& variables) {
  for (auto& message : variables["messages"].as_array()) {
    auto& turn = message.as_object();
    shorten_id(turn, "tool_call_id");
    if (auto* calls = turn.if_contains("tool_calls"))
      for (auto& call : calls->as_array()) shorten_id(call.as_object(), "id");
  }
}

} // namespace paceline::wire
