#include "tests/support/reference_beam_search.hpp"

#include "tests/support/reference_pipeline.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::test {

namespace {

struct candidate {
  double logprob = 0;
  std::size_t parent = 0;
  token_id token;
};

using logits_of = std::function<std::vector<float>(std::span<const token_id>)>;

std::vector<candidate> candidates_of(const logits_of& logits_after, const generation_request& request,
                                     const std::vector<reference_beams::hypothesis>& living) {
  sampling_params params = request.sampling;
  params.temperature = 1;
  params.top_k = 0;
  std::vector<candidate> all;
  for (std::size_t h = 0; h < living.size(); ++h) {
    std::vector<token_id> context = request.prompt;
    context.insert(context.end(), living[h].tokens.begin(), living[h].tokens.end());
    const auto row = process(logits_after(context), params, request.stop, context, request.prompt.size());
    for (std::size_t v = 0; v < row.probs.size(); ++v)
      if (row.probs[v] > 0)
        all.push_back(
            {living[h].logprob + std::log(row.probs[v]), h, token_id{static_cast<std::int32_t>(v)}});
  }
  std::stable_sort(all.begin(), all.end(), // they are in the order of hypothesis and id
                   [](const candidate& a, const candidate& b) { return a.logprob > b.logprob; });
  return all;
}

} // namespace

reference_beams search_beams(const logits_of& logits_after, const generation_request& request) {
  const std::size_t width = request.beams.width;
  const auto& stop = request.stop;
  const auto ends = [&](token_id token, std::size_t length) {
    const auto in = [&](const std::vector<token_id>& ids) {
      return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    return length >= stop.min_tokens && (in(stop.stop_ids) || (!stop.ignore_eos && in(stop.eos_ids)));
  };
  reference_beams result;
  std::vector<reference_beams::hypothesis> living(1), ended;
  while (ended.size() < width && !living.empty() && living.front().tokens.size() < stop.max_tokens) {
    const auto all = candidates_of(logits_after, request, living);
    std::vector<reference_beams::hypothesis> next;
    for (std::size_t rank = 0; rank < std::min(all.size(), 2 * width); ++rank) {
      auto longer = living[all[rank].parent];
      longer.tokens.push_back(all[rank].token);
      longer.logprob = all[rank].logprob;
      longer.stopped = ends(all[rank].token, longer.tokens.size());
      if (longer.stopped) {
        if (rank < width) ended.push_back(longer);
      } else if (next.size() < width) {
        next.push_back(longer);
      }
    }
    living = next;
    result.lived.emplace_back();
    for (const auto& one : living) result.lived.back().push_back(one.tokens);
  }
  if (ended.size() < width) ended.insert(ended.end(), living.begin(), living.end());
  for (auto& one : ended)
    one.score = one.logprob / std::pow(one.tokens.size(), static_cast<double>(request.beams.length_penalty));
  std::stable_sort(ended.begin(), ended.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  if (ended.size() > request.beams.num_best) ended.resize(request.beams.num_best);
  result.best = std::move(ended);
  return result;
}

} // namespace paceline::test
