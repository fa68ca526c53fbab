#pragma once

#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "runtime/scheduling/scheduler_state.hpp"

#include <memory>
#include <optional>
#include <variant>

/// Helpers for a scheduler's decisions, and the answers of a pool and a device.
namespace paceline::scheduling::test_support {

inline constexpr time_point start{std::chrono::hours(1)};
inline constexpr request_id first_request{1};

/// A request that no program will use.
inline admitted_request admitted(request_id id, generation_request request) {
  auto terms = std::make_shared<const request_terms>(id, std::move(request), 64, start);
  auto log = std::make_shared<const committed_log>(terms);
  return {std::move(terms), std::move(log), nullptr};
}

inline admitted_request make_request(request_id id, std::uint32_t prompt_length, std::uint32_t max_tokens) {
  generation_request request;
  for (std::uint32_t i = 0; i < prompt_length; ++i) request.prompt.emplace_back(static_cast<std::int32_t>(i));
  request.stop.max_tokens = max_tokens;
  return admitted(id, std::move(request));
}

/// Options in which drafter number 1 has a pool of its own.
inline scheduler_options small_options() {
  scheduler_options options;
  options.block_size = 4;
  options.context_length = 64;
  options.num_blocks = 16;
  options.drafters = {{"none", 0, {}, false}, {"model", 3, pool_number{1}, true}};
  return options;
}

/// The last command of one type.
template <class Command>
std::optional<Command> last(const decisions& d) {
  for (auto c = d.pool.rbegin(); c != d.pool.rend(); ++c)
    if (const auto* found = std::get_if<Command>(&*c)) return *found;
  return std::nullopt;
}

inline lease_event grant(request_id request, pool_number pool, std::uint64_t ticket,
                         std::uint32_t num_blocks) {
  lease_event answer{request, pool, ticket, true, {}, 0, {}};
  for (std::uint32_t i = 0; i < num_blocks; ++i) answer.blocks.emplace_back(i);
  return answer;
}

/// The device's result of a round that computed a prompt and committed one token.
inline round_result done(const round_plan& plan, std::uint32_t num_rows, std::uint32_t length) {
  round_result result;
  result.round = plan.round;
  result.group = plan.group;
  result.started = true;
  item_result item;
  item.request = plan.items.at(0).request.id();
  item.num_rows = num_rows;
  item.length = length;
  item.kv_length = length - 1;
  item.committed = {token_id{7}};
  result.items = {item};
  result.submissions = {plan.round.value, 0};
  return result;
}

} // namespace paceline::scheduling::test_support
