#include "runtime/speculation/drafters/bigram_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/corpus_file.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"
#include "runtime/speculation/drafters/token_ranking.hpp"

#include <algorithm>
#include <unordered_map>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_followers = 32; ///< counted for each token
/// Counts of the tokens that followed each token.
using bigram_counts = std::unordered_map<token_id, token_ranking>;

void count(bigram_counts& counts, std::span<const token_id> text, std::size_t from) {
  for (std::size_t i = std::max<std::size_t>(from, 1); i < text.size(); ++i)
    counts[text[i - 1]].add(text[i], 1, max_followers);
}

struct bigram_session final : drafter_session {
  bigram_counts counts;
  std::size_t num_counted = 0;
};

class bigram_drafter final : public host_drafter<bigram_session> {
 public:
  bigram_drafter(const config::drafter_options& options, std::span<const token_id> corpus)
      : host_drafter(options) {
    count(counts_, corpus, 0);
  }

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<bigram_session>(); }

 private:
  void draft_one(const draft_task& task, bigram_session& session, draft& result) override {
    const std::size_t end = std::min(task.settled().size(), session.num_counted + max_catch_up);
    count(session.counts, task.tokens.first(end), session.num_counted);
    session.num_counted = end;
    token_id last = task.tokens.back();
    while (result.tree.size() < chain_length(task)) {
      token_ranking followers;
      for (const bigram_counts* counts : {&session.counts, &counts_}) {
        const auto known = counts->find(last);
        if (known != counts->end()) followers.add_all(known->second, 2 * max_followers);
      }
      if (followers.empty()) return;
      last = extend_chain(task, followers.distribution(), result);
    }
  }

  bigram_counts counts_; ///< of the corpus
};

} // namespace

expected<std::unique_ptr<drafter>> make_bigram_drafter(const drafter_parts& parts) {
  auto corpus = read_corpus(parts);
  if (!corpus) return std::move(corpus).error();
  return std::unique_ptr<drafter>(std::make_unique<bigram_drafter>(parts.options, *corpus));
}

} // namespace paceline::speculation
