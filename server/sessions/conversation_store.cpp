#include "server/sessions/conversation_store.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::server {

namespace {

std::size_t bytes_of(const wire::chat_message& message) {
  auto bytes = sizeof message + message.role.size() + message.name.size() + message.tool_call_id.size() +
               message.reasoning.size();
  if (message.content) bytes += message.content->size();
  for (const auto& call : message.tool_calls)
    bytes += sizeof call + call.id.size() + call.name.size() + call.arguments.size();
  return bytes;
}

} // namespace

std::size_t bytes_of(const std::vector<wire::chat_message>& messages) {
  std::size_t bytes = 0;
  for (const auto& message : messages) bytes += bytes_of(message);
  return bytes;
}

std::optional<wire::api_error> judge_arguments(const std::vector<wire::chat_message>& messages) {
  if (wire::count_argument_values(messages) <= wire::max_tree_values) return std::nullopt;
  return wire::invalid_value("previous_response_id",
                             "previous_response_id: the calls of the conversation have, with those of the "
                             "input, more than " +
                                 std::to_string(wire::max_tree_values) + " values in their arguments");
}

wire::api_error unknown_previous(const std::string& id) {
  return {400,
          "invalid_request_error",
          "previous_response_not_found",
          "no response \"" + id + "\" is kept",
          "previous_response_id",
          0};
}

void conversation_store::forget(std::list<entry>::iterator one) {
  num_bytes_ -= one->num_bytes;
  entries_.erase(one);
}

void conversation_store::put(std::string response_id, std::vector<wire::chat_message> messages) {
  const auto bytes = sizeof(entry) + sizeof(turns) + response_id.size() + bytes_of(messages);
  if (bytes > max_bytes_ || max_entries_ == 0) return;
  auto kept = std::make_shared<turns>();
  kept->messages = std::move(messages);
  auto claim = kept_->open(tenant_, [kept] {
    std::lock_guard lock(kept->mutex);
    kept->messages.reset();
  });
  claim->resize(bytes);
  claim->rest();
  num_bytes_ += bytes;
  entries_.push_front({std::move(response_id), bytes, std::move(kept), std::move(claim)});
  while (entries_.size() > max_entries_ || num_bytes_ > max_bytes_) forget(std::prev(entries_.end()));
  kept_->make_room();
}

std::optional<std::vector<wire::chat_message>> conversation_store::find(const std::string& response_id) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.id == response_id; });
  if (found == entries_.end()) return std::nullopt;
  std::optional<std::vector<wire::chat_message>> messages;
  {
    std::lock_guard lock(found->kept->mutex);
    messages = found->kept->messages;
  }
  if (!messages) {
    forget(found);
    return std::nullopt;
  }
  found->claim->rest(); // now the most recently used
  entries_.splice(entries_.begin(), entries_, found);
  return messages;
}

} // namespace paceline::server
