#include "runtime/speculation/drafters/random_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

class random_drafter final : public host_drafter<drafter_session> {
 public:
  random_drafter(const config::drafter_options& options, std::uint32_t vocab_size)
      : host_drafter(options), seed_(options.seed), vocab_size_(vocab_size) {}

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<drafter_session>(); }

 private:
  void draft_one(const draft_task& task, drafter_session&, draft& result) override {
    const bool weighed = task.weighs_probs();
    while (result.tree.size() < chain_length(task)) {
      const auto choices =
          random_tokens(task, result.tree.size(), weighed ? draft_distribution::max_entries : 1);
      extend_chain(task, choices, result);
    }
  }

  /// `count` different tokens, or all tokens if there are fewer, with equal probabilities. They are chosen
  /// before any token is drawn.
  draft_distribution random_tokens(const draft_task& task, std::uint32_t depth, std::size_t count) const {
    const noise_stream noise{.seed = seed_ + task.request.value,
                             .position =
                                 token_position{static_cast<std::uint32_t>(task.tokens.size()) + depth},
                             .purpose = noise_purpose::proposal};
    draft_distribution result;
    count = std::min<std::size_t>(count, vocab_size_);
    const auto stride = vocab_size_ / static_cast<std::uint32_t>(count);
    const std::uint32_t first = noise.words(1)[0] % vocab_size_;
    for (std::uint32_t i = 0; i < count; ++i)
      result.tokens.push_back(token_id{static_cast<std::int32_t>((first + i * stride) % vocab_size_)});
    result.probs.assign(count, 1.0F / static_cast<float>(count));
    return result;
  }

  std::uint64_t seed_;
  std::uint32_t vocab_size_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_random_drafter(const drafter_parts& parts) {
  if (parts.target_vocab_size == 0)
    return bad_option(parts.options, "kind random needs a target with a vocabulary");
  return std::unique_ptr<drafter>(std::make_unique<random_drafter>(parts.options, parts.target_vocab_size));
}

} // namespace paceline::speculation
