#include "runtime/speculation/drafters/lookahead_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/lookahead_window.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace paceline::speculation {

namespace {

struct lookahead_session final : drafter_session {
  explicit lookahead_session(const config::drafter_options& options)
      : window(options.lookahead_window, options.lookahead_ngram), pool(options.lookahead_guesses) {}
  lookahead_window window;
  ngram_pool pool;
  bool filled = false;
  std::size_t num_pooled = 0;             ///< positions of the text whose n-gram is in the pool
  std::uint32_t num_guesses = 0;          ///< made so far
  std::optional<std::uint32_t> last_base; ///< of the draft that contained the window
};

class lookahead_drafter final : public host_drafter<lookahead_session> {
 public:
  explicit lookahead_drafter(const config::drafter_options& options)
      : host_drafter(options), options_(options), ngram_length_(options.lookahead_ngram) {
    traits_.where = placement::in_pass;
    traits_.top_tokens = 1;
  }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<lookahead_session>(options_);
  }

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    const std::uint32_t levels = std::min(draft_length, ngram_length_ - 1);
    return std::clamp(options_.lookahead_guesses * levels, draft_length,
                      std::max(draft_length, token_tree::max_nodes));
  }
  std::uint32_t max_probes() const noexcept override {
    return options_.lookahead_window * (ngram_length_ - 1);
  }

 private:
  void draft_one(const draft_task& task, lookahead_session& session, draft& result) override {
    // Guesses are tokens of the text, because these are likelier than other tokens.
    const auto guess = [&] {
      const noise_stream noise{.seed = task.request.value,
                               .position = token_position{session.num_guesses++},
                               .purpose = noise_purpose::proposal};
      return task.tokens[noise.words(0)[0] % task.tokens.size()];
    };
    if (!std::exchange(session.filled, true)) session.window.fill(guess);
    learn(task, session, guess);

    const std::uint32_t num_probes = session.window.num_rows();
    const bool carries = num_probes <= task.max_rows && session.window.depth() <= task.max_probe_depth;
    const std::uint32_t most =
        std::min(node_budget(task), carries ? task.max_rows - num_probes : node_budget(task));
    std::size_t num_paths = options_.lookahead_guesses;
    for (auto& path : session.pool.followers(task.tokens.back())) {
      if (num_paths-- == 0) break;
      path.resize(std::min<std::size_t>(path.size(), chain_length(task)));
      add_path(result.tree, path, most);
    }
    session.last_base.reset();
    if (!carries) return;
    session.window.add_to(result);
    session.last_base = result.base_length;
  }

  template <class Guess>
  void learn(const draft_task& task, lookahead_session& session, Guess guess) const {
    for (std::size_t n = 0; n < max_catch_up && session.num_pooled + ngram_length_ <= task.tokens.size(); ++n)
      session.pool.add(task.tokens.subspan(session.num_pooled++, ngram_length_));
    if (!task.last_round || !session.last_base) return;
    const round_feedback& round = *task.last_round;
    // If a draft was truncated because cells were missing, part of the window is missing, so its guesses are
    // kept.
    if (round.verified.base_length != *session.last_base || round.num_top == 0 ||
        round.verified.probes.size() != session.window.num_rows())
      return;
    const auto num_nodes = static_cast<std::int32_t>(round.verified.tree.size());
    session.window.advance(
        static_cast<std::uint32_t>(task.tokens.size()) - *session.last_base,
        [&](std::uint32_t row) { return round.top_at(num_nodes + static_cast<std::int32_t>(row)).front(); },
        [&](std::span<const token_id> ngram) { session.pool.add(ngram); }, guess);
  }

  config::drafter_options options_;
  std::uint32_t ngram_length_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_lookahead_drafter(const drafter_parts& parts) {
  const auto& options = parts.options;
  if (options.lookahead_ngram < 2 || options.lookahead_ngram > 8)
    return bad_option(options,
                      "lookahead_ngram = " + std::to_string(options.lookahead_ngram) + ", must be 2 to 8");
  if (options.lookahead_window < 1 || options.lookahead_guesses < 1)
    return bad_option(options, "lookahead_window and lookahead_guesses must be at least 1");
  const std::uint64_t num_probes = std::uint64_t{options.lookahead_window} * (options.lookahead_ngram - 1);
  constexpr std::uint32_t most = draft::max_rows - token_tree::max_nodes;
  if (num_probes > most)
    return bad_option(options, "lookahead_window * (lookahead_ngram - 1) = " + std::to_string(num_probes) +
                                   ", must be at most " + std::to_string(most) + " rows");
  return std::unique_ptr<drafter>(std::make_unique<lookahead_drafter>(options));
}

} // namespace paceline::speculation
