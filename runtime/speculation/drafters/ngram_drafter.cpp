#include "runtime/speculation/drafters/ngram_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/ngram_index.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace paceline::speculation {

namespace {

/// `drafter_traits::first_acceptance`, by length of the agreement: 1, 2, 4, 8, ... tokens.
constexpr std::array<float, 8> first_acceptance{0, 0.3F, 0.5F, 0.73F, 0.92F, 0.98F, 0.98F, 0.98F};

constexpr std::size_t longest_signal = 64;
/// Earlier occurrences examined when several candidates are wanted.
constexpr std::size_t max_occurrences = 64;

struct ngram_session final : drafter_session {
  explicit ngram_session(const ngram_index& empty) : index(empty) {}
  ngram_index index;
};

/// A distinct continuation and its evidence.
struct candidate_path {
  std::vector<token_id> tokens;
  std::uint32_t match = 0; ///< longest match before it
  std::uint32_t count = 0; ///< occurrences
};

class ngram_drafter final : public host_drafter<ngram_session> {
 public:
  explicit ngram_drafter(const config::drafter_options& options)
      : host_drafter(options), empty_(index_of(options)), num_candidates_(options.candidates),
        longest_(options.ngram_max) {
    traits_.first_acceptance = first_acceptance;
  }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<ngram_session>(empty_);
  }

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    return std::min(draft_length * num_candidates_, std::max(draft_length, token_tree::max_nodes));
  }

 private:
  static ngram_index index_of(const config::drafter_options& options) {
    if (options.candidates == 1) return {options.ngram_min, options.ngram_max};
    std::vector<std::uint32_t> lengths(options.ngram_max - options.ngram_min + 1);
    std::iota(lengths.begin(), lengths.end(), options.ngram_min);
    return ngram_index(std::move(lengths));
  }

  void draft_one(const draft_task& task, ngram_session& session, draft& result) override {
    result.catching_up = !session.index.extend(task.settled(), max_catch_up);
    if (result.catching_up) return;
    const std::uint32_t length = chain_length(task);
    if (num_candidates_ == 1) {
      if (const auto next = session.index.continuation(task.tokens)) {
        add_path(result.tree, continuation_of(task.tokens, *next, length), length);
        result.signals.assign(result.tree.size(), signal_of(match_length(task.tokens, *next)));
      }
      return;
    }
    for (const candidate_path& path : candidates(task.tokens, session.index, length, num_candidates_)) {
      add_path(result.tree, path.tokens, node_budget(task));
      result.signals.resize(result.tree.size(), signal_of(path.match));
    }
  }

  /// The best `most` distinct continuations. The first is the one that a single candidate would be; the
  /// others are ordered by the length of the match, then frequency, then recency.
  std::vector<candidate_path> candidates(std::span<const token_id> text, const ngram_index& index,
                                         std::uint32_t length, std::uint32_t most) const {
    std::vector<occurrence> places;
    index.find(text, text, max_occurrences, longest_, places);
    std::vector<candidate_path> paths;
    for (const occurrence& place : places) {
      auto tokens = continuation_of(text, place.next, length);
      const auto same = std::ranges::find(paths, tokens, &candidate_path::tokens);
      if (same != paths.end())
        ++same->count;
      else
        paths.push_back({std::move(tokens), place.length, 1});
    }
    if (!paths.empty())
      std::stable_sort(paths.begin() + 1, paths.end(), [](const candidate_path& a, const candidate_path& b) {
        return a.match != b.match ? a.match > b.match : a.count > b.count;
      });
    if (paths.size() > most) paths.resize(most);
    return paths;
  }

  /// The number of tokens before `start` that equal the end of the text: longer matches are more reliable.
  static std::size_t match_length(std::span<const token_id> text, std::size_t start) {
    std::size_t length = 0;
    while (length < start && length < longest_signal &&
           text[start - 1 - length] == text[text.size() - 1 - length])
      ++length;
    return length;
  }
  static std::uint8_t signal_of(std::size_t length) {
    return static_cast<std::uint8_t>(std::bit_width(length));
  }

  ngram_index empty_;
  std::uint32_t num_candidates_;
  std::uint32_t longest_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_ngram_drafter(const drafter_parts& parts) {
  const auto& options = parts.options;
  if (auto checked = check_ngram_lengths(options, 1); !checked) return std::move(checked).error();
  if (options.candidates < 1 || options.candidates > 16)
    return bad_option(options, "candidates = " + std::to_string(options.candidates) + ", must be 1 to 16");
  return std::unique_ptr<drafter>(std::make_unique<ngram_drafter>(options));
}

} // namespace paceline::speculation
