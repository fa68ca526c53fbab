#include "runtime/grammar/grammar_compiler.hpp"

#include "runtime/grammar/constraint_cache.hpp"
#include "runtime/grammar/library_work.hpp"
#include "runtime/grammar/source_grammar.hpp"
#include "runtime/grammar/token_cursor.hpp"
#include "runtime/grammar/token_texts.hpp"

#include <xgrammar/compiler.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

/// The library calls these functions of a program that was built with XGRAMMAR_LOG_CUSTOMIZE
/// (deploy/xgrammar.sh). Without them it writes warnings to the standard error stream, for example one for
/// each request whose text ends one character after its limit.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}
void LogMessageImpl(const std::string&, int, int, const std::string&) {}

} // namespace xgrammar

namespace paceline::grammar {

namespace {

class compiled_constraint final : public token_constraint {
 public:
  compiled_constraint(xgrammar::CompiledGrammar grammar, std::shared_ptr<const token_texts> texts,
                      const compile_limits& limits)
      : grammar_(std::move(grammar)), texts_(std::move(texts)), limits_(limits),
        num_bytes_(grammar_.MemorySizeBytes()) {}

  std::unique_ptr<constraint_cursor> begin() const override {
    return std::make_unique<token_cursor>(grammar_, texts_, limits_);
  }
  std::size_t num_bytes() const noexcept override { return num_bytes_; }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::shared_ptr<const token_texts> texts_;
  compile_limits limits_;
  std::size_t num_bytes_;
};

/// The library's message about a grammar, without the part about the library's own code.
std::string message_of(const std::exception& failure) {
  std::string_view text = failure.what();
  if (const auto end = text.find("is false: ");
      text.starts_with("Check failed") && end != std::string_view::npos)
    text.remove_prefix(end + 10);
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

class library_compiler final : public compiler {
 public:
  library_compiler(token_texts texts, const compile_limits& limits)
      : texts_(std::make_shared<token_texts>(std::move(texts))), limits_(limits),
        cache_(limits.max_cached_bytes), library_(texts_->info, 1, false) {}

  expected<std::shared_ptr<const token_constraint>> compile(const grammar_source& source) override {
    if (source.text.size() > limits_.max_source_bytes)
      return error(errc::invalid_argument, "the grammar or schema has " + std::to_string(source.text.size()) +
                                               " bytes, above the limit of " +
                                               std::to_string(limits_.max_source_bytes));
    if (auto found = cache_.find(source)) return found;
    if (auto refused = refusals_.find(source)) return *std::move(refused);
    // Only one grammar is compiled at a time. This bounds the memory, and another request for the same
    // grammar finds it in the cache afterwards.
    const std::lock_guard lock(compiling_);
    if (auto found = cache_.find(source)) return found;
    if (auto refused = refusals_.find(source)) return *std::move(refused);
    const auto ebnf = to_ebnf(source);
    auto constraint = ebnf ? compile_ebnf(*ebnf) : ebnf.error();
    if (constraint)
      cache_.insert(source, *constraint);
    else if (constraint.error().code() != errc::resource_exhausted)
      refusals_.insert(source, constraint.error());
    return constraint;
  }

 private:
  expected<std::shared_ptr<const token_constraint>> compile_ebnf(const std::string& ebnf) {
    auto work_left = limits_.compile_work;
    const work_limit limit(work_left);
    try {
      auto compiled = library_.CompileGrammar(xgrammar::Grammar::FromEBNF(ebnf));
      // A matcher is made for each request, on the thread of the rounds and without a limit: what it takes is
      // counted here.
      work_left = std::min(work_left, limits_.cursor_work);
      static_cast<void>(xgrammar::GrammarMatcher(compiled));
      return std::shared_ptr<const token_constraint>(
          std::make_shared<compiled_constraint>(std::move(compiled), texts_, limits_));
    } catch (const work_exhausted&) {
      return error(errc::unsupported, "the grammar takes too much work to compile");
    } catch (const std::bad_alloc&) {
      return error(errc::resource_exhausted, "not enough memory to compile the grammar");
    } catch (const std::exception& failure) {
      return error(errc::invalid_argument, message_of(failure));
    }
  }

  std::shared_ptr<const token_texts> texts_;
  compile_limits limits_;
  constraint_cache cache_;
  refusal_cache refusals_;
  std::mutex compiling_;
  xgrammar::GrammarCompiler library_;
};

} // namespace

std::unique_ptr<compiler> make_compiler(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                                        std::vector<token_id> end_ids, const compile_limits& limits) {
  return std::make_unique<library_compiler>(make_token_texts(vocabulary, vocab_size, end_ids), limits);
}

} // namespace paceline::grammar
