#include "actors/kv_pool_state.hpp"

#include <algorithm>

namespace paceline::actors {

using namespace scheduling; // the command structs

kv_pool_state::kv_pool_state(kv::pool_manager& manager, std::vector<std::vector<kv::pool_id>> pools)
    : manager_(&manager), pools_(std::move(pools)), refused_(pools_.size()) {}

kv_pool_state::answers kv_pool_state::handle(model_number model, const std::vector<pool_command>& commands) {
  answers out;
  bool returned = false;
  auto num_before = num_held();
  for (const auto& command : commands) {
    std::visit([&](const auto& c) { apply(model, c, out); }, command);
    const auto num_after = num_held();
    returned |= num_after < num_before;
    num_before = num_after;
  }
  if (!returned) return out;
  for (std::uint32_t m = 0; m < refused_.size(); ++m)
    if (refused_[m]) {
      refused_[m] = false;
      out.freed_models.emplace_back(m);
    }
  return out;
}

std::uint64_t kv_pool_state::num_held() const {
  std::uint64_t num = 0;
  for (std::uint32_t p = 0; p < manager_->num_pools(); ++p) {
    const auto usage = manager_->usage(kv::pool_id{p});
    num += std::uint64_t{usage.num_active} + usage.num_deferred + usage.num_held_state_slots;
  }
  return num;
}

void kv_pool_state::apply(model_number model, const acquire_command& command, answers& out) {
  out.leases.push_back(acquire(model, command));
}

void kv_pool_state::apply(model_number model, const acquire_for_drafter_command& command, answers& out) {
  out.leases.push_back(acquire_for_drafter(model, command));
}

void kv_pool_state::apply(model_number model, const reserve_command& command, answers& out) {
  out.leases.push_back(reserve(model, command));
}

void kv_pool_state::apply(model_number model, const commit_command& command, answers&) {
  commit(model, command);
}

void kv_pool_state::apply(model_number model, const rollback_command& command, answers&) {
  if (auto* t = find(model, command.pool, command.request))
    (void)manager_->rollback(t->key, command.num_positions, point(model, command.pool, command.after))
        .has_value(); // stale: the request's table belongs to a later lease
}

void kv_pool_state::apply(model_number model, const release_command& command, answers&) {
  release(model, command);
}

void kv_pool_state::apply(model_number model, const retain_command& command, answers&) {
  retain(model, command);
}

void kv_pool_state::apply(model_number model, const watermark_event& event, answers&) {
  manager_->on_watermark(point(model, event.pool, 0).stream, event.sequence);
}

lease_event kv_pool_state::acquire(model_number model, const acquire_command& command) {
  lease_event answer{command.request, command.pool, command.ticket, false, {}, 0, {}};
  release(model,
          {command.request, command.pool, 0}); // an earlier answer was lost, and its blocks were never used
  kv::acquire_options options;
  options.tokens = command.tokens;
  options.num_prompt_tokens = static_cast<std::uint32_t>(command.tokens.size());
  options.salt = command.salt;
  options.reserve_length = command.num_positions;
  options.use_cache = command.use_cache;
  options.min_state_slots = command.min_state_slots;
  options.max_state_slots = command.max_state_slots;
  options.num_snapshot_slots = command.num_snapshot_slots;
  auto made = manager_->acquire(pools_[model.value].at(command.pool.value), command.request, options);
  if (!made) {
    note_refusal(model);
    answer.lacks_states = made.error().code() == errc::state_slots_full;
    return answer;
  }
  tables_[{model, command.pool, command.request}] = {made->lease.key,
                                                     static_cast<std::uint32_t>(command.tokens.size())};
  answer.granted = true;
  answer.blocks = made->lease.blocks;
  answer.num_cached = made->lease.length;
  answer.copies = made->copies;
  answer.states = std::move(made->states);
  return answer;
}

lease_event kv_pool_state::reserve(model_number model, const reserve_command& command) {
  lease_event answer{command.request, command.pool, command.ticket, false, {}, 0, {}};
  auto* t = find(model, command.pool, command.request);
  if (!t) return answer;
  auto grown = manager_->reserve(t->key, command.num_positions);
  if (!grown) {
    note_refusal(model);
    return answer;
  }
  answer.granted = true;
  answer.blocks = grown->blocks;
  return answer;
}

/// The content of a drafter's cells depends on the request's tokens up to some position, so these tokens
/// identify blocks. Tokens before the drafter's text affect every cell, like the salt.
lease_event kv_pool_state::acquire_for_drafter(model_number model,
                                               const acquire_for_drafter_command& command) {
  acquire_command ask{command.request, command.pool, {}, {}, false, command.num_positions, command.ticket};
  const auto text = command.text_begin ? targets_text(model, command.request) : std::nullopt;
  const bool shares = text && text->tokens.size() > *command.text_begin;
  if (shares) {
    ask.use_cache = true;
    ask.tokens.assign(text->tokens.begin() + *command.text_begin, text->tokens.end());
    ask.salt = text->salt;
    for (const auto token : text->tokens.first(*command.text_begin)) ask.salt += "/" + to_string(token);
  } else {
    ask.tokens.assign(1, token_id{0}); // the manager requires a token; it is never looked up
  }
  auto answer = acquire(model, ask);
  if (auto* t = find(model, command.pool, command.request); t && shares) t->text_begin = command.text_begin;
  return answer;
}

void kv_pool_state::commit(model_number model, const commit_command& command) {
  if (command.pool != target_pool) return commit_for_drafter(model, command);
  auto* t = find(model, command.pool, command.request);
  // A gap means that an earlier commit was lost with a pool manager. Nothing after it may be published.
  if (!t || (!command.tokens.empty() && t->num_committed != command.first_position)) return;
  if (manager_->commit(t->key, command.tokens, command.num_final, command.snapshots))
    t->num_committed += static_cast<std::uint32_t>(command.tokens.size());
}

void kv_pool_state::commit_for_drafter(model_number model, const commit_command& command) {
  auto* t = find(model, command.pool, command.request);
  if (!t || !t->text_begin) return;
  const auto text = targets_text(model, command.request);
  const auto known = std::size_t{*t->text_begin} + t->num_committed;
  // The target's lease is newer than the one of this command.
  if (!text || text->tokens.size() < known) return;
  const auto more = text->tokens.subspan(known);
  if (manager_->commit(t->key, more, command.num_final))
    t->num_committed += static_cast<std::uint32_t>(more.size());
}

std::optional<kv::committed_text> kv_pool_state::targets_text(model_number model, request_id request) {
  const auto* target = find(model, target_pool, request);
  return target ? manager_->text_of(target->key) : std::nullopt;
}

void kv_pool_state::release(model_number model, const release_command& command) {
  auto* t = find(model, command.pool, command.request);
  if (!t) return;
  (void)manager_->release(t->key, point(model, command.pool, command.after))
      .has_value(); // stale: it was released before
  tables_.erase({model, command.pool, command.request});
}

void kv_pool_state::retain(model_number model, const retain_command& command) {
  std::vector<release_command> lost;
  for (const auto& [key, t] : tables_) {
    const auto& [m, pool, request] = key;
    const retain_command::lease held{request, pool};
    if (m == model && std::ranges::find(command.leases, held) == command.leases.end())
      lost.push_back({request, pool, 0});
  }
  for (const auto& c : lost) release(model, c);
}

kv::stream_point kv_pool_state::point(model_number model, pool_number pool, std::uint64_t sequence) const {
  // A pool has one stream, with the same number.
  return {kv::stream_id{pools_[model.value].at(pool.value).value}, sequence};
}

kv_pool_state::table* kv_pool_state::find(model_number model, pool_number pool, request_id request) {
  const auto it = tables_.find({model, pool, request});
  return it == tables_.end() ? nullptr : &it->second;
}

void kv_pool_state::note_refusal(model_number model) { refused_[model.value] = true; }

std::string kv_pool_state::check_invariants() const {
  const auto broken = manager_->check_invariants();
  if (!broken) return broken.error().message();
  std::uint32_t num_requests = 0;
  for (std::uint32_t p = 0; p < manager_->num_pools(); ++p)
    num_requests += manager_->usage(kv::pool_id{p}).num_requests;
  if (num_requests != tables_.size()) return "keys and tables differ";
  return {};
}

} // namespace paceline::actors
