#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace paceline::sampling {

/// How often each token occurs in a request's committed context: what the penalties read. One entry a
/// distinct token, side by side in memory, since every penalised row visits all of them.
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
  bool in_context(token_id token) const noexcept; ///< prompt or output
  std::span<const entry> entries() const noexcept { return entries_; }

 private:
  entry& entry_of(token_id token);

  std::vector<entry> entries_; ///< in order of first occurrence
  std::unordered_map<token_id, std::uint32_t> index_;
};

} // namespace paceline::sampling
