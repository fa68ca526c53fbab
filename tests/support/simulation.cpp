#include "tests/support/simulation.hpp"

#include "runtime/rounds/admit.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"

#include <algorithm>
#include <iterator>

namespace paceline::test {

namespace {

class coordinated_configuration final : public caf::actor_system_config {
 public:
  coordinated_configuration() {
    add_message_types<caf::id_block::paceline>();
    set("scheduler.policy", caf::atom("testing"));
    set("logger.file-verbosity", caf::atom("quiet"));
  }
};

/// Makes passes take virtual time.
class metered_model final : public model::language_model {
 public:
  metered_model(const model::language_model& inner, virtual_clock& time,
                std::function<std::chrono::nanoseconds(std::uint64_t)> cost)
      : inner_(inner), time_(time), cost_(std::move(cost)) {}
  const model::model_info& info() const noexcept override { return inner_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return inner_.make_kv_storage(blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    inner_.forward(ops, batch, kv, outputs);
    time_.spend(cost_(batch.rows.size()));
  }

 private:
  const model::language_model& inner_;
  virtual_clock& time_;
  std::function<std::chrono::nanoseconds(std::uint64_t)> cost_;
};

class placed_drafter final : public speculation::drafter {
 public:
  placed_drafter(std::unique_ptr<speculation::drafter> inner, speculation::placement where)
      : inner_(std::move(inner)), traits_(inner_->traits()) {
    traits_.where = where;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id request) override {
    return inner_->open(request);
  }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    inner_->propose(ops, kv, tasks);
  }
  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    return inner_->max_nodes(draft_length);
  }
  std::uint32_t max_probes() const noexcept override { return inner_->max_probes(); }
  std::uint32_t own_positions(std::uint32_t draft_length) const noexcept override {
    return inner_->own_positions(draft_length);
  }
  const model::kv_model* own_model() const noexcept override { return inner_->own_model(); }
  const model::lookahead_inputs* inputs() const noexcept override { return inner_->inputs(); }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  speculation::drafter_traits traits_;
};

scheduling::scheduler_options limits_of(const simulation_options& options) {
  scheduling::scheduler_options limits;
  limits.max_running = options.max_running;
  limits.max_waiting = options.max_waiting;
  limits.block_size = options.block_size;
  limits.context_length = options.context_length;
  limits.num_blocks = options.num_blocks;
  using grouping = scheduling::scheduler_options::grouping;
  limits.groups = options.two_groups ? grouping::two : grouping::one;
  limits.overlap = options.overlap;
  limits.num_guesses = options.num_guesses;
  limits.prefix_cache = options.prefix_cache;
  if (options.target.recurrent) {
    limits.state_interval = options.state_interval;
    limits.num_state_slots = options.num_state_slots;
  }
  limits.max_gap = options.max_gap;
  limits.round_timeout = options.round_timeout;
  for (std::uint32_t rows = 1; rows <= 64; ++rows)
    limits.pass_times.push_back({rows, static_cast<double>(options.target_cost(rows).count())});
  return limits;
}

kv::pool_config pool_of(const simulation_options& options, std::string name, std::uint64_t cell_bytes) {
  kv::pool_config config;
  config.name = std::move(name);
  config.num_blocks = options.num_blocks;
  config.block_size = options.block_size;
  config.block_bytes = cell_bytes * options.block_size;
  config.slab_blocks = 1;
  return config;
}

std::vector<layer_index> taps_of(const std::vector<simulated_drafter>& drafters) {
  std::vector<layer_index> taps;
  for (const auto& d : drafters)
    if (d.drafter) std::ranges::copy(d.drafter->traits().taps, std::back_inserter(taps));
  return taps;
}

} // namespace

std::unique_ptr<speculation::drafter> placed(std::unique_ptr<speculation::drafter> inner,
                                             speculation::placement where) {
  return std::make_unique<placed_drafter>(std::move(inner), where);
}

simulation::simulation(simulation_options options, std::vector<simulated_drafter> drafters)
    : options_(std::move(options)), random_(options_.seed), drafters_(std::move(drafters)),
      where_(std::make_shared<actors::directory>()) {
  configuration_ = std::make_unique<coordinated_configuration>();
  system_ = std::make_unique<caf::actor_system>(*configuration_);
  coordinator_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  coordinator_->clock().current_time += std::chrono::hours(1); // time zero means "no timeout"
  device_ = std::make_unique<simulated_device>(options_.num_partitions);
  options_.target.context_length = options_.context_length;
  target_ = std::make_unique<model::hash_model>(options_.target);
  metered_ = std::make_unique<metered_model>(*target_, device_->time(), options_.target_cost);
  drafters_.insert(drafters_.begin(), simulated_drafter{nullptr, 0, 0}); // "none"
  if (options_.auto_draft_length != 0) drafters_.push_back({nullptr, options_.auto_draft_length, 0});

  pools_ = std::make_unique<kv::pool_manager>(std::uint64_t{1} << 40);
  std::vector<kv::pool_id> ids;
  const auto add_pool = [&](std::string name, bool shares_prefixes) {
    auto config = pool_of(options_, std::move(name), target_->info().kv_bytes_per_token);
    config.prefix_cache = options_.prefix_cache && shares_prefixes;
    if (ids.empty() && options_.target.recurrent) config.num_state_slots = options_.num_state_slots;
    ids.push_back(pools_->add_pool(std::move(config)).value());
  };
  add_pool("target", true);
  kv_ = metered_->make_kv_storage(options_.num_blocks, options_.block_size, taps_of(drafters_));
  if (options_.target.recurrent) kv_->make_states(options_.num_state_slots);

  actors::model_materials materials;
  materials.target = metered_.get();
  materials.kv = kv_.get();
  materials.time = &device_->time();
  for (const auto& d : drafters_)
    if (d.drafter && d.drafter->inputs())
      std::ranges::copy(d.drafter->inputs()->values, std::back_inserter(inputs_));
  materials.inputs = inputs_.data();
  materials.num_inputs = static_cast<std::uint32_t>(inputs_.size() / target_->info().hidden_size);
  materials.stream = device_->make_stream("target", 0);
  for (auto& d : drafters_) {
    actors::drafter_seat seat;
    seat.name = d.drafter ? d.drafter->traits().name : materials.drafters.empty() ? "none" : "auto";
    seat.drafter = d.drafter.get();
    seat.draft_length = d.draft_length;
    seat.max_tree_nodes = d.max_tree_nodes;
    if (d.drafter && d.drafter->traits().where == speculation::placement::worker) {
      if (const auto* own = d.drafter->own_model()) {
        seat.pool = pool_number{static_cast<std::uint32_t>(ids.size())};
        add_pool(seat.name, d.drafter->traits().text_begin.has_value());
        drafter_kv_.push_back(own->make_kv_storage(options_.num_blocks, options_.block_size));
        seat.kv = drafter_kv_.back().get();
      }
      seat.stream = device_->make_stream("draft:" + seat.name, d.partition);
    }
    materials.drafters.push_back(std::move(seat));
  }
  materials.num_pools = static_cast<std::uint32_t>(ids.size());
  materials.limits = limits_of(options_);
  states_ = std::make_unique<actors::model_assembly>(std::move(materials));
  pool_state_ = std::make_unique<actors::kv_pool_state>(*pools_, std::vector<std::vector<kv::pool_id>>{ids});
  start_actors();
}

void simulation::start_actors() {
  actors::supervisor_parts parts;
  parts.models.push_back(states_->parts());
  parts.kv_pool = pool_state_.get();
  parts.sessions = sessions_;
  parts.time = &device_->time();
  parts.where = where_;
  parts.max_restarts = options_.max_restarts;
  supervisor_ = system_->spawn(actors::supervisor, std::move(parts));
  while (coordinator_->try_run_once()) {
  }
}

simulation::~simulation() {
  for (const auto& session : sessions_->all()) caf::anon_send_exit(session, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
  supervisor_ = nullptr;
  device_->let_go();
  for (auto& c : clients_) c.session = nullptr;
  where_->clear();
  // Pending ticks hold references, and the system waits for all actors.
  do {
    while (coordinator_->try_run_once()) {
    }
  } while (coordinator_->trigger_timeout());
  while (device_->num_running() > 0 || (device_->start_ready(), device_->num_running() > 0)) {
    device_->complete_earliest();
    while (coordinator_->try_run_once()) {
    }
  }
}

std::size_t simulation::submit(generation_request request, drafter_index drafter, std::uint64_t credit) {
  client_entry entry;
  entry.seen = std::make_shared<simulated_client>();
  entry.id = request_id{clients_.size() + 1};
  std::ranges::sort(request.stop.stop_ids);
  std::ranges::sort(request.stop.eos_ids);
  actors::session_client client;
  client.drafter = drafter;
  client.credit = credit;
  client.request =
      rounds::admit(entry.id, std::move(request), options_.context_length, nullptr, device_->time().now());
  client.ended = [registry = sessions_, id = entry.id] { registry->remove(id); };
  client.sink = [seen = entry.seen, time = &device_->time()](const token_event& event) {
    if (!event.tokens.empty() && event.first_index != seen->tokens.size()) seen->gap = true;
    seen->tokens.insert(seen->tokens.end(), event.tokens.begin(), event.tokens.end());
    if (!event.tokens.empty()) seen->arrivals.push_back(time->now());
    if (event.trace) seen->rounds.push_back(*event.trace);
    if (event.finish == finish_reason::none) return;
    ++seen->num_ends;
    seen->finish = event.finish;
    seen->failure = event.failure;
    seen->speculation = event.speculation;
    seen->hypotheses = event.hypotheses;
    if (event.timings) seen->num_cached = event.timings->num_cached_tokens;
  };
  entry.session = system_->spawn(actors::session, std::move(client));
  sessions_->add(entry.id, entry.session);
  if (auto why = where_->out_of_service(model_number{0}))
    caf::anon_send(entry.session, protocol::out_of_service_event{model_number{0}, *std::move(why)});
  else
    caf::anon_send(entry.session,
                   protocol::start_event{where_->get<protocol::scheduler_actor>("scheduler/0")});
  clients_.push_back(std::move(entry));
  return clients_.size() - 1;
}

void simulation::cancel(std::size_t i) {
  caf::anon_send(clients_[i].session, protocol::cancel_command{clients_[i].id});
}

void simulation::grant(std::size_t i, std::uint64_t tokens) {
  caf::anon_send(clients_[i].session, protocol::grant_command{clients_[i].id, tokens});
}

void simulation::kill(const std::string& actor) {
  if (actor.starts_with("session/")) {
    const auto& victim = clients_.at(std::stoul(actor.substr(actor.find('/') + 1))).session;
    return caf::anon_send_exit(victim, caf::exit_reason::kill);
  }
  if (auto handle = where_->get<caf::actor>(actor)) caf::anon_send_exit(handle, caf::exit_reason::kill);
}

bool simulation::run_one_message() {
  auto& jobs = coordinator_->jobs;
  if (jobs.empty()) return false;
  if (options_.shuffle)
    std::rotate(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(random_() % jobs.size()),
                jobs.end());
  coordinator_->run_once();
  return true;
}

bool simulation::step() {
  device_->start_ready();
  const auto num_running = device_->num_running();
  const bool messages = !coordinator_->jobs.empty();
  if (messages && (num_running == 0 || !options_.shuffle || random_() % 4 != 0)) return run_one_message();
  if (num_running > 0) {
    const auto before = device_->time().now();
    if (options_.shuffle)
      device_->complete(random_() % num_running);
    else
      device_->complete_earliest();
    coordinator_->advance_time(std::max(device_->time().now() - before, std::chrono::nanoseconds(1)));
    return true;
  }
  const auto open =
      std::ranges::any_of(clients_, [](const auto& c) { return c.seen->finish == finish_reason::none; });
  if (!open || !coordinator_->has_pending_timeout()) return false;
  device_->time().move_to(device_->time().now() + std::chrono::milliseconds(50)); // idle until the next tick
  coordinator_->advance_time(std::chrono::milliseconds(50));
  return true;
}

bool simulation::settle(std::size_t max_steps) {
  for (std::size_t i = 0; i < max_steps; ++i) {
    if (run_one_message()) continue;
    device_->start_ready();
    if (device_->num_running() == 0) return true;
    device_->complete_earliest();
  }
  return false;
}

bool simulation::run(std::size_t max_steps) {
  for (std::size_t i = 0; i < max_steps; ++i) {
    if (!step())
      return std::ranges::all_of(clients_,
                                 [](const auto& c) { return c.seen->finish != finish_reason::none; });
    if (std::ranges::all_of(clients_, [](const auto& c) { return c.seen->finish != finish_reason::none; })) {
      return settle(max_steps);
    }
  }
  return false;
}

std::string simulation::check_invariants() const {
  for (const auto& broken : {states_->scheduler().check_invariants(), states_->verifier().check_invariants(),
                             pool_state_->check_invariants()})
    if (!broken.empty()) return broken;
  return {};
}

} // namespace paceline::test
