#include "server/edge_context.hpp"

#include "runtime/base/check.hpp"

#include <openssl/rand.h>

#include <array>
#include <cstring>

namespace paceline::server {

namespace {

template <std::size_t N>
std::array<unsigned char, N> random_bytes() {
  std::array<unsigned char, N> bytes{};
  PACELINE_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
                 "the system has no random bytes");
  return bytes;
}

/// True if an object of `body` may have a member that leads to a grammar. An escaped letter could be part of
/// such a name.
bool may_name_a_grammar(std::string_view body) {
  static constexpr std::string_view names[] = {
      "\"response_format\"", "\"structured_outputs\"", "\"guided_", "\"grammar\"",
      "\"json_schema\"",     "\"output_config\"",      "\"tools\""};
  static constexpr std::string_view escape = "\\u00";
  for (const auto name : names)
    if (body.find(name) != std::string_view::npos) return true;
  for (auto at = body.find(escape); at != std::string_view::npos; at = body.find(escape, at + 1))
    if (at + escape.size() < body.size() && body[at + escape.size()] < '8') return true;
  return false;
}

} // namespace

job_traits generation_traits(const edge_context& edge, const caller& who, std::string_view body) {
  auto traits = traits_of(edge, who, body.size());
  traits.large = traits.large || may_name_a_grammar(body);
  return traits;
}

job_traits traits_of(const edge_context& edge, const caller& who, std::size_t body_bytes) {
  return {who.tenant, edge.num_tenants(), body_bytes > large_body_bytes};
}

std::optional<wire::api_error> begin_reading(const edge_context& edge, const request_body& body) {
  if (body.begin_use()) return std::nullopt;
  ++edge.metrics.bodies_given_up;
  return wire::api_error{
      503, "service_unavailable_error", "overloaded", "too many large requests arrive at once", "", 1};
}

std::string fresh_id(std::string_view prefix) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string id(prefix);
  for (const auto byte : random_bytes<16>()) id += {hex[byte >> 4U], hex[byte & 15U]};
  return id;
}

std::uint64_t fresh_seed() {
  const auto bytes = random_bytes<sizeof(std::uint64_t)>();
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return seed;
}

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace paceline::server
