#include "runtime/speculation/drafters/synthetic_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

namespace paceline::speculation {

namespace {

class synthetic_drafter final : public host_drafter<drafter_session> {
 public:
  synthetic_drafter(const config::drafter_options& options, std::uint32_t vocab_size)
      : host_drafter(options), seed_(options.seed), acceptance_(static_cast<double>(options.acceptance)),
        vocab_size_(vocab_size) {}

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<drafter_session>(); }

 private:
  void draft_one(const draft_task& task, drafter_session&, draft& result) override {
    const std::size_t output_length =
        task.tokens.size() - std::min<std::size_t>(task.prompt_length, task.tokens.size());
    while (result.tree.size() < chain_length(task)) {
      const std::uint32_t depth = result.tree.size();
      if (output_length + depth >= task.prediction.size()) return;
      token_id token = task.prediction[output_length + depth];
      // The noise depends on the position, so a position that is drafted twice is right both times or wrong
      // both times.
      const noise_stream noise{.seed = seed_ + task.request.value,
                               .position =
                                   token_position{static_cast<std::uint32_t>(task.tokens.size()) + depth},
                               .purpose = noise_purpose::fault};
      if (noise.uniform() >= acceptance_)
        token =
            token_id{static_cast<std::int32_t>((static_cast<std::uint32_t>(token.value) + 1) % vocab_size_)};
      result.tree.add(token, static_cast<std::int32_t>(depth) - 1);
    }
  }

  std::uint64_t seed_;
  double acceptance_;
  std::uint32_t vocab_size_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_synthetic_drafter(const drafter_parts& parts) {
  const float acceptance = parts.options.acceptance;
  if (!(acceptance >= 0 && acceptance <= 1))
    return bad_option(parts.options, "acceptance must lie in [0, 1]");
  if (parts.target_vocab_size < 2)
    return bad_option(parts.options, "kind synthetic needs a vocabulary of two");
  return std::unique_ptr<drafter>(
      std::make_unique<synthetic_drafter>(parts.options, parts.target_vocab_size));
}

} // namespace paceline::speculation
