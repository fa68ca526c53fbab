#include "server/sessions/response_store.hpp"

#include "protocol/wire/response_items.hpp"
#include "server/sessions/conversation_store.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

void response_store::put(const std::string& tenant, const finished_response& finished, time_point now) {
  const auto bytes = sizeof(entry) + sizeof(place) + sizeof(stored_response) + 2 * finished.id.size() +
                     tenant.size() + finished.object.num_bytes() + bytes_of(finished.conversation) +
                     finished.items.size() * sizeof(finished.items.front());
  if (bytes > limits_.max_entry_bytes || limits_.max_entries == 0) return;
  entry added;
  added.id = finished.id;
  added.expires = now + limits_.ttl;
  added.response = std::make_shared<const stored_response>(
      stored_response{finished.object, finished.conversation, finished.num_input_turns, finished.items});
  added.claim = kept_->open(tenant, [weak = weak_from_this(), id = finished.id] {
    if (const auto store = weak.lock()) store->evict(id);
  });
  entries dropped;
  {
    std::lock_guard lock(mutex_);
    const auto own = tenants_.try_emplace(tenant).first;
    added.claim->resize(bytes);
    added.claim->rest();
    own->second.push_back(std::move(added));
    places_.insert_or_assign(finished.id, place{own, std::prev(own->second.end())});
    while (own->second.size() > limits_.max_entries) drop({own, own->second.begin()}, dropped);
  }
  kept_->make_room();
}

const response_store::place* response_store::find_place(const std::string& id, const std::string& tenant,
                                                        time_point now) const {
  const auto found = places_.find(id);
  if (found == places_.end()) return nullptr;
  const auto& at = found->second;
  return at.tenant->first == tenant && now < at.entry->expires ? &at : nullptr;
}

std::shared_ptr<const stored_response> response_store::find(const std::string& id, const std::string& tenant,
                                                            time_point now) {
  std::lock_guard lock(mutex_);
  const auto* at = find_place(id, tenant, now);
  if (at == nullptr) return nullptr;
  at->entry->claim->rest(); // now the most recently used
  return at->entry->response;
}

std::optional<wire::chat_message> response_store::find_item(const std::string& item_id,
                                                            const std::string& tenant, time_point now) {
  const auto response = find(wire::response_of_item(item_id), tenant, now);
  if (!response) return std::nullopt;
  const auto item = std::ranges::find(response->items, item_id, [](const auto& one) { return one->id; });
  if (item == response->items.end()) return std::nullopt;
  wire::chat_message turn;
  turn.role = "assistant";
  wire::add_to_turn(**item, turn);
  return turn;
}

bool response_store::remove(const std::string& id, const std::string& tenant, time_point now) {
  entries dropped;
  std::lock_guard lock(mutex_);
  const auto* at = find_place(id, tenant, now);
  if (at == nullptr) return false;
  drop(*at, dropped);
  return true;
}

void response_store::drop(const place& one, entries& dropped) {
  const auto own = one.tenant;
  const auto at = one.entry;
  places_.erase(at->id);
  dropped.splice(dropped.end(), own->second, at);
  if (own->second.empty()) tenants_.erase(own);
}

void response_store::evict(const std::string& id) {
  entries dropped;
  std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found != places_.end()) drop(place(found->second), dropped);
}

void response_store::sweep(time_point now) {
  entries dropped;
  std::lock_guard lock(mutex_);
  for (auto own = tenants_.begin(); own != tenants_.end();) {
    const auto next = std::next(own); // the last entry takes its tenant with it
    for (auto left = own->second.size(); left > 0 && now >= own->second.front().expires; --left)
      drop({own, own->second.begin()}, dropped);
    own = next;
  }
}

void response_store::clear() {
  tenants dropped;
  std::lock_guard lock(mutex_);
  places_.clear();
  dropped.swap(tenants_);
}

std::size_t response_store::num_entries() const {
  std::lock_guard lock(mutex_);
  return places_.size();
}

} // namespace paceline::server
