#pragma once

#include "config/engine_options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::speculation {

/// What a drafter is made from.
struct drafter_parts {
  config::drafter_options options;
  /// Loaded from `options.path` by the caller; null for kinds without a model of their own.
  std::shared_ptr<const model::language_model> own_model = {};
  std::uint32_t target_vocab_size = 0;                      ///< draft tokens lie below it
  std::shared_ptr<const model::language_model> target = {}; ///< for kinds that run parts of it
  /// Both needed where the drafter's vocabulary is another than the target's; null otherwise.
  std::shared_ptr<const tokenizer::tokenizer> own_vocabulary = {};
  std::shared_ptr<const tokenizer::tokenizer> target_vocabulary = {};
  /// Text to tokens of the target's vocabulary; empty where there is no tokenizer.
  std::function<expected<std::vector<token_id>>(std::string_view text)> encode = {};
  /// Makes a drafter that this one has for itself, of the same registry, which sets it.
  std::function<expected<std::unique_ptr<drafter>>(const drafter_parts& parts)> make_another = {};
};

/// "drafter "lookup": " in front of what is wrong with an option.
inline error bad_option(const config::drafter_options& options, const std::string& rule) {
  return {errc::invalid_argument, "drafter \"" + options.name + "\": " + rule};
}

using drafter_factory = std::function<expected<std::unique_ptr<drafter>>(const drafter_parts&)>;

/// Kinds of drafters by the name they have in the configuration.
class drafter_registry {
 public:
  /// The kinds this build offers. A new one is a file and a line in registry.cpp.
  static drafter_registry with_built_in();

  /// Adds a kind or replaces one.
  void add(std::string kind, drafter_factory factory);
  expected<std::unique_ptr<drafter>> make(const drafter_parts& parts) const;
  std::vector<std::string> kinds() const; ///< sorted

 private:
  std::map<std::string, drafter_factory> factories_;
};

} // namespace paceline::speculation
