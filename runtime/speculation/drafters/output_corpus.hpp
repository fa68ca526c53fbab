#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/ngram_index.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline::speculation {

/// An index of the outputs of one tenant's earlier requests. Its size is bounded: it has two halves, and when
/// the newer half is full, the older half is dropped.
class tenant_corpus {
 public:
  tenant_corpus(std::size_t max_tokens, const ngram_index& empty);

  /// Stores an output, or only its end if it is longer than half of the capacity.
  void add(std::span<const token_id> output);
  /// Indexes at most `max_tokens` of the stored tokens.
  void index(std::size_t max_tokens);

  struct half {
    std::vector<token_id> text; ///< outputs, each followed by token -1, which occurs in no query
    ngram_index index;
  };
  /// [0] is the newer half.
  std::span<const half> halves() const noexcept { return halves_; }
  std::size_t num_tokens() const noexcept { return halves_[0].text.size() + halves_[1].text.size(); }

 private:
  std::size_t half_capacity_;
  ngram_index empty_;
  std::array<half, 2> halves_;
};

/// The corpora of all tenants. Invariant: text of one tenant's requests is found under that tenant only.
///
/// Threads: a session may end on any thread and calls `remember` there. All other functions are called by the
/// drafter's own stream, which fetches the outputs with `collect` and never waits for the lock.
class output_corpus {
 public:
  /// `max_tokens` is for each tenant. There are at most `max_tenants` tenants; the least recently used tenant
  /// is dropped first.
  output_corpus(std::size_t max_tokens, std::size_t max_tenants, const ngram_index& empty);

  /// Callable on any thread. The output is dropped if more than 2^20 tokens would wait for `collect`.
  void remember(std::string tenant, std::vector<token_id> output);
  /// Fetches the outputs remembered since the last call, or leaves them for the next call if the lock is
  /// taken.
  void collect();
  /// The corpus of `tenant`, valid until the next `collect`; null if there is none.
  tenant_corpus* find(std::string_view tenant);

  std::size_t num_tenants() const noexcept { return tenants_.size(); }

 private:
  struct finished {
    std::string tenant;
    std::vector<token_id> output;
  };
  struct entry {
    std::unique_ptr<tenant_corpus> corpus;
    std::uint64_t last_used = 0;
  };
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void add(finished one);

  std::size_t max_tokens_;
  std::size_t max_tenants_;
  ngram_index empty_;
  std::uint64_t num_uses_ = 0;
  std::unordered_map<std::string, entry, text_hash, std::equal_to<>> tenants_;

  std::mutex inbox_mutex_;
  std::vector<finished> inbox_;  ///< guarded by the lock; at most 2^20 tokens
  std::size_t inbox_tokens_ = 0; ///< guarded by the lock
};

} // namespace paceline::speculation
