#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::config {

/// The arithmetic mode of a GPU (docs/gpu.md).
enum class gpu_mode : std::uint8_t {
  strict,    ///< a row's results have the same bits whatever other rows are computed with it
  fast,      ///< the bits of a row's results may depend on the other rows
  reference, ///< a row's results have the same bits as on the CPU
};

/// The value of a `device` option.
struct device_name {
  std::optional<int> gpu; ///< number of the CUDA device; nullopt for "cpu", "auto" and ""
  gpu_mode mode = gpu_mode::strict;
};

/// The error message for a name that `parse_device` refuses is "'NAME' is " followed by this text.
inline constexpr const char* device_rule =
    "none of auto, cpu, cuda:0 to cuda:255, cuda:N/fast, cuda:N/reference";

/// Parses "auto", "cpu", "cuda:N", "cuda:N/fast" or "cuda:N/reference" with N from 0 to 255; "" means "auto".
/// nullopt for anything else.
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
