// A C++ service that runs a model inside: in an actor system of the engine's own, then in one the service
// already has.
//   embed MODEL.gguf "prompt"      ("hash" as the model needs no file)

#include "config/engine_options.hpp"
#include "engine/engine.hpp"
#include "engine/served_model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <caf/all.hpp>

#include <cstdio>
#include <future>
#include <string>

namespace {

paceline::config::engine_options options_for(const std::string& model) {
  paceline::config::engine_options options;
  paceline::config::model_options served;
  served.name = "embedded";
  served.context_length = 512;
  if (model == "hash")
    served.kind = "hash";
  else
    served.path = model;
  paceline::config::drafter_options ngram;
  ngram.name = ngram.kind = "ngram";
  served.drafters.push_back(ngram);
  served.default_drafter = "ngram";
  options.models.push_back(served);
  return options;
}

/// Submits one request and prints its text as it comes. True if it ended well.
bool generate(paceline::engine& engine, const std::string& prompt) {
  auto tokens = engine.model("")->vocabulary().encode(prompt);
  if (!tokens) {
    std::fprintf(stderr, "%s\n", tokens.error().message().c_str());
    return false;
  }
  paceline::generation_request request;
  request.prompt = *std::move(tokens);
  request.stop.max_tokens = 24;
  request.sampling.temperature = 0;
  request.owner = "embed"; // a service sets its customer's name here: customers take turns while they wait
  std::promise<paceline::token_event> last;
  engine.submit(request, [&](const paceline::token_event& event) { // on an actor thread: do not block here
    std::fwrite(event.text.data(), 1, event.text.size(), stdout);
    if (event.finish != paceline::finish_reason::none) last.set_value(event);
  });
  const auto end = last.get_future().get();
  std::printf("\n");
  if (end.failure) std::fprintf(stderr, "%s\n", end.failure->message().c_str());
  return !end.failure;
}

} // namespace

int main(int argc, char** argv) {
  const auto options = options_for(argc > 1 ? argv[1] : "hash");
  const std::string prompt = argc > 2 ? argv[2] : "Once upon a time";

  auto own = paceline::engine::start(options);
  if (!own) {
    std::fprintf(stderr, "%s\n", own.error().message().c_str());
    return 1;
  }
  if (!generate(**own, prompt)) return 1;
  own = paceline::error{paceline::errc::cancelled, "done"}; // ends the engine

  caf::actor_system_config configuration;
  paceline::engine::prepare(configuration);
  configuration.set("scheduler.policy", caf::atom("sharing"));
  caf::actor_system system(configuration);
  auto shared = paceline::engine::start(system, options);
  return shared && generate(**shared, prompt) ? 0 : 1;
}
