#pragma once

#include "runtime/base/token_constraint.hpp"
#include "runtime/grammar/grammar_compiler.hpp"

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace paceline::grammar {

/// The most recently used constraints, in at most `max_bytes` bytes. A larger constraint is not kept.
/// Thread-safe.
class constraint_cache {
 public:
  explicit constraint_cache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// The constraint of `source`, or nullptr.
  std::shared_ptr<const token_constraint> find(const grammar_source& source) {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->first != source) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return it->second;
    }
    return nullptr;
  }

  void insert(const grammar_source& source, std::shared_ptr<const token_constraint> constraint) {
    const auto bytes = cost(source, *constraint);
    if (bytes > max_bytes_) return; // it would remove all others and still not fit
    const std::lock_guard lock(mutex_);
    num_bytes_ += bytes;
    entries_.emplace_front(source, std::move(constraint));
    while (num_bytes_ > max_bytes_) {
      num_bytes_ -= cost(entries_.back().first, *entries_.back().second);
      entries_.pop_back();
    }
  }

 private:
  static std::size_t cost(const grammar_source& source, const token_constraint& constraint) {
    return source.text.size() + constraint.num_bytes() + sizeof(grammar_source);
  }

  std::mutex mutex_;
  std::size_t max_bytes_;
  std::size_t num_bytes_ = 0;
  std::list<std::pair<grammar_source, std::shared_ptr<const token_constraint>>> entries_; ///< latest first
};

/// The last 32 sources that were refused by the conversion to EBNF or by the library, and why. Without this
/// cache, refusing one of them again would take as long as the first time. Thread-safe.
class refusal_cache {
 public:
  std::optional<error> find(const grammar_source& source) {
    const std::lock_guard lock(mutex_);
    for (const auto& [refused, why] : entries_)
      if (refused == source) return why;
    return std::nullopt;
  }
  void insert(const grammar_source& source, const error& why) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() == max_entries) entries_.pop_front();
    entries_.emplace_back(source, why);
  }

 private:
  static constexpr std::size_t max_entries = 32;
  std::mutex mutex_;
  std::deque<std::pair<grammar_source, error>> entries_; ///< the oldest first
};

} // namespace paceline::grammar
