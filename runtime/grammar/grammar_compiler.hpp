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
    ebnf,        ///< a grammar in XGrammar's EBNF, which is like llama.cpp's GBNF; the start rule is "root"
    choice,      ///< one of several texts: `text` is a JSON array of strings that are not empty
  };
  kind what = kind::json_object;
  std::string text;
  bool operator==(const grammar_source&) const = default;
};

/// Limits of one compiler.
struct compile_limits {
  std::size_t max_source_bytes = 256U << 10U; ///< of one source's `text`
  std::size_t max_cached_bytes = 64U << 20U;  ///< of all compiled grammars that are kept for later requests
  /// Work of the grammar library, in the units of library_work.hpp. `compile_work` is for one compilation. A
  /// cursor gets `cursor_work` at the start and `cursor_work_per_token` with each token; it saves up at most
  /// `cursor_work` + 32 * `cursor_work_per_token`. With a vocabulary of 152k, the costliest schema that is
  /// converted takes half of `compile_work`; a mask of a JSON text takes about 4,000 units.
  std::uint64_t compile_work = 300'000'000;
  std::uint64_t cursor_work = 20'000'000;
  std::uint64_t cursor_work_per_token = 2'000'000;
};

/// Compiles grammars for one vocabulary and keeps the most recently used ones. In a build without a grammar
/// library (docs/dependencies.md) every compilation fails with errc::unsupported.
///
/// Thread-safe. A compilation takes milliseconds to seconds on the calling thread. Only one runs at a time;
/// other callers wait for it, unless their grammar is already compiled. So actors must not call `compile`.
class compiler {
 public:
  virtual ~compiler() = default;
  /// The constraint never allows an output that the source does not allow. It may allow fewer (see
  /// schema_grammar.hpp). It stays valid when the compiler is destroyed. Errors:
  /// - `errc::invalid_argument`: the source is malformed or too long, or it is a schema that no value obeys.
  ///   If the place of the mistake is known, the message names it.
  /// - `errc::unsupported`: something in the source cannot be enforced, or its grammar would be too large or
  ///   take too much work to compile. For a schema the message names the path in the schema, and the keyword
  ///   if one is the cause.
  /// - `errc::resource_exhausted`: there is not enough memory.
  virtual expected<std::shared_ptr<const token_constraint>> compile(const grammar_source& source) = 0;
};

/// `vocab_size`: number of logits in a row. Tokens without a logit, and logits without a token in the
/// vocabulary, are never allowed. `end_ids`: tokens that end an output; ids that are not in both `vocabulary`
/// and the logits are ignored.
std::unique_ptr<compiler> make_compiler(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                                        std::vector<token_id> end_ids, const compile_limits& limits = {});

} // namespace paceline::grammar
