#include "actors/supervisor.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_context>;

/// Carries out the state's decisions: spawns actors and sends messages.
class executor {
 public:
  executor(supervisor_pointer self, const supervisor_parts& parts) : self_(self), parts_(parts) {}

  void operator()(const std::vector<supervision_step>& plan) {
    for (const auto& step : plan) std::visit(*this, step);
  }

  void operator()(const steps::start& step) {
    self_->state.addresses[step.which] = spawn(step.which);
    if (step.again) meter(step.which)->num_restarts.fetch_add(1, std::memory_order_relaxed);
  }

  void operator()(const steps::list& step) {
    parts_.where->put(to_string(step.which), self_->state.addresses[step.which]);
  }

  void operator()(const steps::link& step) {
    const auto news = link_to(step.about);
    step.whom.kind == part_kind::scheduler ? tell<scheduler_actor>(step.whom, news)
                                           : tell<target_verifier_actor>(step.whom, news);
  }

  void operator()(const steps::record_loss& step) { parts_.where->faults()->note_lost(step.which, step.why); }

  void operator()(const steps::withdraw& step) { parts_.where->take_out_of_service(step.model, step.why); }

  void operator()(const steps::end_programs& step) {
    self_->state.addresses.erase(step.worker);
    auto* worker = parts_.models[step.worker.model.value].draft_workers[step.worker.drafter.value];
    self_->state.lost_workers[step.worker] = {step.worker.drafter, worker->programs_done()};
  }

  void operator()(const steps::tell_worker_lost& step) {
    const auto& news = self_->state.lost_workers[step.worker];
    step.whom.kind == part_kind::scheduler ? tell<scheduler_actor>(step.whom, news)
                                           : tell<target_verifier_actor>(step.whom, news);
  }

  void operator()(const steps::tell_out_of_service& step) {
    tell<scheduler_actor>(step.whom, out_of_service(step.whom.model));
  }

  void operator()(const steps::give_back_memory& step) {
    const auto scheduler = address<scheduler_actor>(scheduler_of(step.model));
    tell<kv_pool_actor>(the_kv_pool,
                        pool_batch_command{step.model, scheduler, {scheduling::retain_command{}}});
  }

  void operator()(const steps::tell_sessions& step) {
    for (const auto& session : parts_.sessions->all()) switch (step.what) {
      case steps::news::resubmit:
        self_->send(session, resubmit_event{address<scheduler_actor>(scheduler_of(step.model)), step.model});
        break;
      case steps::news::events_lost:
        self_->send(session, events_lost_event{});
        break;
      case steps::news::out_of_service:
        self_->send(session, out_of_service(step.model));
      }
  }

 private:
  std::shared_ptr<actor_meter> meter(const part& which) { return parts_.where->meter(to_string(which)); }

  template <class Behavior, class... Args>
  caf::strong_actor_ptr play(const part& which, Behavior behavior, Args&&... args) {
    return caf::actor_cast<caf::strong_actor_ptr>(
        self_->spawn<caf::monitored>(behavior, std::forward<Args>(args)..., meter(which)));
  }

  caf::strong_actor_ptr spawn(const part& which) {
    const auto m = which.model.value;
    switch (which.kind) {
    case part_kind::kv_pool:
      return play(which, kv_pool, parts_.kv_pool);
    case part_kind::fan_out:
      return play(which, fan_out, parts_.sessions);
    case part_kind::scheduler:
      return play(which, scheduler, parts_.models[m].scheduler, parts_.time, which.model, parts_.sessions,
                  parts_.where->faults());
    case part_kind::target_verifier: {
      const link_command peers{.scheduler = address<scheduler_actor>(scheduler_of(which.model)),
                               .fan_out = address<fan_out_actor>(the_fan_out),
                               .draft_workers = workers(which.model)};
      return play(which, target_verifier, parts_.models[m].verifier, peers);
    }
    default:
      break;
    }
    return play(which, draft_worker, parts_.models[m].draft_workers[which.drafter.value]);
  }

  template <class Handle>
  Handle address(const part& of) const {
    const auto it = self_->state.addresses.find(of);
    return it == self_->state.addresses.end() ? Handle{} : caf::actor_cast<Handle>(it->second);
  }

  std::vector<draft_worker_actor> workers(model_number model) const {
    std::vector<draft_worker_actor> out(parts_.models[model.value].draft_workers.size());
    for (std::uint32_t d = 0; d < out.size(); ++d)
      out[d] = address<draft_worker_actor>(worker_of(model, drafter_index{d}));
    return out;
  }

  link_command link_to(const part& about) const {
    switch (about.kind) {
    case part_kind::kv_pool:
      return {.kv_pool = address<kv_pool_actor>(about)};
    case part_kind::fan_out:
      return {.fan_out = address<fan_out_actor>(about)};
    case part_kind::scheduler:
      return {.scheduler = address<scheduler_actor>(about)};
    default:
      return {.draft_workers = workers(about.model)};
    }
  }

  out_of_service_event out_of_service(model_number model) const {
    return {model, *self_->state.supervision->out_of_service(model)};
  }

  template <class Handle, class Message>
  void tell(const part& whom, Message news) {
    if (const auto handle = address<Handle>(whom)) self_->send(handle, std::move(news));
  }

  supervisor_pointer self_;
  const supervisor_parts& parts_;
};

std::vector<std::vector<drafter_index>> workers_of(const supervisor_parts& parts) {
  std::vector<std::vector<drafter_index>> out;
  for (const auto& model : parts.models) {
    auto& workers = out.emplace_back();
    for (std::uint32_t d = 0; d < model.draft_workers.size(); ++d)
      if (model.draft_workers[d]) workers.emplace_back(d);
  }
  return out;
}

/// The part of the actor that died. Removes its address.
std::optional<part> take_by_address(supervisor_context& context, const caf::actor_addr& address) {
  const auto it = std::ranges::find_if(context.addresses, [&](const auto& entry) {
    return caf::actor_cast<caf::actor_addr>(entry.second) == address;
  });
  if (it == context.addresses.end()) return std::nullopt;
  const auto which = it->first;
  context.addresses.erase(it);
  return which;
}

} // namespace

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_parts parts) {
  auto shared = std::make_shared<const supervisor_parts>(std::move(parts));
  auto& context = self->state;
  context.supervision =
      std::make_unique<supervisor_state>(workers_of(*shared), shared->max_restarts, shared->restart_window);
  self->set_down_handler([=](const caf::down_msg& down) {
    const auto which = take_by_address(self->state, down.source);
    if (!which) return;
    executor(self, *shared)(self->state.supervision->on_death(*which, shared->time->now()));
    if (self->state.supervision->is_over()) self->quit(caf::exit_reason::user_shutdown);
  });
  self->set_exit_handler([=](const caf::exit_msg& message) {
    shared->where->clear();
    for (const auto& which : self->state.supervision->begin_end())
      self->send_exit(caf::actor_cast<caf::actor>(self->state.addresses[which]),
                      caf::exit_reason::user_shutdown);
    if (self->state.supervision->is_over()) self->quit(message.reason);
  });
  self->attach_functor([where = shared->where](const caf::error& reason) {
    if (reason == caf::exit_reason::user_shutdown) return;
    where->faults()->note_lost(
        the_supervisor,
        error{errc::internal, "the supervisor failed: parts that fail from now on are not restarted"});
    where->mark_unhealthy(); // last, so that a reader that sees the mark also finds the reason
  });
  shared->where->set_num_models(shared->models.size());
  executor(self, *shared)(context.supervision->start_everything());
  return {[](const ready_question&) { return ready_answer{}; }};
}

} // namespace paceline::actors
