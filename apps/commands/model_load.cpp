#include "apps/commands/model_load.hpp"

#include "config/drafters.hpp"

#include <exception>
#include <filesystem>
#include <string>
#include <utility>

namespace paceline::apps {

namespace {

namespace fs = std::filesystem;

/// The size of a GGUF file, or of the weights in a directory. It is 0 if there are none, and then the load
/// reports it.
std::uint64_t bytes_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    const auto bytes = fs::file_size(path, failed);
    return failed ? 0 : bytes;
  }
  std::uint64_t bytes = 0;
  for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().extension() == ".safetensors") bytes += bytes_of(it->path());
  return bytes;
}

expected<std::unique_ptr<engine>> load(const config::engine_options& options,
                                       const std::function<void(const load_progress&)>& on_progress) {
  try {
    return engine::start(options, on_progress);
  } catch (const std::exception& e) { // there is not enough memory, or no further thread
    return error{errc::resource_exhausted,
                 std::string("not enough memory or threads for the models: ") + e.what()};
  }
}

} // namespace

std::vector<server::load_part> parts_of(const config::engine_options& options) {
  std::vector<server::load_part> parts;
  for (const auto& model : options.models) {
    parts.push_back({model.name, "", 0, model.path.empty() ? 0 : bytes_of(model.path)});
    for (const auto& drafter : model.drafters)
      if (!drafter.path.empty() && !config::drafts_with_head(drafter.kind)) // heads are read in one step
        parts.push_back({model.name, drafter.name, 0, bytes_of(drafter.path)});
  }
  return parts;
}

model_load::model_load(const config::engine_options& options,
                       std::function<void(const load_progress&)> on_progress, std::function<void()> on_end)
    : thread_([this, &options, on_progress = std::move(on_progress), on_end = std::move(on_end)] {
        result_ = load(options, on_progress);
        has_ended_ = true;
        on_end();
      }) {}

expected<std::unique_ptr<engine>> model_load::take() {
  thread_.join();
  return *std::move(result_);
}

} // namespace paceline::apps
