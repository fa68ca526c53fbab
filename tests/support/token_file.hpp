#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace paceline::test {

/// The ids in a file of int32 values, as the Python tests write them.
inline std::vector<token_id> read_tokens(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<token_id> tokens;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    std::int32_t id;
    std::memcpy(&id, bytes.data() + at, sizeof(id));
    tokens.emplace_back(id);
  }
  return tokens;
}

} // namespace paceline::test
