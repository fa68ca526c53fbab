#include "runtime/kv/block_hash.hpp"

#include <array>
#include <cstring>
#include <random>
#include <xxhash.h>

namespace paceline::kv {

namespace {

/// The size of XXH3's own secret. XXH3 accepts at least XXH3_SECRET_SIZE_MIN (136) bytes.
constexpr std::size_t secret_bytes = 192;

using secret = std::array<std::uint32_t, secret_bytes / sizeof(std::uint32_t)>;

hash128 hash_bytes(const secret& key, const void* data, std::size_t num_bytes) {
  const auto h = XXH3_128bits_withSecret(data, num_bytes, key.data(), secret_bytes);
  return {h.low64, h.high64};
}

} // namespace

block_hasher make_block_hasher() {
  secret key;
  std::random_device entropy;
  for (auto& word : key) word = entropy();
  return [key](const block_content& content) {
    const auto salt = hash_bytes(key, content.salt.data(), content.salt.size());
    const auto tokens = hash_bytes(key, content.tokens.data(), content.tokens.size_bytes());
    const std::array<std::uint64_t, 7> fields{
        content.parent.low, content.parent.high,     salt.low, salt.high, tokens.low,
        tokens.high,        content.num_prompt_cells};
    return hash_bytes(key, fields.data(), sizeof(fields));
  };
}

} // namespace paceline::kv
