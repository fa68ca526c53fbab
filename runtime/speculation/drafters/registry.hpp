#pragma once

#include "config/engine_options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/model/heads/draft_head.hpp"
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

/// What a drafter is made from. The factory of a kind gets options with the defaults of this kind.
struct drafter_parts {
  config::drafter_options options;
  /// Loaded from `options.path` by the caller; null for kinds without a model of their own.
  std::shared_ptr<const model::language_model> own_model = {};
  /// Loaded from `options.path` by the caller, for kinds that draft with a head.
  std::shared_ptr<const model::draft_head> own_head = {};
  /// Loaded from `options.path` by the caller, for kinds with trained look-ahead rows.
  std::shared_ptr<const model::lookahead_inputs> own_inputs = {};
  /// For kinds with trained look-ahead rows: the token that stands for their first input vector in the
  /// target's passes. It is the vocabulary's size plus the number of input vectors of earlier drafters.
  token_id first_input = {};
  std::uint32_t target_vocab_size = 0;                      ///< draft tokens are below it
  std::shared_ptr<const model::language_model> target = {}; ///< for kinds that run some of its layers
  /// Both are set if the drafter's vocabulary differs from the target's; null otherwise.
  std::shared_ptr<const tokenizer::tokenizer> own_vocabulary = {};
  std::shared_ptr<const tokenizer::tokenizer> target_vocabulary = {};
  /// Converts text to tokens of the target's vocabulary; empty function if there is no tokenizer.
  std::function<expected<std::vector<token_id>>(std::string_view text)> encode = {};
  /// Makes an inner drafter for this drafter. Set by the registry, which uses its own factories for it.
  std::function<expected<std::unique_ptr<drafter>>(const drafter_parts& parts)> make_another = {};
};

/// Prefixes an error about an option with "drafter "lookup": ".
inline error bad_option(const config::drafter_options& options, const std::string& rule) {
  return {errc::invalid_argument, "drafter \"" + options.name + "\": " + rule};
}

using drafter_factory = std::function<expected<std::unique_ptr<drafter>>(const drafter_parts&)>;

/// The kinds of drafters by their name in the configuration.
class drafter_registry {
 public:
  /// The kinds that this build supports. A new kind needs a file and a line in registry.cpp.
  static drafter_registry with_built_in();

  /// Adds or replaces a kind.
  void add(std::string kind, drafter_factory factory);
  expected<std::unique_ptr<drafter>> make(const drafter_parts& parts) const;
  std::vector<std::string> kinds() const; ///< sorted

 private:
  std::map<std::string, drafter_factory> factories_;
};

} // namespace paceline::speculation
