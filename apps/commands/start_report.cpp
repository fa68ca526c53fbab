#include "apps/commands/start_report.hpp"

#include "config/device_name.hpp"
#include "config/drafters.hpp"
#include "engine/served_model.hpp"
#include "runtime/base/joined.hpp"

#include <cstdio>
#include <string>

namespace paceline::apps {

namespace {

using config::log_level;

void warn_of_fast_devices(server::event_log& log, const config::engine_options& options) {
  for (const auto& model : options.models)
    if (const auto device = config::parse_device(model.device);
        device && device->mode == config::gpu_mode::fast)
      log.write(log_level::warning, "fast mode: texts may depend on what else is computed (docs/gpu.md)",
                {{"model", model.name}, {"device", model.device}});
}

/// Logs which drafters each model has, and why.
void tell_drafters(server::event_log& log, const config::engine_options& options) {
  for (const auto& model : options.models) {
    const auto names = joined(config::drafters_of(model), ",", &config::drafter_options::name);
    log.write(log_level::info, "drafters",
              {{"model", model.name},
               {"names", names},
               {"default", model.default_drafter},
               {"why", model.drafters.empty() ? "none listed: those that need no model" : "listed"}});
  }
}

/// A model cannot use positions beyond its own context, whatever is configured.
void warn_of_contexts(server::event_log& log, const config::engine_options& options, const engine& runtime) {
  for (const auto& asked : options.models)
    if (const auto* model = runtime.model(asked.name); model->context_length() < asked.context_length)
      log.write(
          log_level::warning, "the configured context is above the model's own, which is used",
          {{"model", asked.name}, {"configured", asked.context_length}, {"used", model->context_length()}});
}

/// Many files have parts for images and sound. Requests with images or sound are refused.
void tell_unused_parts(server::event_log& log, const engine& runtime) {
  for (const auto* model : runtime.models())
    if (!model->unused_parts().empty())
      log.write(log_level::info, model->unused_parts(), {{"model", model->name()}});
}

void warn_of_shortages(server::event_log& log, const engine& runtime) {
  for (const auto* model : runtime.models())
    if (!model->shortage().empty())
      log.write(log_level::warning, model->shortage(), {{"model", model->name()}});
}

/// Logs how many levels each drafter drafts. If the configuration does not set this, the loaded heads
/// determine it.
void tell_draft_lengths(server::event_log& log, const engine& runtime) {
  for (const auto* model : runtime.models()) {
    std::string lengths;
    for (std::size_t i = 1; i < model->drafters().size(); ++i) // after "none"
      lengths += (lengths.empty() ? "" : " ") + model->drafters()[i] + ":" +
                 std::to_string(model->draft_lengths()[i]);
    log.write(log_level::info, "draft lengths", {{"model", model->name()}, {"levels", lengths}});
  }
}

/// Logs the time of a pass over one row and over more rows. It shows whether drafting pays on this machine.
void tell_pass_times(server::event_log& log, const engine& runtime) {
  for (const auto* model : runtime.models()) {
    const auto& times = model->pass_times();
    if (times.empty()) continue;
    const double one = times.front().nanoseconds;
    std::string ratios;
    char text[48];
    for (const auto& [rows, nanoseconds] : times) {
      std::snprintf(text, sizeof text, "%s%u:%.2f", ratios.empty() ? "" : " ", rows, nanoseconds / one);
      ratios += text;
    }
    std::snprintf(text, sizeof text, "%.2f", one / 1e6);
    log.write(log_level::info, "passes timed",
              {{"model", model->name()}, {"one_row_ms", text}, {"rows_to_cost", ratios}});
  }
}

} // namespace

void tell_configuration(server::event_log& log, const config::load_result& loaded) {
  for (const auto& warning : loaded.warnings) log.write(log_level::warning, warning);
  warn_of_fast_devices(log, loaded.config.engine);
  tell_drafters(log, loaded.config.engine);
}

void tell_models(server::event_log& log, const config::engine_options& options, const engine& runtime) {
  warn_of_contexts(log, options, runtime);
  tell_unused_parts(log, runtime);
  warn_of_shortages(log, runtime);
  tell_draft_lengths(log, runtime);
  tell_pass_times(log, runtime);
}

} // namespace paceline::apps
