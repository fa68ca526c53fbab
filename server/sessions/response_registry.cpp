#include "server/sessions/response_registry.hpp"

#include <iterator>
#include <utility>

namespace paceline::server {

namespace {

/// Ends a session on its own executor.
void abandon(const response_registry::entry& entry) {
  entry.executor->post([session = entry.kept] { session->abandon(); });
}

} // namespace

bool response_registry::add(const std::string& id, entry added, std::size_t num_tenants) {
  std::lock_guard lock(mutex_);
  if (added.log && !places_.take(added.tenant, num_tenants)) return false;
  entries_.emplace(id, std::move(added));
  return true;
}

void response_registry::remove(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end() && !found->second.log) entries_.erase(found);
}

const response_registry::entry* response_registry::running(const std::string& id,
                                                           const std::string& tenant) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.tenant != tenant) return nullptr;
  const bool has_ended = found->second.log && found->second.log->result();
  return has_ended ? nullptr : &found->second;
}

std::shared_ptr<const wire::output_json> response_registry::cancel(const std::string& id,
                                                                   const std::string& tenant) {
  std::lock_guard lock(mutex_);
  const auto* entry = running(id, tenant);
  if (entry == nullptr) return nullptr;
  entry->executor->post([weak = entry->session] {
    if (const auto session = weak.lock()) session->cancel();
  });
  return entry->cancelled;
}

std::shared_ptr<const wire::output_json> response_registry::in_progress(const std::string& id,
                                                                        const std::string& tenant) const {
  std::lock_guard lock(mutex_);
  const auto* entry = running(id, tenant);
  return entry == nullptr ? nullptr : entry->in_progress;
}

std::shared_ptr<replay_log> response_registry::log(const std::string& id, const std::string& tenant) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() || found->second.tenant != tenant ? nullptr : found->second.log;
}

void response_registry::sweep(time_point now) {
  std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    // A request that has found the log here may attach to it only later. It must not wait for a response that
    // is ended now, so the log is closed first.
    const auto& log = it->second.log;
    it = log && log->close_if_unread(now - retention_) ? drop(it) : std::next(it);
  }
}

response_registry::entries::iterator response_registry::drop(entries::iterator one) {
  abandon(one->second);
  places_.give_back(one->second.tenant);
  return entries_.erase(one);
}

void response_registry::evict(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second.log) drop(found);
}

void response_registry::clear() {
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_)
    if (entry.kept) abandon(entry);
  entries_.clear();
  places_.clear();
}

std::size_t response_registry::num_resumable() const {
  std::lock_guard lock(mutex_);
  return places_.num_taken();
}

} // namespace paceline::server
