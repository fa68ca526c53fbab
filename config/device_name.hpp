#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace paceline::config {

/// What a `device` option says.
struct device_name {
  std::optional<int> gpu; ///< none: the CPU, or that nothing was said
  bool reference = false; ///< the GPU's results shall have the bits of the CPU's
};

/// The rule that a name must not break, for messages.
inline constexpr const char* device_rule = "none of auto, cpu, cuda:0 to cuda:255, cuda:0/reference";

/// Reads "auto", "cpu", "cuda:N" or "cuda:N/reference"; "" is "auto". None for anything else.
inline std::optional<device_name> parse_device(std::string_view name) {
  if (name.empty() || name == "auto" || name == "cpu") return device_name{};
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return std::nullopt;
  constexpr std::string_view suffix = "/reference";
  const bool reference = name.ends_with(suffix);
  if (reference) name.remove_suffix(suffix.size());
  const std::string_view digits = name.substr(prefix.size());
  int number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc() || end != digits.data() + digits.size() || digits.starts_with('-') ||
      number > 255)
    return std::nullopt;
  return device_name{number, reference};
}

} // namespace paceline::config
