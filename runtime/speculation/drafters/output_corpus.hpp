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

/// Outputs of one tenant's earlier requests, indexed. Bounded: when the younger half is full the older one is
/// forgotten as a whole.
class tenant_corpus {
 public:
  tenant_corpus(std::size_t max_tokens, const ngram_index& empty);

  /// Remembers an output (its end, if it is longer than half of what is kept).
  void add(std::span<const token_id> output);
  /// Indexes at most `max_tokens` of what was added.
  void index(std::size_t max_tokens);

  struct half {
    std::vector<token_id> text; ///< outputs, each followed by the token -1, which no query has
    ngram_index index;
  };
  /// The younger half first.
  std::span<const half> halves() const noexcept { return halves_; }
  std::size_t num_tokens() const noexcept { return halves_[0].text.size() + halves_[1].text.size(); }

 private:
  std::size_t half_capacity_;
  ngram_index empty_;
  std::array<half, 2> halves_;
};

/// The corpora of all tenants. Invariant: what one tenant's requests wrote is found under that tenant alone.
///
/// Threads: sessions end wherever their request does and hand in what it wrote (`remember`); everything else
/// belongs to the drafter's own stream, which takes that over with `collect` and never waits for the lock.
class output_corpus {
 public:
  /// `max_tokens` a tenant; at most `max_tenants` of them, the one that asked least recently is forgotten.
  output_corpus(std::size_t max_tokens, std::size_t max_tenants, const ngram_index& empty);

  /// Any thread.
  void remember(std::string tenant, std::vector<token_id> output);
  /// Takes over what was remembered since; leaves it for the next time if someone is remembering just now.
  void collect();
  /// What is known of `tenant`; null if nothing is.
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
  std::vector<finished> inbox_;  ///< guarded; bounded by max_inbox_tokens
  std::size_t inbox_tokens_ = 0; ///< guarded
};

} // namespace paceline::speculation
