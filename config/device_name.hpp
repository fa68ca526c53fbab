#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::config {

/// How a GPU is to compute (docs/gpu.md).
enum class gpu_mode : std::uint8_t {
  strict,    ///< a row has the same bits in any company
  fast,      ///< it need not
  reference, ///< it has the bits of the CPU's
};

/// What a `device` option says.
struct device_name {
  std::optional<int> gpu; ///< none: the CPU, or that nothing was said
  gpu_mode mode = gpu_mode::strict;
};

/// The rule that a name must not break, for messages.
inline constexpr const char* device_rule =
    "none of auto, cpu, cuda:0 to cuda:255, cuda:0/fast, cuda:0/reference";

/// Reads "auto", "cpu", "cuda:N", "cuda:N/fast" or "cuda:N/reference"; "" is "auto". None for anything else.
inline std::optional<device_name> parse_device(std::string_view name) {
  if (name.empty() || name == "auto" || name == "cpu") return device_name{};
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size(), name.find('/') - prefix.size());
  const std::string_view suffix = name.substr(prefix.size() + digits.size());
  gpu_mode mode = gpu_mode::strict;
  if (suffix == "/fast")
    mode = gpu_mode::fast;
  else if (suffix == "/reference")
    mode = gpu_mode::reference;
  else if (!suffix.empty())
    return std::nullopt;
  int number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc() || end != digits.data() + digits.size() || digits.starts_with('-') ||
      number > 255)
    return std::nullopt;
  return device_name{number, mode};
}

} // namespace paceline::config
