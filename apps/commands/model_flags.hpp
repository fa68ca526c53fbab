#pragma once

#include "apps/commands/options.hpp"

#include <CLI/CLI.hpp>

namespace paceline::apps {

/// The flags of every command that runs a model by itself.
inline void add_model(CLI::App& app, model_choice& choice) {
  app.add_option("--model", choice.model, "GGUF file or Hugging Face directory (\"hash\": the weightless model)")->required();
  app.add_option("--threads", choice.threads, "CPU threads; 0: all cores");
  app.add_option("--ctx-size", choice.context_length, "positions a request may use; 0: the model's own, at most 8192");
}

/// The flags that choose a drafter's model and length.
inline void add_drafting(CLI::App& app, model_choice& choice) {
  app.add_option("--draft-model", choice.draft_model, "GGUF file of a smaller model that drafts");
  app.add_option("--draft-length", choice.draft_length, "draft tokens a round")->check(CLI::Range(0, 64));
}

} // namespace paceline::apps
