#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::sampling {

/// Number of occurrences of each token in a request's committed context, for the penalties. One entry for
/// each distinct token, stored contiguously, because each penalised row reads all of them.
class token_counts {
 public:
  struct entry {
    token_id token;
    std::uint32_t output = 0; ///< occurrences in the output
    bool prompt = false;      ///< occurs in the prompt
  };

  void add_prompt(std::span<const token_id> tokens);
  void add_output(token_id token);
  std::uint32_t in_output(token_id token) const noexcept;
  bool in_context(token_id token) const noexcept; ///< in the prompt or output
  std::span<const entry> entries() const noexcept { return entries_; }

 private:
  entry& entry_of(token_id token);

  std::vector<entry> entries_; ///< in order of first occurrence
  std::unordered_map<token_id, std::uint32_t> index_;
};

} // namespace paceline::sampling
