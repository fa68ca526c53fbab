#include "actors/supervisor_state.hpp"

namespace paceline::actors {

std::string to_string(const part& of) {
  const auto model = "/" + to_string(of.model), drafter = "/" + to_string(of.drafter);
  switch (of.kind) {
  case part_kind::kv_pool:
    return "kv_pool";
  case part_kind::fan_out:
    return "fan_out";
  case part_kind::supervisor:
    return "supervisor";
  case part_kind::scheduler:
    return "scheduler" + model;
  case part_kind::target_verifier:
    return "target_verifier" + model;
  case part_kind::draft_worker:
    return "draft_worker" + model + drafter;
  case part_kind::drafter:
    break;
  }
  return "drafter" + model + drafter;
}

supervisor_state::supervisor_state(std::vector<std::vector<drafter_index>> workers,
                                   std::uint32_t max_restarts, std::chrono::nanoseconds restart_window)
    : workers_(std::move(workers)), max_restarts_(max_restarts), restart_window_(restart_window) {}

template <class Action>
void supervisor_state::for_each_model(Action action) const {
  for (std::uint32_t m = 0; m < workers_.size(); ++m) action(model_number{m});
}

template <class Action>
void supervisor_state::for_lost_workers(model_number model, Action action) const {
  for (const auto drafter : workers_[model.value])
    if (const auto worker = worker_of(model, drafter); is_lost(worker)) action(worker);
}

std::vector<supervision_step> supervisor_state::start_everything() {
  plan out;
  start(the_kv_pool, false, out);
  start(the_fan_out, false, out);
  for_each_model([&](model_number model) {
    for (const auto drafter : workers_[model.value]) start(worker_of(model, drafter), false, out);
    start_scheduler(model, false, out);
    start_verifier(model, false, out);
  });
  return out;
}

std::vector<supervision_step> supervisor_state::on_death(const part& which, time_point now) {
  plan out;
  if (alive_.erase(which) == 0 || ending_) return out;
  auto [budget, fresh] = budgets_.try_emplace(which, max_restarts_, restart_window_);
  budget->second.spend(now) ? restart(which, out) : lose(which, out);
  return out;
}

std::vector<part> supervisor_state::begin_end() {
  ending_ = true;
  return {alive_.begin(), alive_.end()};
}

const error* supervisor_state::out_of_service(model_number model) const {
  const auto it = out_of_service_.find(model);
  return it == out_of_service_.end() ? nullptr : &it->second;
}

void supervisor_state::start(const part& which, bool again, plan& out) {
  alive_.insert(which);
  out.emplace_back(steps::start{which, again});
  out.emplace_back(steps::list{which});
}

void supervisor_state::start_scheduler(model_number model, bool again, plan& out) {
  const auto which = scheduler_of(model);
  alive_.insert(which);
  out.emplace_back(steps::start{which, again});
  out.emplace_back(steps::link{which, the_fan_out});
  out.emplace_back(steps::link{which, the_kv_pool});
  for_lost_workers(model, [&](const part& lost) { out.emplace_back(steps::tell_worker_lost{which, lost}); });
  if (out_of_service(model)) out.emplace_back(steps::tell_out_of_service{which});
  // This is the last step, because an actor must know its peers before it can refuse a submission.
  out.emplace_back(steps::list{which});
}

void supervisor_state::start_verifier(model_number model, bool again, plan& out) {
  const auto which = verifier_of(model);
  start(which, again, out);
  for_lost_workers(model, [&](const part& lost) { out.emplace_back(steps::tell_worker_lost{which, lost}); });
}

void supervisor_state::restart(const part& which, plan& out) {
  switch (which.kind) {
  case part_kind::kv_pool:
    start(which, true, out);
    for_each_model([&](model_number model) { out.emplace_back(steps::link{scheduler_of(model), which}); });
    // None of these models asks again, and messages to the previous actor may be lost.
    for (const auto& [model, why] : out_of_service_) out.emplace_back(steps::give_back_memory{model});
    return;
  case part_kind::fan_out:
    start(which, true, out);
    for_each_model([&](model_number model) {
      out.emplace_back(steps::link{scheduler_of(model), which});
      out.emplace_back(steps::link{verifier_of(model), which});
    });
    // Sessions are told last. A session that was not told yet submits after the messages above and loses
    // nothing.
    out.emplace_back(steps::tell_sessions{steps::news::events_lost});
    return;
  case part_kind::scheduler:
    start_scheduler(which.model, true, out);
    out.emplace_back(steps::link{verifier_of(which.model), which});
    // A session that is not registered yet will read the new address when it starts.
    out.emplace_back(steps::tell_sessions{steps::news::resubmit, which.model});
    return;
  case part_kind::target_verifier: // the verifier announces itself to the scheduler
    return start_verifier(which.model, true, out);
  case part_kind::draft_worker:
    start(which, true, out);
    out.emplace_back(steps::link{verifier_of(which.model), which});
    return;
  case part_kind::supervisor:
  case part_kind::drafter: // a drafter is never started by the supervisor
    return;
  }
}

void supervisor_state::lose(const part& which, plan& out) {
  lost_.insert(which);
  const auto because = [&](const char* consequence) {
    return error{errc::out_of_service, to_string(which) + " failed too often: " + consequence +
                                           " until the process is started again"};
  };
  if (which.kind == part_kind::draft_worker) {
    out.emplace_back(steps::record_loss{which, because("its model decodes without this drafter")});
    out.emplace_back(steps::end_programs{which});
    out.emplace_back(steps::tell_worker_lost{scheduler_of(which.model), which});
    out.emplace_back(steps::tell_worker_lost{verifier_of(which.model), which});
    return;
  }
  const auto why = because("the model is out of service");
  out.emplace_back(steps::record_loss{which, why});
  for_each_model([&](model_number model) {
    if (!which.serves_one_model() || model == which.model) take_out_of_service(model, why, out);
  });
}

/// Writes it first where new sessions read it, then tells registered sessions. The first reason is kept.
void supervisor_state::take_out_of_service(model_number model, const error& why, plan& out) {
  if (!out_of_service_.emplace(model, why).second) return;
  out.emplace_back(steps::withdraw{model, why});
  out.emplace_back(steps::tell_out_of_service{scheduler_of(model)});
  out.emplace_back(steps::give_back_memory{model});
  out.emplace_back(steps::tell_sessions{steps::news::out_of_service, model});
}

} // namespace paceline::actors
