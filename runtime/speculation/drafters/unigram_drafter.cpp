#include "runtime/speculation/drafters/unigram_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/corpus_file.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"
#include "runtime/speculation/drafters/token_ranking.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

/// Four times as many counters as entries of a distribution, so that frequent tokens are counted well.
constexpr std::size_t max_tokens = 256;

struct unigram_session final : drafter_session {
  explicit unigram_session(const token_ranking& corpus) : counts(corpus) {}
  token_ranking counts;
  std::size_t num_counted = 0;
};

class unigram_drafter final : public host_drafter<unigram_session> {
 public:
  unigram_drafter(const config::drafter_options& options, std::span<const token_id> corpus)
      : host_drafter(options) {
    for (const token_id token : corpus) counts_.add(token, 1, max_tokens);
  }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<unigram_session>(counts_);
  }

 private:
  void draft_one(const draft_task& task, unigram_session& session, draft& result) override {
    const std::size_t end = std::min(task.settled().size(), session.num_counted + max_catch_up);
    for (; session.num_counted < end; ++session.num_counted)
      session.counts.add(task.tokens[session.num_counted], 1, max_tokens);
    const auto from = session.counts.distribution();
    for (std::uint32_t level = 0; level < chain_length(task); ++level) extend_chain(task, from, result);
  }

  token_ranking counts_; ///< of the corpus
};

} // namespace

expected<std::unique_ptr<drafter>> make_unigram_drafter(const drafter_parts& parts) {
  auto corpus = read_corpus(parts);
  if (!corpus) return std::move(corpus).error();
  return std::unique_ptr<drafter>(std::make_unique<unigram_drafter>(parts.options, *corpus));
}

} // namespace paceline::speculation
