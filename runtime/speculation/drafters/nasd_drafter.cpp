#include "runtime/speculation/drafters/nasd_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"
#include "runtime/speculation/drafters/token_ranking.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_followers = 8; ///< counted for each context
constexpr std::size_t max_learnt_per_call = 2048;
/// The maximum number of stored contexts. A full store only counts the followers of contexts that it already
/// has.
constexpr std::size_t max_contexts = std::size_t{1} << 20U;

/// Counts the tokens that follow contexts of min_length to max_length tokens.
class ngram_store {
 public:
  ngram_store(std::uint32_t min_length, std::uint32_t max_length)
      : min_length_(min_length), max_length_(max_length) {}

  void teach(std::span<const token_id> context, token_id next, std::uint32_t weight) {
    for_contexts(context, [&](std::uint64_t key) {
      const auto known = followers_.find(key);
      if (known != followers_.end())
        known->second.add(next, weight, max_followers);
      else if (followers_.size() < max_contexts)
        followers_[key].add(next, weight, max_followers);
    });
  }

  /// The most frequent token after the longest known context.
  std::optional<token_id> next(std::span<const token_id> context) const {
    const token_ranking* longest = nullptr;
    for_contexts(context, [&](std::uint64_t key) {
      const auto known = followers_.find(key);
      if (known != followers_.end()) longest = &known->second;
    });
    return longest == nullptr ? std::nullopt : std::optional(longest->best());
  }

 private:
  /// Calls `visit` with a key of every suffix of `context`, the shortest first. If two suffixes had the same
  /// 64-bit key, drafts would be worse, but nothing else would be wrong.
  template <class Visit>
  void for_contexts(std::span<const token_id> context, Visit visit) const {
    std::uint64_t key = 0;
    for (std::uint32_t length = 1; length <= std::min<std::size_t>(max_length_, context.size()); ++length) {
      key = (key ^ (static_cast<std::uint32_t>(context[context.size() - length].value) + 1)) *
            0x9E3779B97F4A7C15ULL;
      key ^= key >> 29U;
      if (length >= min_length_) visit(key);
    }
  }

  std::uint32_t min_length_;
  std::uint32_t max_length_;
  std::unordered_map<std::uint64_t, token_ranking> followers_;
};

struct nasd_session final : drafter_session {
  nasd_session(std::uint32_t min_length, std::uint32_t max_length) : store(min_length, max_length) {}
  ngram_store store;
  std::size_t num_taught = 0;             ///< tokens of the text
  std::optional<std::uint32_t> last_base; ///< of the round learnt last
};

class nasd_drafter final : public host_drafter<nasd_session> {
 public:
  explicit nasd_drafter(const config::drafter_options& options)
      : host_drafter(options), min_context_(options.ngram_min - 1), max_context_(options.ngram_max - 1) {
    traits_.top_tokens = options.top_tokens;
  }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<nasd_session>(min_context_, max_context_);
  }

 private:
  void draft_one(const draft_task& task, nasd_session& session, draft& result) override {
    // An n-gram of the text counts as often as the target's best token, whose weight is the number of ranks.
    const std::size_t end = std::min(task.settled().size(), session.num_taught + max_learnt_per_call);
    for (; session.num_taught < end; ++session.num_taught)
      session.store.teach(tail(task.tokens.first(session.num_taught)), task.tokens[session.num_taught],
                          traits_.top_tokens);
    if (task.last_round) learn(task, *task.last_round, session);

    const auto last = tail(task.tokens);
    std::vector<token_id> context(last.begin(), last.end());
    while (result.tree.size() < chain_length(task)) {
      const auto next = session.store.next(context);
      if (!next) return;
      result.tree.add(*next, static_cast<std::int32_t>(result.tree.size()) - 1);
      context.push_back(*next);
    }
  }

  /// Learns the target's best tokens at every row of the last round, including rejected branches.
  void learn(const draft_task& task, const round_feedback& round, nasd_session& session) const {
    if (session.last_base == round.verified.base_length || round.num_top == 0) return;
    session.last_base = round.verified.base_length;
    const auto& tree = round.verified.tree;
    for (std::int32_t node = token_tree::root; node < static_cast<std::int32_t>(tree.size()); ++node) {
      const auto text =
          tail(task.tokens.first(std::min<std::size_t>(round.verified.base_length, task.tokens.size())));
      std::vector<token_id> context(text.begin(), text.end());
      for (const auto token : tree.path_tokens(node)) context.push_back(token);
      const auto top = round.top_at(node);
      const auto num_ranks = std::min<std::size_t>(top.size(), traits_.top_tokens);
      for (std::uint32_t rank = 0; rank < num_ranks && top[rank].value >= 0; ++rank)
        session.store.teach(context, top[rank], traits_.top_tokens - rank);
    }
  }

  /// The end of a text, limited to the length of contexts.
  std::span<const token_id> tail(std::span<const token_id> text) const {
    return text.last(std::min<std::size_t>(text.size(), max_context_));
  }

  std::uint32_t min_context_;
  std::uint32_t max_context_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_nasd_drafter(const drafter_parts& parts) {
  const auto& options = parts.options;
  if (auto checked = check_ngram_lengths(options, 2); !checked) return std::move(checked).error();
  if (options.top_tokens < 1 || options.top_tokens > 16)
    return bad_option(options, "top_tokens = " + std::to_string(options.top_tokens) + ", must be 1 to 16");
  return std::unique_ptr<drafter>(std::make_unique<nasd_drafter>(options));
}

} // namespace paceline::speculation
