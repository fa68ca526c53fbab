#include "runtime/device/turn_order.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <tuple>

namespace paceline::device {

namespace {

/// Order among the programs of one tenant.
auto rank(const waiting_program& p) {
  return std::tuple(p.overtaken ? stream_priority::normal : p.priority, p.order);
}

} // namespace

void turn_order::add_stream(tenant_id tenant) { ++tenants_[tenant].num_streams; }

void turn_order::remove_stream(tenant_id tenant) {
  const auto at = tenants_.find(tenant);
  PACELINE_CHECK(at != tenants_.end(), "no tenant " + to_string(tenant));
  if (--at->second.num_streams == 0) tenants_.erase(at);
}

void turn_order::enter(tenant_id tenant, time_point now) {
  auto& state = tenants_.at(tenant);
  if (state.busy) return;
  const bool keeps_place = state.left && now - *state.left <= short_pause;
  const auto least = keeps_place ? floor_ - max_owed : floor_;
  state.service = std::max(state.service, least);
  state.busy = true;
}

void turn_order::leave(tenant_id tenant, time_point now) {
  auto& state = tenants_.at(tenant);
  if (!state.busy) return;
  raise_floor(); // the last tenant to leave determines where others start
  state.busy = false;
  state.left = now;
  raise_floor();
}

void turn_order::charge(tenant_id tenant, std::chrono::nanoseconds time) {
  tenants_.at(tenant).service += time;
  raise_floor();
}

void turn_order::raise_floor() {
  std::optional<std::chrono::nanoseconds> least;
  for (const auto& [id, state] : tenants_)
    if (state.busy) least = least ? std::min(*least, state.service) : state.service;
  if (least) floor_ = std::max(floor_, *least);
}

std::optional<std::size_t> turn_order::next_on_free_device(std::span<const waiting_program> waiting) const {
  const auto key = [&](std::size_t i) {
    const auto& p = waiting[i];
    return std::tuple(service(p.tenant), rank(p));
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < waiting.size(); ++i)
    if (!best || key(i) < key(*best)) best = i;
  return best;
}

std::optional<std::size_t> turn_order::next(std::span<const waiting_program> waiting,
                                            std::span<const tenant_id> begun) const {
  if (begun.empty()) return next_on_free_device(waiting);
  auto limit = service(begun.front());
  for (const auto tenant : begun) limit = std::min(limit, service(tenant));

  // The order within a tenant is kept: a short draft does not overtake its verification.
  const auto is_first_of_tenant = [&](const waiting_program& p) {
    return std::ranges::none_of(waiting, [&](const waiting_program& other) {
      return other.tenant == p.tenant && rank(other) < rank(p);
    });
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto& p = waiting[i];
    if (std::ranges::find(begun, p.tenant) != begun.end() || !is_first_of_tenant(p)) continue;
    const auto end = service(p.tenant) + p.expected;
    if (end >= limit) continue;
    limit = end; // among several, the one that ends first
    best = i;
  }
  return best;
}

} // namespace paceline::device
