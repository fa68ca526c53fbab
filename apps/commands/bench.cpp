#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace paceline::apps {

int bench_decode(const bench_decode_options& options) {
  auto choice = options.choice;
  choice.drafter = "none";
  auto runtime = start_local(choice, options.json);
  if (!runtime) {
    std::fprintf(stderr, "paceline: %s\n", runtime.error().message().c_str());
    return code_for(runtime.error());
  }
  generation_request request;
  for (std::uint32_t i = 0; i < options.prompt_tokens; ++i) request.prompt.emplace_back(static_cast<std::int32_t>(100 + i));
  request.stop.max_tokens = options.tokens;
  request.stop.ignore_eos = true;
  request.sampling.temperature = 0;
  request.speculation.drafter = "none";
  std::vector<double> rates, prefills;
  for (std::uint32_t r = 0; r <= options.repeats; ++r) { // the first one warms up
    const auto g = generate(**runtime, request, nullptr);
    if (g.last.failure || !g.last.timings || g.tokens.size() != options.tokens) {
      std::fprintf(stderr, "paceline: %s\n", g.last.failure ? g.last.failure->message().c_str() : "the generation ended early");
      return exit_failure;
    }
    if (r == 0) continue;
    const auto seconds = std::chrono::duration<double>(g.last.timings->decode).count();
    rates.push_back(static_cast<double>(g.tokens.size() - 1) / seconds);
    if (!options.json) std::fprintf(stderr, "run %u of %u: %.1f tokens/s\n", r, options.repeats, rates.back());
  }
  std::ranges::sort(rates);
  const double median = rates[rates.size() / 2];
  if (options.json) {
    boost::json::object out{{"bench", "decode"}, {"model", choice.model}, {"threads", choice.threads},
                            {"prompt_tokens", options.prompt_tokens}, {"tokens", options.tokens}, {"repeats", options.repeats},
                            {"tokens_per_second", median}, {"min", rates.front()}, {"max", rates.back()}};
    std::cout << boost::json::serialize(out) << '\n';
  } else {
    std::printf("decode: %.1f tokens/s (median of %u; %.1f to %.1f)\n", median, options.repeats, rates.front(), rates.back());
  }
  return exit_success;
}

} // namespace paceline::apps
