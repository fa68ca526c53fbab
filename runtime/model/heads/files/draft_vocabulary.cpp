#include "runtime/model/heads/files/draft_vocabulary.hpp"

#include <cstddef>
#include <string>

namespace paceline::model {

std::vector<token_id> take_target_ids(head_tensors& tensors, std::uint32_t num_drafted,
                                      std::uint32_t num_tokens, bool has_lm_head, bool are_absolute) {
  if (!tensors.has("d2t")) {
    if (num_drafted != num_tokens) tensors.refuse_missing("d2t");
    return {};
  }
  if (!has_lm_head) {
    tensors.refuse("d2t", "needs an lm_head.weight of the draft vocabulary");
    return {};
  }
  const std::vector<std::int64_t> stored = tensors.integers("d2t", num_drafted);
  std::vector<token_id> ids;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const bool is_near = stored[i] >= 0 && stored[i] < num_tokens;
    const std::int64_t id = is_near ? (are_absolute ? 0 : static_cast<std::int64_t>(i)) + stored[i] : -1;
    if (id < 0 || id >= num_tokens || (i > 0 && id <= ids.back().value)) {
      tensors.refuse("d2t", "must give ascending ids below " + std::to_string(num_tokens) + ", token " +
                                std::to_string(i) + " has the " + (are_absolute ? "id " : "offset ") +
                                std::to_string(stored[i]));
      return {};
    }
    ids.push_back(token_id{static_cast<std::int32_t>(id)});
  }
  return ids;
}

} // namespace paceline::model
