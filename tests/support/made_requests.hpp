#pragma once

#include "runtime/base/request.hpp"

#include <cstdint>
#include <vector>

namespace paceline::testing {

/// A request with `prompt_length` tokens; tokens and seed depend on `salt`. It does not stop by itself.
inline generation_request make_request(std::uint32_t prompt_length, std::uint32_t max_tokens,
                                       std::uint32_t salt = 0, float temperature = 0) {
  generation_request r;
  for (std::uint32_t i = 0; i < prompt_length; ++i)
    r.prompt.emplace_back(static_cast<std::int32_t>((i * 7 + salt * 13) % 250));
  r.stop.max_tokens = max_tokens;
  r.stop.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 1000 + salt;
  r.speculation.drafter = "none";
  return r;
}

/// One request of every kind that a GPU decides itself.
inline std::vector<generation_request> requests_for_the_device() {
  std::vector<generation_request> all;
  const auto add = [&](float temperature) -> generation_request& {
    const auto number = static_cast<std::uint32_t>(all.size());
    return all.emplace_back(make_request(2 + number % 5, 8, number, temperature));
  };
  add(0);
  add(1);
  add(0.8F).sampling.min_p = 0.05F;
  auto& penalised = add(0.7F).sampling;
  penalised.repetition_penalty = 1.3F, penalised.presence_penalty = 0.5F, penalised.frequency_penalty = 0.7F;
  add(0).sampling.logit_bias = {{token_id{40}, 5.0F}, {token_id{41}, 5.0F}, {token_id{42}, -100.0F}};
  auto& masked = add(1).stop;
  masked.ignore_eos = false;
  masked.min_tokens = 5;
  for (std::int32_t t = 0; t < 288; t += 2) masked.stop_ids.emplace_back(t);
  add(1).first_target = token_id{99};
  add(0).sampling.frequency_penalty = 2;
  add(0).speculation.rule = verification_rule::rejection;
  add(1).sampling.top_k = 20;
  auto& cut = add(1.5F).sampling;
  cut.top_k = 100, cut.top_p = 0.9F, cut.min_p = 0.01F, cut.presence_penalty = 0.5F;
  return all;
}

/// One request of every kind that a GPU leaves to the host: truncated by mass or at many tokens, with
/// log-probabilities, with other rules.
inline std::vector<generation_request> requests_for_the_host() {
  std::vector<generation_request> all;
  const auto add = [&](float temperature) -> generation_request& {
    const auto number = 9 + static_cast<std::uint32_t>(all.size());
    return all.emplace_back(make_request(2 + number % 5, 8, number, temperature));
  };
  add(1).sampling.top_p = 0.9F;
  add(1).sampling.top_k = 200;
  add(0.9F).sampling.num_logprobs = 2;
  add(0).sampling.prompt_logprobs = true;
  add(1).speculation.rule = verification_rule::rejection;
  add(0).speculation.rule = verification_rule::lenient;
  return all;
}

inline std::vector<generation_request> requests_of_all_kinds() {
  auto all = requests_for_the_device();
  for (auto& request : requests_for_the_host()) all.push_back(std::move(request));
  return all;
}

} // namespace paceline::testing
