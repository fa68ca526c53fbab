#include "actors/model_assembly.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

namespace {

/// `size` of a seat with a drafter; for "auto" the maximum over the other drafters, at least `length`.
template <class Size>
std::uint32_t largest(const std::vector<drafter_seat>& drafters, drafter_index index, std::uint32_t length,
                      Size size) {
  if (drafters[index.value].drafter) return size(drafters[index.value]);
  std::uint32_t most = index == plain_decoding ? 0 : length;
  for (std::uint32_t i = 1; i < index.value; ++i)
    if (drafters[i].drafter) most = std::max(most, size(drafters[i]));
  return most;
}

/// The scheduler's description of a drafter. `seats` are the seats of all drafters and must be filled before
/// the first round.
scheduling::drafter_slot slot_of(const drafter_seat& seat, drafter_index index,
                                 std::shared_ptr<const std::vector<drafter_seat>> seats) {
  scheduling::drafter_slot slot;
  slot.name = seat.name;
  slot.default_draft_length = seat.draft_length;
  slot.pool = seat.pool;
  slot.worker = seat.stream != nullptr;
  slot.length_rule = seat.length_rule;
  slot.max_rows = [seats, index](std::uint32_t length) { return most_rows(*seats, index, length); };
  slot.max_nodes = [seats, index](std::uint32_t length) { return most_nodes(*seats, index, length); };
  if (!seat.drafter) return slot;
  slot.own_positions = [from = seat.drafter](std::uint32_t length) { return from->own_positions(length); };
  slot.text_begin = seat.drafter->traits().text_begin;
  slot.block_positions = seat.drafter->traits().block_positions;
  slot.caches_text = seat.drafter->traits().caches_text;
  slot.max_text = seat.drafter->traits().max_text;
  slot.widens_for_beams = seat.drafter->traits().widens_for_beams;
  slot.drafts_in_advance = seat.drafter->traits().drafts_in_advance();
  return slot;
}

} // namespace

std::uint32_t most_nodes(const std::vector<drafter_seat>& drafters, drafter_index index,
                         std::uint32_t length) {
  return largest(drafters, index, length, [length](const drafter_seat& seat) {
    return std::min(seat.drafter->max_nodes(length), seat.max_tree_nodes);
  });
}

std::uint32_t most_rows(const std::vector<drafter_seat>& drafters, drafter_index index,
                        std::uint32_t length) {
  return largest(drafters, index, length, [length](const drafter_seat& seat) {
    return std::min(seat.drafter->max_nodes(length), seat.max_tree_nodes) + seat.drafter->max_probes();
  });
}

model_assembly::model_assembly(model_materials materials) {
  auto& limits = materials.limits;
  rounds::round_resources resources{materials.target,      materials.kv,     {},
                                    limits.context_length, materials.time,   {},
                                    limits.pass_times,     materials.inputs, materials.num_inputs,
                                    limits.state_interval};
  auto seats = std::make_shared<std::vector<drafter_seat>>();
  workers_.resize(materials.drafters.size());
  for (std::uint32_t i = 0; i < materials.drafters.size(); ++i) {
    auto& seat = materials.drafters[i];
    const drafter_index index{i};
    resources.drafters.push_back(seat.drafter);
    if (index != plain_decoding && !seat.drafter) resources.automatic = index;
    limits.drafters.push_back(slot_of(seat, index, seats));
    if (seat.stream) {
      auto& made = workers_[i];
      made.runner = std::make_unique<rounds::draft_runner>(*seat.drafter, index, seat.kv, limits.block_size,
                                                           limits.context_length, *materials.time,
                                                           limits.num_guesses, materials.kv);
      made.stream = std::move(seat.stream);
      made.state = std::make_unique<draft_worker_state>(*made.stream, *made.runner, index, seat.pool);
    }
  }
  *seats = std::move(materials.drafters);
  runner_ = std::make_unique<rounds::round_runner>(std::move(resources));
  scheduler_ = std::make_unique<scheduling::scheduler_state>(std::move(limits));
  stream_ = std::move(materials.stream);
  verifier_ = std::make_unique<target_verifier_state>(*stream_, *runner_, materials.num_pools);
}

model_assembly::~model_assembly() { drain(); }

model_parts model_assembly::parts() {
  model_parts out;
  out.scheduler = scheduler_.get();
  out.verifier = verifier_.get();
  for (const auto& one : workers_) out.draft_workers.push_back(one.state.get());
  return out;
}

void model_assembly::drain() {
  verifier_->abandon();
  stream_.reset();
  for (auto& one : workers_) one.stream.reset();
}

} // namespace paceline::actors
