#pragma once

#include "apps/commands/options.hpp"
#include "config/engine_options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace paceline::apps {

/// A validator for CLI11's `Option::transform` that converts names to enumerators. CLI::CheckedTransformer
/// would also print the enumerators in help and errors, as control characters if their type has one byte.
template <class Enum>
CLI::Validator one_of(std::vector<std::pair<std::string, Enum>> choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "" : ",") + name;
  names = "{" + names + "}";
  return CLI::Validator(
      [choices = std::move(choices), names](std::string& text) {
        for (const auto& [name, value] : choices)
          if (name == text) {
            text = std::to_string(static_cast<int>(value));
            return std::string();
          }
        return text + " not in " + names;
      },
      names);
}

inline void add_kv_dtype(CLI::App& app, kv_type& type) {
  std::vector<std::pair<std::string, kv_type>> choices;
  for (const kv_type each : {kv_type::f16, kv_type::f32, kv_type::bf16, kv_type::q8})
    choices.emplace_back(traits_of(each).name, each);
  // CLI11 would show the default as a number.
  app.add_option("--kv-dtype", type, "element type of KV cells: f16, f32, bf16 or q8")
      ->transform(one_of(std::move(choices)))
      ->default_str(std::string(traits_of(type).name));
}

/// Adds the flags of every command that runs a model itself.
inline void add_model(CLI::App& app, model_choice& choice) {
  app.add_option("-m,--model", choice.model,
                 "GGUF file or Hugging Face directory (\"hash\": no weights, for tests)")
      ->required();
  app.add_option("-t,--threads", choice.threads, "CPU threads; 0: all cores");
  app.add_option("-c,--ctx-size", choice.context_length,
                 "positions a request may use; 0: the model's own, at most 8192")
      ->check(CLI::Range(0U, config::max_context_length));
  app.add_option("--chat-template", choice.chat_template,
                 "file of a template that replaces the model's own; chatml: the built-in one");
  add_kv_dtype(app, choice.kv_dtype);
  app.add_option("--device", choice.device,
                 "device that runs the model: auto, cpu, or a GPU as cuda:0 or cuda:0/fast")
      ->capture_default_str();
}

/// Adds the flags for a drafter's model and length.
inline void add_drafting(CLI::App& app, model_choice& choice) {
  app.add_option("--draft-model,--model-draft", choice.draft_model,
                 "GGUF file of a smaller model that drafts");
  app.add_option("--draft-head", choice.draft_head,
                 "directory or GGUF file of a trained head that drafts (docs/drafters.md)");
  app.add_option("--draft-device", choice.draft_device,
                 "device that runs the drafting model: auto (as --device), cpu, cuda:N")
      ->capture_default_str();
  app.add_option("--partitions", choice.partitions,
                 "2: drafting models run on half of the cores, at the same time as the target")
      ->check(CLI::Range(1, 2));
  app.add_option("--draft-length", choice.draft_length, "draft tokens per round")->check(CLI::Range(0, 64));
}

/// The seed that a text names; nullopt if it names none. CLI11 would read "-2" as a large number.
inline std::optional<std::uint64_t> seed_in(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return seed;
}

/// Adds --seed: a number, or -1 for a random seed.
inline void add_seed(CLI::App& app, std::optional<std::uint64_t>& seed) {
  const CLI::Validator number(
      [](const std::string& text) {
        return text == "-1" || seed_in(text) ? "" : "must be from 0 to 18446744073709551615, or -1";
      },
      "");
  app.add_option_function<std::string>(
         "--seed", [&seed](const std::string& text) { seed = seed_in(text); },
         "the same seed gives the same text; -1: a random one, which is told on standard error")
      ->check(number)
      ->type_name("INT")
      ->default_str(std::to_string(seed.value_or(0)));
}

/// Adds the flags for verification.
inline void add_rule(CLI::App& app, run_options& o) {
  const std::vector<std::string> names(verification_rule_names.begin(), verification_rule_names.end());
  app.add_option_function<std::string>(
         "--rule",
         [&o, names](const std::string& name) {
           o.rule = static_cast<verification_rule>(std::ranges::find(names, name) - names.begin());
         },
         "coupled: the same tokens as without speculation; rejection, block: the same distribution; "
         "lenient, typical, skip_sample_adjustment: neither (docs/verification.md)")
      ->check(CLI::IsMember(names))
      ->default_str(names[static_cast<std::size_t>(o.rule)]);
  const CLI::Validator share(
      [](const std::string& text) {
        float value = 0;
        return CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1 ? "" : "must be in (0, 1]";
      },
      "(0, 1]");
  app.add_option("--lenience", o.lenience,
                 "for rule lenient: no token becomes likelier than its probability divided by this")
      ->check(share);
  app.add_option("--epsilon", o.epsilon, "for rule typical: probability that always suffices")->check(share);
  app.add_option("--delta", o.delta, "for rule typical: share of e^-entropy that suffices")->check(share);
}

} // namespace paceline::apps
