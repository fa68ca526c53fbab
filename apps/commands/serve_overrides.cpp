#include "apps/commands/serve_overrides.hpp"

#include "config/drafters.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "server/http/access.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace paceline::apps {

namespace {

using assignments = std::vector<config::assignment>;

/// Adds drafters to those that the first model has without these flags.
class drafter_list {
 public:
  drafter_list(const serve_options& options, assignments& out) : out_(out) {
    const auto configured = config::load(options.config, config::process_environment(), out);
    config::model_options first;
    if (configured.ok()) first = configured.config.engine.models.front(); // errors are reported later
    size_ = first.drafters.size();
    for (const auto& drafter : config::drafters_of(first)) names_.push_back(drafter.name);
    if (size_ == 0)
      for (const std::string in_line : {"ngram", "suffix"}) set(in_line, in_line); // what an empty list means
  }

  void add(const std::string& kind, const std::string& path) {
    set(kind, kind);
    set_option("path", path);
    names_.push_back(kind);
  }

  /// Sets the drafter of requests that name none. It is added if it is a kind that no listed drafter has.
  expected<void> choose(const std::string& name) {
    if (name != "auto" && name != "none" && std::ranges::find(names_, name) == names_.end()) {
      const bool has_head = config::drafts_with_head(name);
      if ((has_head && name != "mtp") || name == "model" || name == "cascade")
        return error{errc::invalid_argument, "--drafter " + name + " needs " +
                                                 (has_head          ? "--draft-head"
                                                  : name == "model" ? "--draft-model"
                                                                    : "a configuration file")};
      set(name, name);
    }
    out_.emplace_back("models.0.default_drafter", name);
    return {};
  }

 private:
  void set(const std::string& name, const std::string& kind) {
    ++size_;
    set_option("name", name);
    set_option("kind", kind);
  }
  void set_option(const std::string& option, const std::string& value) {
    out_.emplace_back("models.0.drafters." + std::to_string(size_ - 1) + "." + option, value);
  }

  assignments& out_;
  std::size_t size_ = 0;
  std::vector<std::string> names_;
};

expected<void> add_drafters(const serve_options& options, assignments& out) {
  if (!options.draft_model && !options.draft_head && !options.drafter) return {};
  drafter_list drafters(options, out);
  if (options.draft_model) drafters.add("model", *options.draft_model);
  if (options.draft_head) {
    auto kind = model::kind_of_head(*options.draft_head);
    if (!kind) return std::move(kind).error().within("--draft-head");
    drafters.add(*kind, *options.draft_head);
  }
  return options.drafter ? drafters.choose(*options.drafter) : expected<void>();
}

/// Splits `text` at its commas.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Adds the names of the first model. The first of them is its main name, as in vLLM and llama-server.
expected<void> add_names(const std::string& given, assignments& out) {
  const auto names = words_of(given);
  if (std::ranges::find(names, std::string()) != names.end())
    return error{errc::invalid_argument, "--alias: a name is empty in \"" + given + "\""};
  out.emplace_back("models.0.name", names.front());
  if (names.size() > 1) {
    std::string others;
    for (std::size_t i = 1; i < names.size(); ++i) others.append(i == 1 ? "" : ",").append(names[i]);
    out.emplace_back("models.0.aliases", others);
  }
  return {};
}

/// Makes a file of keys that exists only in the memory of this process.
expected<std::string> file_of_keys(const std::vector<std::string>& given) {
  std::string text;
  for (const auto& list : given)
    for (const auto& key : words_of(list)) {
      if (!server::may_be_key(key) || key.front() == '#') // '#' begins a comment in the file
        return error{errc::invalid_argument,
                     "--api-key: a key has 1 to 512 printable characters without spaces and commas"};
      text.append(key).append("\n");
    }
  const int file = memfd_create("paceline-api-keys", MFD_CLOEXEC);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return error{errc::resource_exhausted, std::string("--api-key: ") + std::strerror(errno)};
  return "/proc/self/fd/" + std::to_string(file);
}

/// Sets the kind and the path, because the configuration file may have a first model of the other kind.
void add_model(const std::string& model, assignments& out) {
  const bool is_hash = model == "hash";
  out.emplace_back("models.0.kind", is_hash ? "hash" : "file");
  out.emplace_back("models.0.path", is_hash ? std::string() : model);
  out.emplace_back("models.0.name", is_hash ? model : std::filesystem::path(model).stem().string());
}

} // namespace

expected<assignments> overrides_of(const serve_options& options) {
  assignments out;
  out.reserve(16 + options.set.size()); // without this, GCC 12 warns of a write beyond an empty vector
  if (options.model) add_model(*options.model, out);
  if (options.alias)
    if (auto ok = add_names(*options.alias, out); !ok) return std::move(ok).error();
  if (options.context_length) out.emplace_back("models.0.context_length", *options.context_length);
  if (!options.api_keys.empty()) {
    auto file = file_of_keys(options.api_keys);
    if (!file) return std::move(file).error();
    out.emplace_back("server.api_keys_file", *file);
  }
  if (options.host) out.emplace_back("server.host", *options.host);
  if (options.port) out.emplace_back("server.port", std::to_string(*options.port));
  if (options.threads) out.emplace_back("engine.threads", *options.threads);
  if (options.device) out.emplace_back("models.0.device", *options.device);
  if (options.kv_dtype) out.emplace_back("models.0.kv.dtype", *options.kv_dtype);
  if (options.chat_template) out.emplace_back("models.0.chat_template", *options.chat_template);
  if (options.log_level) out.emplace_back("logging.level", *options.log_level);
  for (const auto& text : options.set) {
    auto parsed = config::parse_assignment(text);
    if (!parsed) return error{errc::invalid_argument, "--set: \"" + text + "\" has no ="};
    out.push_back(*std::move(parsed));
  }
  if (auto ok = add_drafters(options, out); !ok) return std::move(ok).error();
  return out;
}

} // namespace paceline::apps
