#pragma once

#include "actors/part.hpp"
#include "actors/restart_budget.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/error.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::actors {

/// The steps that `supervisor_state` returns. The supervisor carries them out in order.
namespace steps {

/// Spawns the actor of a part on that part's state.
struct start {
  part which;
  bool again = false; ///< the actor replaces one that died
  friend bool operator==(const start&, const start&) = default;
};
/// Enters the actor into the directory.
struct list {
  part which;
  friend bool operator==(const list&, const list&) = default;
};
/// Tells `whom` the address of `about`.
struct link {
  part whom, about;
  friend bool operator==(const link&, const link&) = default;
};
/// Records that a part is lost for good.
struct record_loss {
  part which;
  error why;
  friend bool operator==(const record_loss&, const record_loss&) = default;
};
/// Refuses new requests of the model from now on.
struct withdraw {
  model_number model;
  error why;
  friend bool operator==(const withdraw&, const withdraw&) = default;
};
/// Enqueues a last program of a lost draft worker (`draft_worker_state::programs_done`). When its fence
/// passes, all of the worker's programs have ended.
struct end_programs {
  part worker;
  friend bool operator==(const end_programs&, const end_programs&) = default;
};
/// Tells `whom` that the draft worker `worker` is lost.
struct tell_worker_lost {
  part whom, worker;
  friend bool operator==(const tell_worker_lost&, const tell_worker_lost&) = default;
};
/// Tells the scheduler `whom` that its model is out of service.
struct tell_out_of_service {
  part whom;
  friend bool operator==(const tell_out_of_service&, const tell_out_of_service&) = default;
};
/// Returns the memory of all requests of the model to the pool. Needed if the scheduler is lost; a living
/// scheduler releases this memory itself.
struct give_back_memory {
  model_number model;
  friend bool operator==(const give_back_memory&, const give_back_memory&) = default;
};
enum class news : std::uint8_t { resubmit, events_lost, out_of_service };
/// Sends the news to every session that is registered when the step is carried out.
struct tell_sessions {
  news what = news::resubmit;
  model_number model{}; ///< unused for `events_lost`, which concerns all models
  friend bool operator==(const tell_sessions&, const tell_sessions&) = default;
};

} // namespace steps

using supervision_step =
    std::variant<steps::start, steps::list, steps::link, steps::record_loss, steps::withdraw,
                 steps::end_programs, steps::tell_worker_lost, steps::tell_out_of_service,
                 steps::give_back_memory, steps::tell_sessions>;

/// Decides which dead actors are restarted, and which parts and sessions are told of a death.
///
/// Invariants: until the shutdown begins, every part that was started is either alive or lost. A model is out
/// of service exactly if its scheduler, its verifier, the KV pool or fan_out is lost. Nothing is started or
/// told after the shutdown has begun.
class supervisor_state {
 public:
  /// `workers`: for each model, the drafters that run in a worker.
  supervisor_state(std::vector<std::vector<drafter_index>> workers, std::uint32_t max_restarts,
                   std::chrono::nanoseconds restart_window);

  std::vector<supervision_step> start_everything();
  /// The actor of `which` has died. actors/supervisor.hpp lists what may be lost with it and who repairs it.
  std::vector<supervision_step> on_death(const part& which, time_point now);
  /// Begins the shutdown and returns the living parts, which must be told to end.
  std::vector<part> begin_end();
  /// True once the shutdown has begun and every actor has ended.
  bool is_over() const noexcept { return ending_ && alive_.empty(); }

  bool is_lost(const part& which) const { return lost_.contains(which); }
  /// Why a model is out of service; null if it serves.
  const error* out_of_service(model_number model) const;

 private:
  using plan = std::vector<supervision_step>;

  void start(const part& which, bool again, plan& out);
  void start_scheduler(model_number model, bool again, plan& out);
  void start_verifier(model_number model, bool again, plan& out);
  void restart(const part& which, plan& out);
  void lose(const part& which, plan& out);
  void take_out_of_service(model_number model, const error& why, plan& out);
  template <class Action>
  void for_lost_workers(model_number model, Action action) const;
  template <class Action>
  void for_each_model(Action action) const;

  std::vector<std::vector<drafter_index>> workers_;
  std::uint32_t max_restarts_;
  std::chrono::nanoseconds restart_window_;
  std::map<part, restart_budget> budgets_;
  std::set<part> alive_, lost_;
  std::map<model_number, error> out_of_service_;
  bool ending_ = false;
};

} // namespace paceline::actors
