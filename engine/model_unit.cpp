#include "engine/model_unit.hpp"

#include "config/drafters.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/joined.hpp"
#include "runtime/rounds/pass_timing.hpp"
#include "runtime/scheduling/state_slot_shares.hpp"
#include "runtime/speculation/trees/token_tree.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace paceline {

namespace {

std::uint32_t blocks_for(std::uint64_t positions, std::uint32_t block_size) {
  return static_cast<std::uint32_t>((positions + block_size - 1) / block_size);
}

/// The maximum number of cells of its own pool that a drafter uses for one request.
std::uint32_t own_positions(const speculation::drafter& drafter, std::uint32_t context_length) {
  // Also the maximum number of levels.
  constexpr auto most = static_cast<std::uint32_t>(speculation::token_tree::max_nodes);
  const auto after_text = std::max(drafter.own_positions(most), most);
  const auto& traits = drafter.traits();
  if (!traits.caches_text) return 1 + after_text;
  if (traits.max_text == 0) return context_length;
  const auto own = std::uint64_t{traits.max_text} + after_text;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(context_length, own));
}

/// On a single set of cores, a drafter that runs at the same time as the target only slows it down. So `auto`
/// does not try overlap there.
void set_overlap(scheduling::scheduler_options& limits, config::overlap_mode mode, bool on_cores_of_its_own) {
  using grouping = scheduling::scheduler_options::grouping;
  switch (mode) {
  case config::overlap_mode::off:
    return;
  case config::overlap_mode::groups:
    limits.groups = grouping::two;
    return;
  case config::overlap_mode::ahead:
    limits.overlap = {ahead_mode::ahead};
    return;
  case config::overlap_mode::outcomes:
    limits.overlap = {ahead_mode::outcomes};
    return;
  case config::overlap_mode::automatic:
    if (!on_cores_of_its_own) return;
    limits.groups = grouping::measured;
    limits.overlap = {ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes};
    return;
  }
}

} // namespace

expected<std::unique_ptr<model_unit>>
model_unit::load(const config::model_options& options, device_set& devices,
                 const speculation::drafter_registry& registry,
                 const std::function<void(const load_progress&)>& progress) {
  auto unit = std::make_unique<model_unit>();
  unit->options = options;
  const auto device = devices.get(options.device);
  if (!device) return error(device.error()).within("model " + options.name);
  unit->device = *device;
  unit->tenant = devices.new_tenant();
  auto target = loaded_model::load(options, *unit->device, progress);
  if (!target) return std::move(target).error().within("model " + options.name);
  unit->target = *std::move(target);
  unit->context_length = unit->target->context_length();

  unit->drafters.emplace_back();
  unit->drafters[plain_decoding.value].options.name = "none";
  std::vector<std::string> names{"none"};
  for (const auto& wanted : config::drafters_of(options)) {
    if (wanted.name == "none") continue;
    auto made = unit->load_drafter(wanted, devices, registry, progress);
    if (!made) return std::move(made).error().within("model " + options.name + ", drafter " + wanted.name);
    if ((*made).drafter->own_model())
      made->pool.emplace(static_cast<std::uint32_t>(unit->pool_needs().size()));
    names.push_back(wanted.name);
    unit->drafters.push_back(*std::move(made));
  }
  names.push_back("auto");
  unit->upload_inputs();
  unit->drafters.emplace_back();
  unit->drafters.back().options.name = "auto";
  unit->drafters.back().options.draft_length = options.auto_draft_length;
  std::vector<std::uint32_t> lengths;
  for (const auto& d : unit->drafters) lengths.push_back(d.options.draft_length);
  unit->target->set_drafters(std::move(names), std::move(lengths));
  if (auto found = unit->find_drafter("default"); !found)
    return std::move(found).error().within("model " + options.name);
  return unit;
}

expected<model_unit::drafter_unit>
model_unit::load_drafter(const config::drafter_options& wanted, device_set& devices,
                         const speculation::drafter_registry& registry,
                         const std::function<void(const load_progress&)>& progress) const {
  drafter_unit made;
  made.options = wanted;
  made.device = device;
  speculation::drafter_parts parts{wanted};
  parts.target_vocab_size = target->info().vocab_size;
  parts.target = target->runs();
  parts.encode = [&vocabulary = target->vocabulary()](std::string_view text) {
    return vocabulary.encode(text, {.add_special = false, .parse_special = false});
  };
  if (config::drafts_with_inputs(wanted.kind)) {
    auto own = load_lookahead_inputs(wanted, *target);
    if (!own) return std::move(own).error();
    parts.own_inputs = *std::move(own);
    parts.first_input = token_id{static_cast<std::int32_t>(parts.target_vocab_size + num_inputs())};
  } else if (config::drafts_with_head(wanted.kind)) {
    auto head = load_draft_head(wanted, options, *target, *made.device);
    if (!head) return std::move(head).error();
    parts.own_head = *std::move(head);
  } else if (!wanted.path.empty()) {
    if (wanted.device != "auto") {
      const auto elsewhere = devices.get(wanted.device);
      if (!elsewhere) return elsewhere.error();
      made.device = *elsewhere;
    }
    auto own = load_draft_model(wanted, options, *target, *made.device, progress);
    if (!own) return std::move(own).error();
    parts.own_model = std::move(own->runs);
    parts.own_vocabulary = std::move(own->vocabulary);
    parts.target_vocabulary = std::make_shared<const tokenizer::tokenizer>(target->vocabulary());
  }
  auto drafter = registry.make(parts);
  if (!drafter) return std::move(drafter).error();
  made.drafter = *std::move(drafter);
  if (made.options.draft_length == 0) // the number of a head's levels was not known before
    made.options.draft_length = made.drafter->traits().default_draft_length;
  return made;
}

std::uint32_t model_unit::num_inputs() const {
  std::uint32_t count = 0;
  for (const auto& d : drafters)
    if (d.drafter && d.drafter->inputs()) count += d.drafter->inputs()->num_rows;
  return count;
}

/// Uploads the inputs of all drafters, one after another.
void model_unit::upload_inputs() {
  std::vector<float> values;
  for (const auto& d : drafters)
    if (d.drafter && d.drafter->inputs())
      std::ranges::copy(d.drafter->inputs()->values, std::back_inserter(values));
  if (values.empty()) return;
  inputs = device->buffers().allocate(values.size() * sizeof(float));
  inputs->upload(0, std::as_bytes(std::span(std::as_const(values))));
}

bool model_unit::drafts_elsewhere() const {
  return std::ranges::any_of(
      drafters, [&](const auto& d) { return d.is_worker() && (partition_of(d) != 0 || d.device != device); });
}

std::vector<layer_index> model_unit::taps() const {
  std::vector<layer_index> all;
  for (const auto& d : drafters)
    if (d.drafter) std::ranges::copy(d.drafter->traits().taps, std::back_inserter(all));
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

/// The distance between snapshots. A text's snapshots take at most as much memory as its cells, and the
/// distance is at least 128.
std::uint32_t model_unit::state_interval() const {
  const auto& info = target->info();
  if (info.state_bytes == 0) return 0;
  const std::uint64_t apart =
      std::max<std::uint64_t>(128, (info.state_bytes + info.kv_bytes_per_token - 1) /
                                       std::max<std::uint64_t>(info.kv_bytes_per_token, 1));
  // A larger distance would have no snapshot at all.
  const auto most = std::max<std::uint64_t>(128, context_length);
  return static_cast<std::uint32_t>((std::min(apart, most) + options.block_size - 1) / options.block_size *
                                    options.block_size);
}

/// The nodes of the longest draft for which memory is wanted. Drafters that every model has draft what there
/// is room for.
std::uint32_t model_unit::most_nodes() const {
  std::uint32_t nodes = 0;
  const auto is_wanted = [&](const config::drafter_options& one) {
    return std::ranges::find(config::always_available, one.kind) == std::end(config::always_available) ||
           std::ranges::count(options.drafters, one.name, &config::drafter_options::name) != 0;
  };
  for (const auto& d : drafters)
    if (d.drafter && is_wanted(d.options))
      nodes = std::max(
          nodes, d.drafter->max_nodes(std::max({d.options.draft_length, options.auto_draft_length, 1U})));
  return std::min(nodes, speculation::token_tree::max_nodes);
}

/// Adds states for the longest drafts of all requests that may run together, a snapshot for each of them, and
/// the snapshots of two texts of full length.
void model_unit::add_states(pool_need& need) const {
  need.state_bytes = target->info().state_bytes;
  if (need.state_bytes == 0) return;
  need.min_state_slots = scheduling::least_state_slots(0);
  need.wanted_state_slots = (need.min_state_slots + most_nodes()) * std::max(options.max_running, 1U) +
                            2 * (context_length / state_interval() + 1);
}

/// What `served_model::shortage` says of a pool with so many state slots.
std::string model_unit::shortage_of(const kv::pool_config& pool) const {
  if (pool.num_state_slots == 0) return {};
  scheduling::slot_demand alone;
  alone.num_slots = pool.num_state_slots;
  alone.max_running = options.max_running;
  alone.least = scheduling::least_row_states(0);
  alone.num_nodes = most_nodes();
  alone.num_snapshots = pool.prefix_cache ? scheduling::max_snapshots(context_length, state_interval()) : 0;
  const auto drafted = scheduling::nodes_in_states(scheduling::share_of(alone).for_rows);
  if (drafted >= alone.num_nodes) return {};
  return "there is memory for " + std::to_string(pool.num_state_slots) + " recurrent states of " +
         std::to_string(pool.state_bytes >> 10) + " KiB: a request alone drafts at most " +
         std::to_string(drafted) + " tokens instead of " + std::to_string(alone.num_nodes) +
         ". A lower max_running (it is " + std::to_string(options.max_running) + ") leaves more for each";
}

std::vector<pool_need> model_unit::pool_needs() const {
  std::vector<pool_need> needs;
  const auto add = [&](const std::string& name, const model::kv_model& model, std::size_t num_taps,
                       device::compute_device* where, std::uint32_t num_positions) {
    pool_need need;
    need.name = name;
    need.device = where;
    need.cell_bytes = model.cell_bytes(num_taps);
    need.least_blocks = blocks_for(num_positions, options.block_size);
    need.wanted_blocks = std::uint64_t{need.least_blocks} * std::max(options.max_running, 1U);
    needs.push_back(std::move(need));
  };
  add(options.name, *target->runs(), taps().size(), device, context_length);
  add_states(needs.back());
  for (const auto& d : drafters) {
    if (!d.drafter || !d.drafter->own_model()) continue;
    add(options.name + "/" + d.options.name, *d.drafter->own_model(), 0, d.device,
        own_positions(*d.drafter, context_length));
    needs.back().shares_prefixes = d.drafter->traits().text_begin.has_value();
    if (!d.drafter->traits().drafts_in_advance()) continue;
    const auto spare = scheduling::spare_blocks(d.options.draft_length, num_guesses, options.block_size);
    needs.back().wanted_blocks += std::uint64_t{spare} * std::max(options.max_running, 1U);
  }
  return needs;
}

void model_unit::assemble(const config::engine_options& engine, const clock& time,
                          const std::vector<kv::pool_config>& pools) {
  log = std::make_unique<activity>(time);
  kv = target->runs()->make_kv_storage(pools.at(target_pool.value).num_blocks, options.block_size, taps());
  target->set_shortage(shortage_of(pools.at(target_pool.value)));
  kv->make_states(pools.at(target_pool.value).num_state_slots);
  actors::model_materials materials;
  materials.target = target->runs().get();
  materials.kv = kv.get();
  materials.num_pools = static_cast<std::uint32_t>(pools.size());
  materials.time = &time;
  if (inputs) {
    materials.inputs = reinterpret_cast<const float*>(inputs->data());
    materials.num_inputs = num_inputs();
  }
  materials.limits = limits_of(engine, pools[target_pool.value]);
  materials.limits.pass_times = time_passes(engine.pass_timing, time);
  target->set_pass_times(materials.limits.pass_times);
  for (auto& d : drafters) {
    if (d.drafter && d.drafter->own_model())
      d.kv = d.drafter->own_model()->make_kv_storage(pools.at(d.pool->value).num_blocks, options.block_size);
    materials.drafters.push_back(seat_of(d));
  }
  materials.stream =
      recorded_stream(*device, "target:" + options.name, 0, {device::stream_priority::normal, tenant, {}},
                      *log, activity::side::target);
  states = std::make_unique<actors::model_assembly>(std::move(materials));
}

/// Nothing else runs on the device yet, and no request uses the blocks of the pool.
std::vector<pass_time> model_unit::time_passes(std::chrono::nanoseconds budget, const clock& time) const {
  const bool any_drafter = std::ranges::any_of(drafters, [](const auto& d) { return d.drafter != nullptr; });
  if (!any_drafter || budget.count() == 0) return {};
  const auto stream =
      device->make_stream("timing:" + options.name, 0, {device::stream_priority::normal, tenant, {}});
  return rounds::time_passes(*stream, *target->runs(), *kv, time, budget);
}

scheduling::scheduler_options model_unit::limits_of(const config::engine_options& engine,
                                                    const kv::pool_config& pool) const {
  scheduling::scheduler_options limits;
  limits.max_running = options.max_running;
  limits.max_waiting = options.max_waiting;
  limits.block_size = options.block_size;
  limits.context_length = context_length;
  limits.num_blocks = pool.num_blocks;
  limits.prefix_cache = engine.prefix_cache;
  limits.state_interval = state_interval();
  limits.num_state_slots = pool.num_state_slots;
  limits.max_gap = engine.max_gap;
  limits.round_timeout = engine.round_timeout;
  limits.num_guesses = std::max(num_guesses, 1U);
  set_overlap(limits, engine.overlap, drafts_elsewhere());
  return limits;
}

actors::drafter_seat model_unit::seat_of(const drafter_unit& d) const {
  actors::drafter_seat seat;
  seat.name = d.options.name;
  seat.drafter = d.drafter.get();
  seat.draft_length = &d == &drafters.front() ? 0 : d.options.draft_length;
  seat.max_tree_nodes = d.options.max_tree_nodes;
  seat.length_rule = d.options.length_rule;
  seat.pool = d.pool;
  seat.kv = d.kv.get();
  if (d.is_worker())
    seat.stream = recorded_stream(*d.device, "draft:" + d.options.name, partition_of(d),
                                  {device::stream_priority::low, tenant, {}}, *log, activity::side::draft);
  return seat;
}

expected<drafter_index> model_unit::find_drafter(const std::string& name) const {
  const auto& names = target->drafters();
  const auto& wanted = name.empty() || name == "default" ? options.default_drafter : name;
  const auto it = std::ranges::find(names, wanted);
  if (it != names.end()) return drafter_index{static_cast<std::uint32_t>(it - names.begin())};
  return error{errc::invalid_argument,
               "speculation.drafter: \"" + wanted + "\" is not one of " + joined(names, ", ")};
}

expected<drafter_index> model_unit::drafter_of(const generation_request& request) const {
  const auto& name = request.speculation.drafter;
  const bool chooses_none = name.empty() || name == "default";
  if (!request.prediction.empty() && chooses_none &&
      options.default_drafter != "auto") // `auto` considers the prediction itself
    for (drafter_index i{1}; i.value < drafters.size(); ++i.value)
      if (drafters[i.value].options.kind == "prediction") return i;
  auto chosen = find_drafter(name);
  // "auto" estimates the gain for a single text. A beam search that names no drafter therefore runs without
  // drafts.
  if (chosen && request.beams.width > 0 && !drafters[chosen->value].drafter) return plain_decoding;
  return chosen;
}

} // namespace paceline
