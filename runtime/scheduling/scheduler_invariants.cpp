#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

namespace paceline::scheduling {

std::string scheduler_state::check_invariants() const {
  std::map<request_id, std::uint32_t> items, growth;
  for (const auto& [round, f] : rounds_in_flight_)
    for (const auto& part : f.parts) {
      ++items[part.request];
      growth[part.request] += part.growth;
      const auto it = requests_.find(part.request);
      if (it != requests_.end() && it->second.group != f.group)
        return "request " + to_string(part.request) + " is in a round of another group";
    }
  for (const auto& [id, r] : requests_) {
    const bool queued = std::ranges::find(queue_, id) != queue_.end();
    const bool listed = std::ranges::find(running_, id) != running_.end();
    const bool wants_queue = r.state == phase::waiting || r.state == phase::acquiring;
    if (queued != wants_queue || listed == wants_queue)
      return "request " + to_string(id) + " is in the wrong list";
    if (r.num_in_flight != items[id])
      return "request " + to_string(id) + " counts " + std::to_string(r.num_in_flight) + " rounds, has " +
             std::to_string(items[id]);
    if (!wants_queue && ledger_.use(id) != use_of(r))
      return "the ledger does not know what request " + to_string(id) + " uses";
    if (!wants_queue && r.worker && lost_workers_.contains(*r.worker) && !asks_worker(r) &&
        ledger_.drafter_positions(id) > 0)
      return "request " + to_string(id) + " keeps blocks of a worker that is lost";
    const auto least = r.beam_width != 0 ? std::max(r.known_length, r.num_cells) : r.known_length;
    if (!wants_queue && r.upper_length != least + growth[id])
      return "request " + to_string(id) + " may reach " + std::to_string(r.upper_length) + ", its rounds " +
             std::to_string(least + growth[id]);
  }
  if (ledger_.holders() != running_) return "others hold memory than run";
  if (queue_.size() + running_.size() != requests_.size()) return "lists and table differ";
  for (std::uint32_t g = 0; g < 2; ++g)
    if (in_flight(group_id{g}) > 2) return "group " + std::to_string(g) + " has too many rounds in flight";
  return ledger_.check_invariants();
}

std::string scheduler_state::describe() const {
  static constexpr const char* names[] = {"waiting", "acquiring", "running", "closing"};
  std::string out = ledger_.admission_blocked() ? "admission waits for blocks\n" : "";
  for (const auto& [id, r] : requests_)
    out += "request " + to_string(id) + ": " + names[static_cast<int>(r.state)] + ", length " +
           std::to_string(r.known_length) + " to " + std::to_string(r.upper_length) + " of " +
           std::to_string(max_positions(r)) +
           (r.decoding ? ", decoding" : ", prompt planned to " + std::to_string(r.planned_kv)) + ", " +
           std::to_string(r.num_in_flight) + " rounds in flight, " + ledger_.describe(id) + "\n";
  for (const auto& [round, f] : rounds_in_flight_)
    out += "round " + to_string(round) + " of group " + to_string(f.group) + ": " +
           std::to_string(f.parts.size()) + " requests" + (f.overdue ? ", overdue\n" : "\n");
  return out;
}

} // namespace paceline::scheduling
