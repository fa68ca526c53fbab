#include "server/http/access.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>

namespace paceline::server {

namespace {

std::string_view without_port(std::string_view host) noexcept {
  if (!host.empty() && host.front() == '[')
    return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, std::min(host.find(':'), host.size()));
}

bool is_loopback_v4(std::string_view host) noexcept {
  return host.substr(0, 4) == "127." &&
         std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); }) &&
         std::count(host.begin(), host.end(), '.') == 3;
}

} // namespace

key_digest digest_of(std::string_view text) noexcept {
  key_digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

std::string to_hex(const key_digest& digest) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (const auto byte : digest) out += {hex[byte >> 4U], hex[byte & 15U]};
  return out;
}

key_ring::key_ring(const std::vector<std::string>& keys) {
  for (const auto& key : keys) digests_.push_back(digest_of(key));
}

expected<key_ring> key_ring::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error{errc::not_found, path + ": cannot read the file of API keys"};
  std::vector<std::string> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
    if (!std::all_of(line.begin(), line.end(), printable) || line.size() > 512)
      return error{errc::invalid_file, path + ":" + std::to_string(number) +
                                           ": a key has 1 to 512 printable characters without spaces"};
    keys.push_back(line);
  }
  if (keys.empty()) return error{errc::invalid_file, path + ": holds no key"};
  return key_ring(keys);
}

bool key_ring::holds(std::string_view key) const noexcept {
  const auto digest = digest_of(key);
  unsigned found = 0;
  // Every key is compared, whatever was found before.
  for (const auto& known : digests_)
    found |= static_cast<unsigned>(CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0);
  return found != 0;
}

std::string_view bearer_key(std::string_view authorization) noexcept {
  static constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size()) return {};
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != scheme[i]) return {};
  }
  authorization.remove_prefix(scheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

bool is_loopback_host(std::string_view host) noexcept {
  const auto name = without_port(host);
  return name == "localhost" || name == "[::1]" || is_loopback_v4(name);
}

bool is_loopback_address(std::string_view address) noexcept {
  return address == "localhost" || address == "::1" || is_loopback_v4(address);
}

bool host_allowed(std::string_view host, bool loopback_bind, const std::vector<std::string>& allowed) {
  const auto listed = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
    return name == host || name == without_port(host);
  });
  if (listed) return true;
  return loopback_bind ? is_loopback_host(host) : allowed.empty();
}

bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed) {
  if (origin.empty()) return true;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.substr(0, scheme.size()) != scheme) continue;
    const auto page_host = origin.substr(scheme.size());
    if (page_host == host || is_loopback_host(page_host)) return true;
  }
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& name) { return name == "*" || name == origin; });
}

} // namespace paceline::server
