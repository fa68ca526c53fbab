#include "runtime/speculation/drafters/suffix_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/frequency_tree.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/output_corpus.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace paceline::speculation {

namespace {

/// `drafter_traits::first_acceptance`, by the probability of the path, in sevenths.
constexpr std::array<float, 8> first_acceptance{0.06F, 0.11F, 0.2F, 0.33F, 0.49F, 0.72F, 0.97F, 0.98F};

/// Earlier occurrences examined in each text.
constexpr std::size_t max_occurrences = 64;
/// A short match predicts little about later tokens. So the number of levels is limited to this number for
/// each matching token (the maximum speculation factor of the paper).
constexpr std::uint32_t levels_per_token = 2;

struct suffix_session final : drafter_session {
  suffix_session(const ngram_index& empty, std::shared_ptr<output_corpus> all)
      : index(empty), corpus(std::move(all)) {}

  /// Adds the output of the request to the corpus of its tenant.
  void end(const ended_request& request) noexcept override {
    try {
      const auto output =
          request.tokens.subspan(std::min<std::size_t>(request.prompt_length, request.tokens.size()));
      corpus->remember(std::string(request.tenant), {output.begin(), output.end()});
    } catch (const std::bad_alloc&) { // without memory, the output is not added
    }
  }

  ngram_index index; ///< of prompt and output
  std::shared_ptr<output_corpus> corpus;
};

/// A text with the positions in it that match the end of the request's text.
struct source {
  std::span<const token_id> text;
  std::vector<occurrence> places;
  bool growing = false; ///< true for the request's own text: a continuation that reaches its end is repeated
                        ///< periodically
};

class suffix_drafter final : public host_drafter<suffix_session> {
 public:
  explicit suffix_drafter(const config::drafter_options& options)
      : host_drafter(options), empty_(lengths_up_to(options.suffix_max)), longest_(options.suffix_max),
        min_probability_(static_cast<double>(options.min_probability)),
        corpus_(std::make_shared<output_corpus>(options.corpus_tokens, options.corpus_tenants, empty_)) {
    traits_.first_acceptance = first_acceptance;
  }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<suffix_session>(empty_, corpus_);
  }

  void propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) override {
    corpus_->collect();
    host_drafter::propose(ops, kv, tasks);
  }

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    return std::min(2 * draft_length, std::max(draft_length, token_tree::max_nodes));
  }

 private:
  static std::vector<std::uint32_t> lengths_up_to(std::uint32_t longest) {
    std::vector<std::uint32_t> lengths;
    for (std::uint32_t length = 1; length <= longest; length *= 2) lengths.push_back(length);
    return lengths;
  }

  void draft_one(const draft_task& task, suffix_session& session, draft& result) override {
    const tree_bounds bounds{.depth = chain_length(task), .nodes = node_budget(task)};
    session.index.extend(task.settled(), max_catch_up);
    std::vector<source> own(1);
    own[0].text = task.tokens;
    own[0].growing = true;
    session.index.find(task.tokens, task.tokens, max_occurrences, longest_, own[0].places);
    scored_tree best = best_tree(own, bounds);

    if (tenant_corpus* const corpus = corpus_->find(task.tenant)) {
      corpus->index(max_catch_up);
      std::vector<source> earlier;
      for (const tenant_corpus::half& half : corpus->halves()) {
        earlier.push_back({half.text, {}, false});
        half.index.find(half.text, task.tokens, max_occurrences, longest_, earlier.back().places);
      }
      scored_tree other = best_tree(earlier, bounds);
      if (other.score > best.score) best = std::move(other);
    }
    result.tree = std::move(best.tree);
    result.signals = std::move(best.signals);
  }

  /// For each minimal length of the match there is a tree. Returns the one with the highest expected number
  /// of tokens.
  scored_tree best_tree(std::span<const source> sources, const tree_bounds& bounds) const {
    scored_tree best;
    std::uint32_t at_least = longest_ + 1;
    for (;;) {
      std::uint32_t next = 0; // the longest match that was not tried yet
      for (const source& from : sources)
        for (const occurrence& place : from.places)
          if (place.length < at_least) next = std::max(next, place.length);
      if (next == 0) return best;
      at_least = next;
      scored_tree one = tree_of(sources, at_least, bounds);
      if (one.score > best.score) best = std::move(one);
      at_least = std::min(at_least, (at_least + 1) / 2 + 1); // the next length is at most about half
    }
  }

  scored_tree tree_of(std::span<const source> sources, std::uint32_t at_least, tree_bounds bounds) const {
    bounds.depth = std::min(bounds.depth, levels_per_token * at_least);
    std::vector<std::vector<token_id>> continuations;
    for (const source& from : sources)
      for (const occurrence& place : from.places) {
        if (place.length < at_least) continue;
        const std::size_t there = from.growing ? bounds.depth : from.text.size() - place.next;
        auto rest = continuation_of(from.text, place.next, std::min<std::size_t>(bounds.depth, there));
        rest.erase(std::ranges::find_if(rest, [](token_id token) { return token.value < 0; }), rest.end());
        if (!rest.empty()) continuations.push_back(std::move(rest));
      }
    // Confidence as if one further observation had disagreed; each matching token counts as an observation.
    const double evidence = static_cast<double>(continuations.size()) + at_least - 1;
    return likely_tree(std::move(continuations), evidence / (evidence + 1), bounds, min_probability_);
  }

  ngram_index empty_;
  std::uint32_t longest_;
  double min_probability_;
  std::shared_ptr<output_corpus> corpus_; ///< sessions may outlive the drafter
};

} // namespace

expected<std::unique_ptr<drafter>> make_suffix_drafter(const drafter_parts& parts) {
  const auto& options = parts.options;
  if (options.suffix_max < 1 || options.suffix_max > 64)
    return bad_option(options, "suffix_max = " + std::to_string(options.suffix_max) + ", must be 1 to 64");
  if (!(options.min_probability >= 0 && options.min_probability <= 1))
    return bad_option(options, "min_probability must lie in [0, 1]");
  if (options.corpus_tenants < 1) return bad_option(options, "corpus_tenants = 0, must be at least 1");
  return std::unique_ptr<drafter>(std::make_unique<suffix_drafter>(options));
}

} // namespace paceline::speculation
