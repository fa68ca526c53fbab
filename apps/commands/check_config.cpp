#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"

#include "config/drafters.hpp"
#include "config/load.hpp"
#include "engine/model_files.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "server/http/access.hpp"
#include "server/net/tls_context.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

namespace {

/// Opens the files that a configuration names, even if it has errors. All errors are reported together.
class file_check {
 public:
  file_check(const config::load_result& loaded, std::string_view name) : loaded_(loaded), name_(name) {
    const auto& models = loaded.config.engine.models;
    for (std::size_t i = 0; i < models.size(); ++i) check(models[i], "models." + std::to_string(i) + ".");
    if (const auto& keys = loaded.config.server.api_keys_file; !keys.empty())
      note("server.api_keys_file", server::key_ring::load(keys));
    if (const auto& tls = loaded.config.server.tls; !tls.certificate.empty() && !tls.key.empty())
      note("server.tls.certificate", server::tls_context::load(tls));
  }

  std::vector<std::string> errors;
  std::vector<std::string> warnings;

 private:
  void check(const config::model_options& model, const std::string& path) {
    if (model.kind == "file" && !model.path.empty()) {
      const auto source = model::open_model(model.path);
      note(path + "path", source);
      if (source && model.context_length > source->config.context_length)
        warnings.push_back(at(path + "context_length") + std::to_string(model.context_length) +
                           " is above the model's own " + std::to_string(source->config.context_length) +
                           ", which will be used");
    }
    if (!model.chat_template.empty())
      note(path + "chat_template", configured_chat_template(model.chat_template));
    for (std::size_t i = 0; i < model.drafters.size(); ++i)
      check(model.drafters[i], path + "drafters." + std::to_string(i) + ".");
  }

  void check(const config::drafter_options& drafter, const std::string& path) {
    if (drafter.path.empty()) return;
    std::error_code failed;
    if (drafter.kind == "model" || drafter.kind == "cascade")
      note(path + "path", model::open_model(drafter.path));
    else if (!std::filesystem::exists(drafter.path, failed)) // the files of a head depend on its kind
      errors.push_back(at(path + "path") + drafter.path + ": " +
                       (failed ? failed.message() : std::string("does not exist")));
  }

  template <class Value>
  void note(const std::string& path, const expected<Value>& opened) {
    if (!opened) errors.push_back(at(path) + opened.error().message());
  }

  /// "daemon.yaml:3:11: models.0.path: "
  std::string at(const std::string& path) const {
    const auto found = std::ranges::find(loaded_.settings, path, &config::setting::path);
    const auto origin = found == loaded_.settings.end() ? std::string(name_) : found->origin;
    return origin + ": " + path + ": ";
  }

  const config::load_result& loaded_;
  std::string_view name_;
};

} // namespace

int check_config(const std::string& path) {
  const auto loaded = config::load(path, config::process_environment(), {});
  const file_check files(loaded, path);
  for (const auto* list : {&loaded.warnings, &files.warnings})
    for (const auto& w : *list) std::fprintf(stderr, "warning: %s\n", w.c_str());
  for (const auto* list : {&loaded.errors, &files.errors})
    for (const auto& e : *list) std::fprintf(stderr, "paceline: %s\n", e.c_str());
  if (!loaded.ok()) return exit_config;
  if (!files.errors.empty()) return exit_unavailable;
  std::printf("%s: OK\n", path.c_str());
  return exit_success;
}

} // namespace paceline::apps
