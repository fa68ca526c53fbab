#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/kv/pool_manager.hpp"
#include "runtime/scheduling/pool_commands.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace paceline::actors {

/// Translates the scheduler's commands into calls of the pool manager. Maps requests to lease keys, so that
/// messages can name a request. If a request has no lease, only commands that acquire one change anything.
/// Owned by the engine.
///
/// Invariant: exactly the requests with a block table in the manager have a key.
class kv_pool_state {
 public:
  /// `pools[model][pool]` is the manager's id of that pool.
  kv_pool_state(kv::pool_manager& manager, std::vector<std::vector<kv::pool_id>> pools);

  struct answers {
    std::vector<scheduling::lease_event> leases;
    /// Models that were refused blocks or state slots, and may now get them.
    std::vector<model_number> freed_models;
  };
  /// Carries out the commands of `model`'s scheduler in order.
  answers handle(model_number model, const std::vector<scheduling::pool_command>& commands);

  const kv::pool_manager& manager() const noexcept { return *manager_; }
  const std::vector<kv::pool_id>& pools_of(model_number model) const { return pools_.at(model.value); }
  /// Empty if all invariants hold, else the violated one.
  std::string check_invariants() const;

 private:
  struct table {
    kv::lease_key key;
    std::uint32_t num_committed = 0;
    /// In a drafter's pool: index of the request's token at which the drafter's text begins; nullopt: the
    /// prefix cache is not used.
    std::optional<std::uint32_t> text_begin = {};
  };
  using table_key = std::tuple<model_number, pool_number, request_id>;

  void apply(model_number model, const scheduling::acquire_command& command, answers& out);
  void apply(model_number model, const scheduling::acquire_for_drafter_command& command, answers& out);
  void apply(model_number model, const scheduling::reserve_command& command, answers& out);
  void apply(model_number model, const scheduling::commit_command& command, answers& out);
  void apply(model_number model, const scheduling::rollback_command& command, answers& out);
  void apply(model_number model, const scheduling::release_command& command, answers& out);
  void apply(model_number model, const scheduling::retain_command& command, answers& out);
  void apply(model_number model, const scheduling::watermark_event& event, answers& out);
  scheduling::lease_event acquire(model_number model, const scheduling::acquire_command& command);
  scheduling::lease_event reserve(model_number model, const scheduling::reserve_command& command);
  scheduling::lease_event acquire_for_drafter(model_number model,
                                              const scheduling::acquire_for_drafter_command& command);
  void commit(model_number model, const scheduling::commit_command& command);
  void commit_for_drafter(model_number model, const scheduling::commit_command& command);
  std::optional<kv::committed_text> targets_text(model_number model, request_id request);
  void release(model_number model, const scheduling::release_command& command);
  void retain(model_number model, const scheduling::retain_command& command);
  kv::stream_point point(model_number model, pool_number pool, std::uint64_t sequence) const;
  table* find(model_number model, pool_number pool, request_id request);
  void note_refusal(model_number model);
  /// Number of blocks and state slots, in all pools, that are not free: they are leased, or they were
  /// released but programs may still use them. If this number falls, memory was freed.
  std::uint64_t num_held() const;

  kv::pool_manager* manager_;
  std::vector<std::vector<kv::pool_id>> pools_;
  std::map<table_key, table> tables_;
  std::vector<bool> refused_; ///< by model: it was refused memory, and none was freed since then
};

} // namespace paceline::actors
