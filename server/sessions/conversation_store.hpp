#pragma once

#include "protocol/wire/chat_prompt.hpp"

#include <cstddef>
#include <list>
#include <string>
#include <vector>

namespace paceline::server {

/// Turns of finished responses of one connection, so that `previous_response_id` can continue them. Bounded
/// in entries and bytes; the least recently used go first. An entry holds its whole conversation: what is
/// evicted takes nothing else along and nothing else keeps it alive.
class conversation_store {
 public:
  conversation_store(std::size_t max_entries, std::size_t max_bytes)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  /// A conversation larger than the whole store is not kept.
  void put(std::string response_id, std::vector<wire::chat_message> messages);
  /// None if it was never kept or has gone. Counts as a use.
  const std::vector<wire::chat_message>* find(const std::string& response_id);

  std::size_t num_entries() const noexcept { return entries_.size(); }
  std::size_t num_bytes() const noexcept { return num_bytes_; }

 private:
  struct entry {
    std::string id;
    std::vector<wire::chat_message> messages;
    std::size_t num_bytes = 0;
  };

  std::size_t max_entries_;
  std::size_t max_bytes_;
  std::size_t num_bytes_ = 0;
  std::list<entry> entries_; ///< most recently used first
};

} // namespace paceline::server
