#include "engine/engine.hpp"

#include "actors/behaviors.hpp"
#include "actors/supervisor.hpp"
#include "engine/actor_answers.hpp"
#include "engine/counters.hpp"
#include "engine/faults.hpp"
#include "engine/memory_plan.hpp"
#include "engine/model_unit.hpp"
#include "engine/probe.hpp"
#include "engine/token_text.hpp"
#include "gpu/cuda_failure.hpp"
#include "runtime/base/final_event.hpp"
#include "runtime/base/short_turns.hpp"
#include "runtime/rounds/admit.hpp"
#include "runtime/sampling/request_validation.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <optional>
#include <thread>

namespace paceline {

namespace {

/// The threads of actors pass messages on. They must not wait for long time slices of computing threads.
class short_turns final : public caf::thread_hook {
 public:
  void init(caf::actor_system&) override {}
  void thread_started() override { prefer_short_turns(); }
  void thread_terminates() override {}
};

/// The configuration of the engine's own actor system.
class own_configuration final : public caf::actor_system_config {
 public:
  explicit own_configuration(std::uint32_t threads) {
    engine::prepare(*this);
    add_thread_hook<short_turns>();
    set("scheduler.policy", caf::atom("sharing")); // "stealing" polls, which occupies cores and wakes late
    set("scheduler.max-threads", static_cast<std::size_t>(std::max(threads, 1U)));
    set("scheduler.max-throughput", std::size_t{50});
  }
};

std::vector<cpu::partition_options> split_cores(const config::engine_options& options) {
  const auto total =
      options.threads != 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1U);
  const auto num_partitions = std::clamp(options.partitions, 1U, total);
  std::vector<cpu::partition_options> partitions(num_partitions);
  for (std::uint32_t p = 0; p < num_partitions; ++p)
    partitions[p].num_threads = total / num_partitions + (p < total % num_partitions ? 1 : 0);
  return partitions;
}

} // namespace

struct engine::impl {
  // The members are in construction order, so actors and streams are destroyed before the objects that they
  // use.
  config::engine_options options;
  steady_clock time;
  std::unique_ptr<caf::actor_system_config> configuration;
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  gpu_opener open_gpu = gpu::open_device;
  std::optional<device_set> devices;
  speculation::drafter_registry registry = speculation::drafter_registry::with_built_in();
  std::vector<std::unique_ptr<model_unit>> models;
  std::unique_ptr<kv::pool_manager> pools;
  std::unique_ptr<actors::kv_pool_state> pool_state;
  std::shared_ptr<actors::session_registry> sessions = std::make_shared<actors::session_registry>();
  std::shared_ptr<actors::directory> where = std::make_shared<actors::directory>();
  actors::supervisor_actor supervisor;
  std::atomic<std::uint64_t> next_request{1};
  std::atomic<bool> draining{false};
  actor_answers answers;

  expected<void> load(const std::function<void(const load_progress&)>& progress);
  expected<void> load_all(const std::function<void(const load_progress&)>& progress);
  void make_system();
  void start_actors();
  void end_actors();
  void fail(request_id id, event_sink sink, error why);
  model_unit* find(std::string_view name) const;
  model_number number_of(const model_unit& unit) const;
  model_counters counters_of(std::size_t m, const model_answers& answers) const;
};

expected<void> engine::impl::load(const std::function<void(const load_progress&)>& progress) {
  try {
    return load_all(progress);
  } catch (const gpu::cuda_failure& e) {
    return e.error();
  } catch (const std::bad_alloc& e) {
    return error{errc::resource_exhausted,
                 std::string("not enough memory for weights or KV cells: ") + e.what()};
  }
}

expected<void> engine::impl::load_all(const std::function<void(const load_progress&)>& progress) {
  if (options.models.empty()) return error{errc::invalid_argument, "models: at least one is needed"};
  cpu::cpu_device_options device_options;
  device_options.partitions = split_cores(options);
  auto made = device_set::make(device_options, open_gpu);
  if (!made) return std::move(made).error();
  devices.emplace(*std::move(made));
  for (const auto& wanted : options.models) {
    auto unit = model_unit::load(wanted, *devices, registry, progress);
    if (!unit) return std::move(unit).error();
    models.push_back(*std::move(unit));
    const bool by_choice =
        options.overlap == config::overlap_mode::automatic && models.back()->drafts_elsewhere();
    if (by_choice || options.overlap == config::overlap_mode::outcomes)
      models.back()->num_guesses = options.outcome_guesses;
  }
  auto wanted = wanted_memory(models, options.prefix_cache);
  if (!wanted) return std::move(wanted).error();
  const auto plan = fit_memory(*std::move(wanted), options.memory_budget_bytes);
  if (!plan) return plan.error();
  pools = std::make_unique<kv::pool_manager>(plan->budgets);
  auto ids = make_pools(*pools, *plan);
  if (!ids) return std::move(ids).error();
  pool_state = std::make_unique<actors::kv_pool_state>(*pools, *std::move(ids));
  for (std::size_t m = 0; m < models.size(); ++m) models[m]->assemble(options, time, plan->pools[m]);
  return {};
}

void engine::impl::make_system() {
  configuration = std::make_unique<own_configuration>(options.actor_threads);
  own_system = std::make_unique<caf::actor_system>(*configuration);
  system = own_system.get();
}

void engine::impl::start_actors() {
  actors::supervisor_parts parts;
  for (const auto& unit : models) parts.models.push_back(unit->states->parts());
  parts.kv_pool = pool_state.get();
  parts.sessions = sessions;
  parts.time = &time;
  parts.where = where;
  parts.max_restarts = options.max_restarts;
  parts.restart_window = options.restart_window;
  supervisor = system->spawn(actors::supervisor, std::move(parts));
  caf::scoped_actor self(*system);
  // The call is local: if the actor is dead, an answer arrives, too.
  self->request(supervisor, caf::infinite, protocol::ready_question{})
      .receive([](const protocol::ready_answer&) {}, [this](const caf::error&) { where->mark_unhealthy(); });
}

expected<std::unique_ptr<engine>> engine::start(const config::engine_options& options,
                                                std::function<void(const load_progress&)> progress) {
  auto parts = std::make_unique<impl>();
  parts->options = options;
  if (auto ok = parts->load(progress); !ok) return std::move(ok).error();
  parts->make_system();
  parts->start_actors();
  return std::unique_ptr<engine>(new engine(std::move(parts)));
}

expected<std::unique_ptr<engine>> engine::start(caf::actor_system& system,
                                                const config::engine_options& options,
                                                std::function<void(const load_progress&)> progress) {
  auto parts = std::make_unique<impl>();
  parts->options = options;
  parts->system = &system;
  if (auto ok = parts->load(progress); !ok) return std::move(ok).error();
  parts->start_actors();
  return std::unique_ptr<engine>(new engine(std::move(parts)));
}

void engine::prepare(caf::actor_system_config& configuration) {
  configuration.add_message_types<caf::id_block::paceline>();
}

engine::engine(std::unique_ptr<impl> parts) : impl_(std::move(parts)) {}

void engine::impl::end_actors() {
  // The engine itself ends every session, because it knows all of them. So every client gets its last event,
  // whichever actor has failed. The wait has no limit, because a sink that is called later would use what is
  // freed here.
  for (const auto& session : sessions->all()) caf::anon_send_exit(session, caf::exit_reason::user_shutdown);
  sessions->wait_until_empty();
  caf::scoped_actor self(*system);
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  self->wait_for(supervisor); // it ends after all its actors have ended
  supervisor = nullptr;
  for (const auto& entry : where->all()) { // a supervisor that crashed left its actors running
    if (!entry.address) continue;
    const auto orphan = caf::actor_cast<caf::actor>(entry.address);
    caf::anon_send_exit(orphan, caf::exit_reason::kill);
    self->wait_for(orphan);
  }
  where->clear();
}

engine::~engine() {
  impl_->end_actors();
  for (auto& unit : impl_->models)
    unit->states->verifier().abandon(); // for all models, before the first of them is drained
  for (auto& unit : impl_->models)
    unit->states->drain(); // programs hold handles of actors and references to units
}

// ---- models

model_unit* engine::impl::find(std::string_view name) const {
  if (name.empty() || name == "default") return models.front().get();
  for (const auto& unit : models) {
    if (unit->options.name == name) return unit.get();
    if (std::ranges::find(unit->options.aliases, name) != unit->options.aliases.end()) return unit.get();
  }
  return nullptr;
}

model_number engine::impl::number_of(const model_unit& unit) const {
  const auto found = std::ranges::find_if(models, [&](const auto& u) { return u.get() == &unit; });
  return model_number{static_cast<std::uint32_t>(found - models.begin())};
}

const served_model* engine::model(std::string_view name) const noexcept {
  const auto* unit = impl_->find(name);
  return unit ? unit->target.get() : nullptr;
}

std::vector<const served_model*> engine::models() const {
  std::vector<const served_model*> out;
  for (const auto& unit : impl_->models) out.push_back(unit->target.get());
  return out;
}

// ---- requests

void engine::impl::fail(request_id id, event_sink sink, error why) {
  auto event = final_event(id, finish_reason::error, std::move(why));
  sessions->add(id, {}); // the engine also waits for this call
  // submit itself does not call the sink, and the sink is destroyed before the engine may be.
  system->spawn([registry = sessions, sink = std::move(sink), event = std::move(event)]() mutable {
    try {
      std::exchange(sink, nullptr)(event);
    } catch (...) { // the sink must not throw, but the engine has to wait for it in any case
    }
    registry->remove(event.request);
  });
}

request_id engine::submit(generation_request request, event_sink sink, flow_control flow) {
  auto& parts = *impl_;
  const request_id id{parts.next_request.fetch_add(1, std::memory_order_relaxed)};
  if (parts.draining) {
    parts.fail(id, std::move(sink), {errc::draining, "the engine takes no new requests"});
    return id;
  }
  auto* unit = parts.find(request.model);
  if (!unit) {
    parts.fail(id, std::move(sink), {errc::not_found, "model: there is no \"" + request.model + "\""});
    return id;
  }
  if (request.stop.eos_ids.empty()) request.stop.eos_ids = unit->target->eos_ids();
  std::ranges::sort(request.stop.eos_ids);
  std::ranges::sort(request.stop.stop_ids);
  const auto token_of = [](const auto& entry) { return entry.first; };
  if (!std::ranges::is_sorted(request.sampling.logit_bias, {}, token_of))
    std::ranges::sort(request.sampling.logit_bias.edit(), {}, token_of);
  const auto drafter = unit->drafter_of(request);
  if (!drafter) {
    parts.fail(id, std::move(sink), drafter.error());
    return id;
  }
  if (auto ok = sampling::validate(request, unit->target->info().vocab_size, unit->context_length); !ok) {
    parts.fail(id, std::move(sink), std::move(ok).error());
    return id;
  }
  auto text = make_token_text(unit->target->vocabulary(), request);
  actors::session_client client;
  client.model = parts.number_of(*unit);
  client.drafter = *drafter;
  client.credit = flow.initial_credit.value_or(flow_control::own_window);
  client.own_window = flow.initial_credit ? 0 : flow_control::own_window;
  const auto most = unit->device->is_strict() ? guarantee::tokens : guarantee::up_to_rounding;
  client.request =
      rounds::admit(id, std::move(request), unit->context_length, std::move(text), parts.time.now(), most);
  client.sink = std::move(sink);
  client.ended = [registry = parts.sessions, id] { registry->remove(id); };
  const auto model = client.model;
  const auto scheduler = "scheduler/" + to_string(model);
  // The session waits for `start_event`, so it is registered before it can end. Addresses are read after the
  // registration. If one of them changes afterwards, all registered sessions are told.
  const auto session = parts.system->spawn(actors::session, std::move(client));
  parts.sessions->add(id, session);
  if (auto why = parts.where->out_of_service(model))
    caf::anon_send(session, protocol::out_of_service_event{model, *std::move(why)});
  else
    caf::anon_send(session, protocol::start_event{parts.where->get<protocol::scheduler_actor>(scheduler)});
  return id;
}

void engine::cancel(request_id request) {
  if (auto session = impl_->sessions->find(request))
    caf::anon_send(session, protocol::cancel_command{request});
}

void engine::grant(request_id request, std::uint32_t tokens) {
  if (auto session = impl_->sessions->find(request))
    caf::anon_send(session, protocol::grant_command{request, tokens});
}

bool engine::drain(std::chrono::milliseconds timeout) {
  impl_->draining = true; // the command may be lost with a scheduler that has just failed
  for (const auto& entry : impl_->where->all())
    if (entry.name.starts_with("scheduler/") && entry.address)
      caf::anon_send(caf::actor_cast<protocol::scheduler_actor>(entry.address), protocol::drain_command{});
  return impl_->sessions->wait_until_empty(timeout);
}

bool engine::healthy() const noexcept { return impl_->where->healthy(); }

// ---- figures

model_counters engine::impl::counters_of(std::size_t m, const model_answers& answers) const {
  const auto& unit = *models[m];
  model_counters out;
  out.name = unit.options.name;
  out.is_strict = unit.device->is_strict();
  out.is_late = answers.is_late;
  if (answers.scheduler) add_scheduler_counters(out, *answers.scheduler, unit);
  if (answers.pool) add_pool_gauges(out, *answers.pool, unit);
  add_device_times(out, unit);
  out.is_out_of_service = where->out_of_service(model_number{static_cast<std::uint32_t>(m)}).has_value();
  return out;
}

std::vector<engine_fault> engine::faults() const { return faults_of(*impl_->where->faults(), impl_->models); }

engine_snapshot engine::snapshot() const {
  engine_snapshot out;
  const auto answers = impl_->answers.ask(*impl_->system, *impl_->where, impl_->models.size());
  for (std::size_t m = 0; m < impl_->models.size(); ++m)
    out.models.push_back(impl_->counters_of(m, answers[m]));
  for (const auto& entry : impl_->where->all())
    out.actors.push_back({entry.name, entry.meter->mailbox_depth.load(), entry.meter->num_messages.load(),
                          entry.meter->num_restarts.load()});
  add_faults(out, faults());
  return out;
}

// ---- the inside, for tests and benches

expected<std::unique_ptr<engine>> engine_probe::start(const config::engine_options& options,
                                                      speculation::drafter_registry registry,
                                                      gpu_opener open_gpu, caf::actor_system* inside) {
  auto parts = std::make_unique<engine::impl>();
  parts->options = options;
  parts->registry = std::move(registry);
  parts->open_gpu = std::move(open_gpu);
  if (auto ok = parts->load({}); !ok) return std::move(ok).error();
  inside ? void(parts->system = inside) : parts->make_system();
  parts->start_actors();
  return std::unique_ptr<engine>(new engine(std::move(parts)));
}

bool engine_probe::kill(const std::string& actor) {
  auto& parts = *engine_->impl_;
  const auto victim = actor == "supervisor" ? caf::actor_cast<caf::actor>(parts.supervisor)
                                            : parts.where->get<caf::actor>(actor);
  if (victim) caf::anon_send_exit(victim, caf::exit_reason::kill);
  return static_cast<bool>(victim);
}

bool engine_probe::kill_session(request_id request) {
  const auto victim = engine_->impl_->sessions->find(request);
  if (victim) caf::anon_send_exit(victim, caf::exit_reason::kill);
  return static_cast<bool>(victim);
}

const activity* engine_probe::log(std::string_view model) const noexcept {
  const auto* unit = engine_->impl_->find(model);
  return unit ? unit->log.get() : nullptr;
}

} // namespace paceline
