#pragma once

#include <string>
#include <string_view>

namespace paceline::config {

/// True if two host names are equal, ignoring the case of letters.
bool same_host_name(std::string_view a, std::string_view b) noexcept;

/// True for an IPv4 address of four decimal octets.
bool is_ipv4(std::string_view text) noexcept;

/// The address to bind for a configured host: the host itself if it is an IP address, 127.0.0.1 if it is
/// "localhost" (ignoring case), otherwise empty.
std::string address_to_bind(std::string_view host);

/// True if a host to bind is reachable from this machine only: localhost, 127.0.0.0/8, ::1.
bool is_loopback_address(std::string_view host) noexcept;

} // namespace paceline::config
