#include "config/host_names.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <optional>

namespace paceline::config {

namespace {

constexpr std::string_view localhost = "localhost";

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// The bytes of an address of one family; nullopt if `text` is not such an address.
template <std::size_t Size>
std::optional<std::array<std::uint8_t, Size>> bytes_of(int family, std::string_view text) noexcept {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  std::array<std::uint8_t, Size> bytes{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::copy(text.begin(), text.end(), terminated.begin());
  return inet_pton(family, terminated.data(), bytes.data()) == 1 ? std::optional(bytes) : std::nullopt;
}

std::optional<std::array<std::uint8_t, 4>> ipv4_of(std::string_view text) noexcept {
  return bytes_of<4>(AF_INET, text);
}

bool is_ipv6(std::string_view text) noexcept {
  const auto scope = text.find('%'); // the network interface of a link-local address
  return bytes_of<16>(AF_INET6, text.substr(0, scope)).has_value();
}

} // namespace

bool same_host_name(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char left, char right) { return lower(left) == lower(right); });
}

bool is_ipv4(std::string_view text) noexcept { return ipv4_of(text).has_value(); }

std::string address_to_bind(std::string_view host) {
  if (same_host_name(host, localhost)) return "127.0.0.1";
  return is_ipv4(host) || is_ipv6(host) ? std::string(host) : std::string();
}

bool is_loopback_address(std::string_view host) noexcept {
  const auto octets = ipv4_of(host);
  return same_host_name(host, localhost) || host == "::1" || (octets && octets->front() == 127);
}

} // namespace paceline::config
