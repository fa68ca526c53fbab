#pragma once

#include "protocol/wire/chat_prompt.hpp"
#include "server/sessions/kept_memory.hpp"

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::server {

/// The turns of finished responses of one connection, for `previous_response_id`. Entries and bytes are
/// limited, and `kept_memory` limits the bytes of all connections; the least recently used entry is evicted
/// first. An entry has its whole conversation, so it does not depend on other entries. Used on the
/// executor of the connection.
class conversation_store {
 public:
  conversation_store(std::size_t max_entries, std::size_t max_bytes, std::shared_ptr<kept_memory> kept,
                     std::string tenant)
      : max_entries_(max_entries), max_bytes_(max_bytes), kept_(std::move(kept)), tenant_(std::move(tenant)) {
  }

  /// A conversation larger than the whole store is not kept.
  void put(std::string response_id, std::vector<wire::chat_message> messages);
  /// The turns of a response; nullopt if they were never kept or have been evicted. Counts as a use.
  std::optional<std::vector<wire::chat_message>> find(const std::string& response_id);

  std::size_t num_entries() const noexcept { return entries_.size(); }
  std::size_t num_bytes() const noexcept { return num_bytes_; }

 private:
  /// The turns of one conversation, which the thread of another connection may evict.
  struct turns {
    std::mutex mutex;
    std::optional<std::vector<wire::chat_message>> messages; ///< nullopt once evicted
  };
  struct entry {
    std::string id;
    std::size_t num_bytes = 0;
    std::shared_ptr<turns> kept;
    std::shared_ptr<kept_memory::claim> claim;
  };

  void forget(std::list<entry>::iterator one);

  std::size_t max_entries_;
  std::size_t max_bytes_;
  std::shared_ptr<kept_memory> kept_;
  std::string tenant_;
  std::size_t num_bytes_ = 0;
  std::list<entry> entries_; ///< most recently used first
};

/// Bytes of memory that a conversation needs.
std::size_t bytes_of(const std::vector<wire::chat_message>& messages);

/// An error if the tool calls of a conversation have too many JSON values in their arguments altogether. A
/// parser limits the calls of one request only, but a conversation that continues kept responses has the
/// calls of several requests.
std::optional<wire::api_error> judge_arguments(const std::vector<wire::chat_message>& messages);

/// The error for a `previous_response_id` that is not kept.
wire::api_error unknown_previous(const std::string& id);

} // namespace paceline::server
