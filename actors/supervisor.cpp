#include "actors/supervisor.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using self_pointer = supervisor_actor::stateful_pointer<supervisor_shell>;

std::string name_of(const char* kind, model_number model) {
  return std::string(kind) + "/" + to_string(model);
}
std::string worker_name(model_number model, drafter_index drafter) {
  return name_of("draft_worker", model) + "/" + to_string(drafter);
}

template <class Handle>
caf::strong_actor_ptr address_of(const Handle& handle) {
  return caf::actor_cast<caf::strong_actor_ptr>(handle);
}

/// Starts one actor after another; each `start_` function also tells the peers of what it started.
class starter {
 public:
  starter(self_pointer self, const supervisor_parts& parts) : self_(self), parts_(parts) {}

  /// An actor that nobody outside can find yet.
  template <class Behavior, class... Args>
  auto spawn_unlisted(const std::string& name, Behavior behavior, Args&&... args) {
    auto handle =
        self_->spawn<caf::monitored>(behavior, std::forward<Args>(args)..., parts_.where->meter(name));
    ++self_->state.num_children;
    return handle;
  }

  template <class Behavior, class... Args>
  auto spawn(const std::string& name, Behavior behavior, Args&&... args) {
    auto handle = spawn_unlisted(name, behavior, std::forward<Args>(args)...);
    parts_.where->put(name, address_of(handle));
    return handle;
  }

  void start_everything() {
    auto& shell = self_->state;
    shell.models.resize(parts_.models.size());
    shell.kv_pool = spawn("kv_pool", kv_pool, parts_.kv_pool);
    shell.fan_out = spawn("fan_out", fan_out, parts_.sessions);
    for (model_number m; m.value < shell.models.size(); ++m.value) {
      const auto& workers = parts_.models[m.value].draft_workers;
      shell.models[m.value].draft_workers.resize(workers.size());
      for (drafter_index d; d.value < workers.size(); ++d.value)
        if (workers[d.value]) start_draft_worker(m, d);
      start_scheduler(m);
      start_verifier(m);
    }
  }

  void restart_kv_pool() {
    self_->state.kv_pool = spawn("kv_pool", kv_pool, parts_.kv_pool);
    for (auto& m : self_->state.models)
      self_->send(m.scheduler, link_command{.kv_pool = self_->state.kv_pool});
  }

  void restart_fan_out() {
    self_->state.fan_out = spawn("fan_out", fan_out, parts_.sessions);
    const link_command news{.fan_out = self_->state.fan_out};
    for (auto& m : self_->state.models) {
      self_->send(m.scheduler, news);
      self_->send(m.verifier, news);
    }
    // Last: a session that is not told submits behind the news above, and loses nothing.
    for (const auto& session : parts_.sessions->all()) self_->send(session, events_lost_event{});
  }

  void start_scheduler(model_number m) {
    auto& shell = self_->state;
    auto& handle = shell.models[m.value].scheduler;
    const auto name = name_of("scheduler", m);
    handle = spawn_unlisted(name, scheduler, parts_.models[m.value].scheduler, parts_.time, m);
    self_->send(handle, link_command{.kv_pool = shell.kv_pool, .fan_out = shell.fan_out});
    for (const auto& lost : shell.models[m.value].lost_workers) self_->send(handle, lost);
    if (auto why = parts_.where->out_of_service(m))
      self_->send(handle, out_of_service_event{m, *std::move(why)});
    // Listed last: a submission that it refuses finds its way back only if it knows its peers.
    parts_.where->put(name, address_of(handle));
  }

  void restart_scheduler(model_number m) {
    start_scheduler(m);
    auto& shell = self_->state;
    self_->send(shell.models[m.value].verifier, link_command{.scheduler = shell.models[m.value].scheduler});
    // A session that is not among them now reads the new address when it starts.
    for (const auto& session : parts_.sessions->all())
      self_->send(session, resubmit_event{shell.models[m.value].scheduler, m});
  }

  void start_verifier(model_number m) {
    auto& shell = self_->state;
    const link_command peers{.scheduler = shell.models[m.value].scheduler,
                             .fan_out = shell.fan_out,
                             .draft_workers = shell.models[m.value].draft_workers};
    shell.models[m.value].verifier =
        spawn(name_of("target_verifier", m), target_verifier, parts_.models[m.value].verifier, peers);
    for (const auto& lost : shell.models[m.value].lost_workers)
      self_->send(shell.models[m.value].verifier, lost);
  }

  void start_draft_worker(model_number m, drafter_index d) {
    auto handle = spawn(worker_name(m, d), draft_worker, parts_.models[m.value].draft_workers[d.value]);
    self_->state.models[m.value].draft_workers[d.value] = std::move(handle);
  }

  void restart_draft_worker(model_number m, drafter_index d) {
    start_draft_worker(m, d);
    auto& model = self_->state.models[m.value];
    self_->send(model.verifier, link_command{.draft_workers = model.draft_workers});
  }

  /// A part that `model` needs is gone for good. First the directory, which new sessions read, then those who
  /// did not read it.
  void take_out_of_service(model_number m, const std::string& gone) {
    parts_.where->take_out_of_service(
        m, error{errc::out_of_service, gone + " failed too often: the model is out of service until the "
                                              "process is started again"});
    const out_of_service_event news{m, *parts_.where->out_of_service(m)};
    const auto& scheduler = self_->state.models[m.value].scheduler;
    self_->send(scheduler, news);
    // Nobody else gives its memory back if the scheduler is what is gone.
    self_->send(self_->state.kv_pool, pool_batch_command{m, scheduler, {scheduling::retain_command{}}});
    for (const auto& session : parts_.sessions->all()) self_->send(session, news);
  }

  void take_all_out_of_service(const std::string& gone) {
    for (model_number m; m.value < self_->state.models.size(); ++m.value) take_out_of_service(m, gone);
  }

  void lose_draft_worker(model_number m, drafter_index d) {
    auto& model = self_->state.models[m.value];
    model.draft_workers[d.value] = nullptr;
    model.lost_workers.push_back({d, parts_.models[m.value].draft_workers[d.value]->programs_done()});
    self_->send(model.scheduler, model.lost_workers.back());
    self_->send(model.verifier, model.lost_workers.back());
  }

  /// Restarts whoever died at `address`, or tells those who need it that it is gone for good.
  void replace(const caf::actor_addr& address) {
    auto& shell = self_->state;
    const auto is = [&](const auto& handle) {
      return handle && caf::actor_cast<caf::actor_addr>(handle) == address;
    };
    if (is(shell.kv_pool))
      return within_budget("kv_pool") ? restart_kv_pool() : take_all_out_of_service("kv_pool");
    if (is(shell.fan_out))
      return within_budget("fan_out") ? restart_fan_out() : take_all_out_of_service("fan_out");
    for (model_number m; m.value < shell.models.size(); ++m.value) {
      auto& model = shell.models[m.value];
      if (const auto name = name_of("scheduler", m); is(model.scheduler))
        return within_budget(name) ? restart_scheduler(m) : take_out_of_service(m, name);
      if (const auto name = name_of("target_verifier", m); is(model.verifier))
        return within_budget(name) ? start_verifier(m) : take_out_of_service(m, name);
      for (drafter_index d; d.value < model.draft_workers.size(); ++d.value)
        if (is(model.draft_workers[d.value]))
          return within_budget(worker_name(m, d)) ? restart_draft_worker(m, d) : lose_draft_worker(m, d);
    }
  }

  void stop_everything() {
    auto& shell = self_->state;
    for (auto& m : shell.models) {
      self_->send_exit(m.scheduler, caf::exit_reason::user_shutdown);
      self_->send_exit(m.verifier, caf::exit_reason::user_shutdown);
      for (auto& d : m.draft_workers)
        if (d) self_->send_exit(d, caf::exit_reason::user_shutdown);
    }
    self_->send_exit(shell.kv_pool, caf::exit_reason::user_shutdown);
    self_->send_exit(shell.fan_out, caf::exit_reason::user_shutdown);
    shell.models.clear();
    shell.kv_pool = nullptr;
    shell.fan_out = nullptr;
  }

 private:
  bool within_budget(const std::string& name) {
    auto [it, fresh] = self_->state.budgets.try_emplace(name, parts_.max_restarts, parts_.restart_window);
    if (!it->second.spend(parts_.time->now())) {
      parts_.where->mark_unhealthy();
      return false;
    }
    parts_.where->meter(name)->num_restarts.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  self_pointer self_;
  const supervisor_parts& parts_;
};

} // namespace

supervisor_actor::behavior_type supervisor(self_pointer self, supervisor_parts parts) {
  auto shared = std::make_shared<const supervisor_parts>(std::move(parts));
  self->set_down_handler([=](const caf::down_msg& down) {
    auto& shell = self->state;
    --shell.num_children;
    if (!shell.ending) return starter(self, *shared).replace(down.source);
    if (shell.num_children == 0) self->quit(caf::exit_reason::user_shutdown);
  });
  self->set_exit_handler([=](const caf::exit_msg& message) {
    self->state.ending = true;
    shared->where->clear();
    starter(self, *shared).stop_everything();
    if (message.reason == caf::exit_reason::kill || self->state.num_children == 0) self->quit(message.reason);
  });
  starter(self, *shared).start_everything();
  return {[](const ready_question&) { return ready_answer{}; }};
}

} // namespace paceline::actors
