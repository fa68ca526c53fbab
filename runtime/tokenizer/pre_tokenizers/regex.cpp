#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/pre_tokenizers/pattern_dialect.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <utility>

namespace paceline::tokenizer {

namespace {

constexpr std::uint32_t max_steps = 50'000'000; ///< maximum for one search, which takes seconds at most
constexpr std::uint32_t max_heap_kib =
    256 * 1024; ///< of the interpreter, used when the stack of compiled code is exhausted
constexpr std::size_t first_stack_bytes = 32 * 1024; ///< first stack of compiled code
constexpr std::size_t max_stack_bytes = 8 * 1024 * 1024;

error unsupported(std::string_view pattern, std::string_view why) {
  return error(errc::unsupported, "pattern " + quote(pattern) + ": " + std::string(why));
}

/// Optimizations that lose matches of `pattern` in PCRE2 10.42.
std::uint32_t avoided_optimizations(std::string_view pattern) noexcept {
  const auto has = [&](std::string_view part) { return pattern.find(part) != std::string_view::npos; };
  std::uint32_t avoided = 0;
  // What a lookahead sees counts as consumed: "(?=a)1*a" is not found in "a".
  if (has("(?=")) avoided |= PCRE2_NO_START_OPTIMIZE;
  // A possessive group counts as required: "\D*(1)?+^b" is not found in "a\nb".
  if (has(")?+") || has(")*+")) avoided |= PCRE2_NO_AUTO_POSSESS;
  return avoided;
}

std::string engine_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

} // namespace

struct regex::scratch::state {
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  state() {
    match = pcre2_match_data_create(1, nullptr);
    context = pcre2_match_context_create(nullptr);
    stack = pcre2_jit_stack_create(first_stack_bytes, max_stack_bytes, nullptr);
    if (match == nullptr || context == nullptr) {
      release();
      throw std::bad_alloc();
    }
    pcre2_set_match_limit(context, max_steps);
    pcre2_set_heap_limit(context, max_heap_kib);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~state() { release(); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  void release() noexcept {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

regex::scratch::scratch() : state_(std::make_unique<state>()) {}
regex::scratch::~scratch() = default;

expected<regex> regex::compile(std::string_view pattern) {
  auto translated = pcre2_pattern(pattern);
  if (!translated) return std::move(translated).error();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE at = 0;
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | avoided_optimizations(*translated);
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                 options, &code, &at, context.get());
  if (compiled == nullptr) return unsupported(pattern, engine_message(code));
  regex result;
  result.pattern_ = pattern;
  result.code_ = std::shared_ptr<const void>(compiled, [](const void* p) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(p)));
  });
  // Without a just-in-time compiler for this machine, the interpreter is used: slower, with the same matches.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return result;
}

expected<std::optional<text_range>> regex::find(std::string_view text, std::size_t from,
                                                scratch& work) const {
  auto& state = *work.state_;
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, state.match, state.context);
  };
  int status = match(0);
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return std::optional<text_range>();
  if (status < 0)
    return error(errc::resource_exhausted, "pattern " + quote(pattern_) + " over " +
                                               std::to_string(text.size()) +
                                               " bytes: " + engine_message(status));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.match);
  return std::optional(text_range{bounds[0], bounds[1]});
}

expected<std::vector<text_range>> regex::find_all(std::string_view text, scratch& work) const {
  std::vector<text_range> matches;
  for (std::size_t from = 0; from <= text.size();) {
    auto match = find(text, from, work);
    if (!match) return std::move(match).error();
    if (!*match) break;
    const text_range range = **match;
    const bool empty = range.begin == range.end;
    if (!empty || matches.empty() || matches.back().end != range.end) matches.push_back(range);
    from = range.end;
    if (empty) from += from < text.size() ? utf8_length(text[from]) : 1;
  }
  return matches;
}

} // namespace paceline::tokenizer
