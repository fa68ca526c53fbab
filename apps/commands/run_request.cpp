#include "apps/commands/run_request.hpp"

#include "apps/exit_codes.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <unistd.h>
#include <utility>

namespace paceline::apps {

int refuse_stray_parameters(const run_options& o) {
  const char* stray = nullptr;
  if (o.lenience && o.rule != verification_rule::lenient) stray = "--lenience belongs to --rule lenient";
  if ((o.epsilon || o.delta) && o.rule != verification_rule::typical)
    stray = "--epsilon and --delta belong to --rule typical";
  if (o.beam_width == 0 && (o.num_best != 1 || o.length_penalty != 1))
    stray = "--num-best and --length-penalty belong to --beam-width";
  if (stray == nullptr) return exit_success;
  std::fprintf(stderr, "paceline: %s\n", stray);
  return exit_usage;
}

void settle_seed(run_options& options) {
  if (options.seed) return;
  options.seed = std::random_device{}(); // 32 bits: a number that can be typed again
  std::fprintf(stderr, "[seed %llu; --seed %llu gives the same text again]\n",
               static_cast<unsigned long long>(*options.seed),
               static_cast<unsigned long long>(*options.seed));
}

expected<generation_request> make_request(const run_options& options, std::vector<token_id> prompt,
                                          std::uint32_t context_length, std::string_view more_room) {
  if (prompt.size() >= context_length)
    return error{errc::context_length_exceeded, "the prompt's " + std::to_string(prompt.size()) +
                                                    " tokens leave no room in the context of " +
                                                    std::to_string(context_length) + ": use " +
                                                    std::string(more_room)};
  const auto room = static_cast<std::uint32_t>(context_length - prompt.size());
  generation_request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = options.temperature;
  r.sampling.top_k = options.top_k;
  r.sampling.top_p = options.top_p;
  r.sampling.min_p = options.min_p;
  r.sampling.seed = options.seed.value_or(0);
  r.beams = {options.beam_width, options.num_best, options.length_penalty};
  r.stop.max_tokens = std::min(options.max_tokens, room);
  r.stop.stop_strings = options.stop;
  r.stop.ignore_eos = options.ignore_eos;
  r.speculation.draft_length = options.choice.draft_length;
  r.speculation.rule = options.rule;
  r.speculation.lenience = options.lenience.value_or(r.speculation.lenience);
  r.speculation.epsilon = options.epsilon.value_or(r.speculation.epsilon);
  r.speculation.delta = options.delta.value_or(r.speculation.delta);
  return r;
}

std::string cut_notice(std::size_t num_tokens, std::uint32_t max_tokens, std::string_view more_room) {
  const auto cut = "[cut at " + std::to_string(num_tokens) + " tokens";
  if (num_tokens >= max_tokens) return cut + "; -n allows more]\n";
  return cut + ", where the context ends: use " + std::string(more_room) + "]\n";
}

void print_now(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool wants_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

} // namespace paceline::apps
