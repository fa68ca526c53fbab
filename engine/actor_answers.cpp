#include "engine/actor_answers.hpp"

#include "protocol/type_ids.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace paceline {

namespace {

constexpr auto timeout = std::chrono::seconds(1); ///< for all actors together

} // namespace

std::vector<model_answers> actor_answers::ask(caf::actor_system& system, const actors::directory& where,
                                              std::size_t num_models) {
  caf::scoped_actor self(system);
  const auto request = [&](const auto& actor, const auto& question) {
    using response = decltype(self->request(actor, timeout, question));
    return actor ? std::optional<response>(self->request(actor, timeout, question)) : std::nullopt;
  };
  using scheduler_response = decltype(request(protocol::scheduler_actor{}, protocol::scheduler_question{}));
  using pool_response = decltype(request(protocol::kv_pool_actor{}, protocol::pool_question{}));
  std::vector<std::pair<scheduler_response, pool_response>> asked;
  const auto pool = where.get<protocol::kv_pool_actor>("kv_pool");
  for (model_number m; m.value < num_models; ++m.value)
    asked.emplace_back(request(where.get<protocol::scheduler_actor>("scheduler/" + to_string(m)),
                               protocol::scheduler_question{}),
                       request(pool, protocol::pool_question{m}));
  std::vector<model_answers> fresh(num_models);
  for (std::size_t m = 0; m < num_models; ++m) {
    if (auto& response = asked[m].first)
      response->receive([&](protocol::scheduler_answer& a) { fresh[m].scheduler = std::move(a); },
                        [](const caf::error&) {}); // the actor is late or restarting
    if (auto& response = asked[m].second)
      response->receive([&](protocol::pool_answer& a) { fresh[m].pool = std::move(a); },
                        [](const caf::error&) {});
  }
  std::lock_guard lock(mutex_);
  last_.resize(num_models);
  for (std::size_t m = 0; m < num_models; ++m) {
    auto& last = last_[m];
    last.is_late = !fresh[m].scheduler || !fresh[m].pool;
    if (fresh[m].scheduler) last.scheduler = std::move(fresh[m].scheduler);
    if (fresh[m].pool) last.pool = std::move(fresh[m].pool);
  }
  return last_;
}

} // namespace paceline
