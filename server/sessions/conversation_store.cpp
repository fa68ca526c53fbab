#include "server/sessions/conversation_store.hpp"

#include <algorithm>

namespace paceline::server {

namespace {

std::size_t bytes_of(const wire::chat_message& message) {
  auto bytes = sizeof message + message.role.size() + message.name.size() + message.tool_call_id.size();
  if (message.content) bytes += message.content->size();
  for (const auto& call : message.tool_calls)
    bytes += sizeof call + call.id.size() + call.name.size() + call.arguments.size();
  return bytes;
}

} // namespace

void conversation_store::put(std::string response_id, std::vector<wire::chat_message> messages) {
  entry added{std::move(response_id), std::move(messages), 0};
  added.num_bytes = sizeof added + added.id.size();
  for (const auto& message : added.messages) added.num_bytes += bytes_of(message);
  if (added.num_bytes > max_bytes_ || max_entries_ == 0) return;
  num_bytes_ += added.num_bytes;
  entries_.push_front(std::move(added));
  while (entries_.size() > max_entries_ || num_bytes_ > max_bytes_) {
    num_bytes_ -= entries_.back().num_bytes;
    entries_.pop_back();
  }
}

const std::vector<wire::chat_message>* conversation_store::find(const std::string& response_id) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.id == response_id; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front().messages;
}

} // namespace paceline::server
