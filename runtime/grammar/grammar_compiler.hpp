#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/token_constraint.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::grammar {

/// What an output must match.
struct grammar_source {
  enum class kind : std::uint8_t {
    json_object, ///< any JSON object; `text` is empty
    json_schema, ///< JSON Schema (draft 2020-12)
    regex,       ///< a regular expression for the whole output
    ebnf,        ///< a grammar in XGrammar's EBNF, which has GBNF's form; its first rule is "root"
    choice,      ///< one of several texts: a JSON array of strings
  };
  kind what = kind::json_object;
  std::string text;
  bool operator==(const grammar_source&) const = default;
};

/// Limits of a compilation.
struct compile_limits {
  std::size_t max_source_bytes = 256U << 10U;
  std::size_t max_cached_bytes = 64U << 20U; ///< compiled grammars that are kept for later requests
};

/// In a build without a grammar library (docs/dependencies.md) every compilation fails with
/// errc::unsupported.
///
/// Compiles grammars for one vocabulary and keeps the most recently used ones. Thread-safe; a compilation
/// takes milliseconds to seconds on the calling thread, so actors must not call it.
class compiler {
 public:
  virtual ~compiler() = default;
  /// Errors: `errc::invalid_argument` with the place in the schema or grammar that is wrong, and
  /// `errc::unsupported` with the keyword and its path if a keyword cannot be enforced. The constraint never
  /// allows more than the source says.
  virtual expected<std::shared_ptr<const token_constraint>> compile(const grammar_source& source) = 0;
};

/// `vocab_size`: number of tokens in the model's logits, at least the size of the vocabulary. `end_ids`:
/// tokens that end an output.
std::unique_ptr<compiler> make_compiler(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                                        std::vector<token_id> end_ids, const compile_limits& limits = {});

} // namespace paceline::grammar
