#include "server/http/access.hpp"

#include "config/host_names.hpp"
#include "server/http/field_characters.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>

namespace paceline::server {

namespace {

using config::same_host_name;

std::string_view without_port(std::string_view host) noexcept {
  if (!host.empty() && host.front() == '[')
    return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, std::min(host.find(':'), host.size()));
}

/// The rights in the text after a key. The text is empty or the key's best priority.
std::optional<key_rights> rights_of(std::string_view text) noexcept {
  static constexpr std::string_view name = "best_priority=";
  key_rights rights;
  if (text.empty()) return rights;
  if (text.substr(0, name.size()) != name) return std::nullopt;
  text.remove_prefix(name.size());
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, rights.best_priority);
  return failure == std::errc{} && stop == end ? std::optional(rights) : std::nullopt;
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
  for (const auto& key : keys) entries_.push_back({digest_of(key), {}});
}

bool may_be_key(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 512 &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

expected<key_ring> key_ring::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error{errc::not_found, path + ": cannot read the file of API keys"};
  key_ring ring;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const auto key = std::string_view(line).substr(0, line.find(' '));
    auto rest = std::string_view(line).substr(key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto rights = rights_of(rest);
    if (!may_be_key(key) || !rights)
      return error{errc::invalid_file,
                   path + ":" + std::to_string(number) +
                       ": a key has 1 to 512 printable characters without spaces; behind it may stand "
                       "best_priority=N"};
    ring.entries_.push_back({digest_of(key), *rights});
  }
  if (ring.empty()) return error{errc::invalid_file, path + ": holds no key"};
  return ring;
}

key_changes key_ring::since(const key_ring& before) const {
  const auto by_digest = [](const key_ring& ring) {
    std::map<key_digest, std::int32_t> rights; // if a key occurs twice, the last line counts
    for (const auto& one : ring.entries_) rights[one.digest] = one.rights.best_priority;
    return rights;
  };
  const auto old = by_digest(before);
  const auto fresh = by_digest(*this);
  key_changes changes;
  for (const auto& [digest, best_priority] : fresh) {
    const auto known = old.find(digest);
    if (known == old.end())
      ++changes.added;
    else if (known->second != best_priority)
      ++changes.changed;
  }
  changes.removed = old.size() + changes.added - fresh.size();
  return changes;
}

std::optional<key_rights> key_ring::find(std::string_view key) const noexcept {
  const auto digest = digest_of(key);
  std::optional<key_rights> found;
  // Every key is compared, even after a match, so that the time reveals nothing about the keys.
  for (const auto& known : entries_)
    if (CRYPTO_memcmp(known.digest.data(), digest.data(), digest.size()) == 0) found = known.rights;
  return found;
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

offered_protocols read_protocols(std::string_view header) noexcept {
  static constexpr std::string_view key_prefix = "openai-insecure-api-key.";
  offered_protocols found;
  while (!header.empty()) {
    const auto end = std::min(header.find(','), header.size());
    auto name = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    if (name.starts_with(key_prefix)) {
      if (found.key.empty()) found.key = name.substr(key_prefix.size());
    } else if (found.answer.empty() && !name.empty() && name.size() <= 64 &&
               !name.starts_with("openai-organization.") && !name.starts_with("openai-project.") &&
               std::all_of(name.begin(), name.end(), is_token_char)) {
      found.answer = name;
    }
  }
  return found;
}

bool is_loopback_host(std::string_view host) noexcept {
  const auto name = without_port(host);
  return name == "[::1]" || config::is_loopback_address(name);
}

bool is_ip_literal(std::string_view host) noexcept {
  const auto name = without_port(host);
  if (config::is_ipv4(name)) return true;
  if (name.size() < 4 || name.front() != '[' || name.back() != ']') return false;
  const auto inner = name.substr(1, name.size() - 2);
  return inner.find(':') != std::string_view::npos &&
         inner.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

bool host_allowed(std::string_view host, const host_rules& rules) {
  const auto listed = std::any_of(rules.allowed.begin(), rules.allowed.end(), [&](const std::string& name) {
    return same_host_name(name, host) || same_host_name(name, without_port(host));
  });
  if (listed || is_loopback_host(host)) return true;
  if (config::is_loopback_address(rules.bound_host) || !rules.allowed.empty()) return false;
  return rules.has_keys || is_ip_literal(host) || same_host_name(without_port(host), rules.bound_host);
}

std::vector<std::string> permitted_headers(std::string_view requested) {
  static constexpr std::string_view always[] = {
      "anthropic-beta",      "anthropic-dangerous-direct-browser-access",
      "anthropic-version",   "authorization",
      "content-type",        "openai-beta",
      "openai-organization", "openai-project",
      "user-agent",          "x-api-key",
      "x-request-id"};
  // Headers about the client: its language and its retries.
  static constexpr std::string_view prefix = "x-stainless-";
  std::vector<std::string> names(std::begin(always), std::end(always));
  while (!requested.empty()) {
    const auto end = std::min(requested.find(','), requested.size());
    std::string name;
    for (const char c : requested.substr(0, end))
      if (c != ' ' && c != '\t') name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    requested.remove_prefix(std::min(end + 1, requested.size()));
    const bool is_stainless = name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
                              std::all_of(name.begin(), name.end(), is_token_char);
    if (is_stainless && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed,
                    bool is_secure) {
  if (origin.empty()) return true;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.substr(0, scheme.size()) != scheme) continue;
    const auto page_host = origin.substr(scheme.size());
    const bool is_own = same_host_name(page_host, host) && (!is_secure || scheme == "https://");
    if (is_own || is_loopback_host(page_host)) return true;
  }
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& name) { return name == "*" || same_host_name(name, origin); });
}

} // namespace paceline::server
