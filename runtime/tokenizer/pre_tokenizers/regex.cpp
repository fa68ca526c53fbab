#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <utility>

namespace paceline::tokenizer {

namespace {

constexpr std::uint32_t max_steps = 50'000'000; ///< of one search: seconds, not minutes
constexpr std::uint32_t max_heap_kib =
    256 * 1024; ///< of the interpreter, where the compiled code's stack ends
constexpr std::size_t first_stack_bytes = 32 * 1024; ///< of compiled code
constexpr std::size_t max_stack_bytes = 8 * 1024 * 1024;

/// PCRE2's \s adds U+180E, and its \w lacks marks and has other numbers; these are the members that tokenizer
/// files mean.
constexpr std::string_view space_members =
    R"(\t-\r\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view word_members = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xb2\xb3\xb9\xbc-\xbe)";

error unsupported(std::string_view pattern, std::string_view why) {
  return error(errc::unsupported, "pattern \"" + std::string(pattern) + "\": " + std::string(why));
}

/// `pattern` in PCRE2's words: class escapes spelt out, everything else as it is.
class translator {
 public:
  explicit translator(std::string_view pattern) : pattern_(pattern) {}

  expected<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\' && at_ + 1 < pattern_.size())
        translate_escape(pattern_[at_ + 1]);
      else if (in_class_)
        translate_member(c);
      else
        translate_plain(c);
      if (refusal_) return unsupported(pattern_, *refusal_);
    }
    return std::move(out_);
  }

 private:
  void translate_escape(char escaped) {
    at_ += 2;
    const auto set = [&](std::string_view members, bool negated) {
      out_ += std::string(negated ? "[^" : "[") + std::string(members) + "]";
    };
    if (escaped == 'h' || escaped == 'H') {
      refusal_ = "\\h is not supported";
    } else if (in_class_ && (escaped == 's' || escaped == 'w')) {
      out_ += escaped == 's' ? space_members : word_members;
    } else if (!in_class_ && (escaped == 's' || escaped == 'S')) {
      set(space_members, escaped == 'S');
    } else if (!in_class_ && (escaped == 'w' || escaped == 'W')) {
      set(word_members, escaped == 'W');
    } else if (!in_class_ && (escaped == 'b' || escaped == 'B')) {
      const std::string word = "[" + std::string(word_members) + "]";
      const std::string inside = escaped == 'b' ? "!" : "=";
      const std::string outside = escaped == 'b' ? "=" : "!";
      out_ += "(?:(?<=" + word + ")(?" + inside + word + ")|(?<!" + word + ")(?" + outside + word + "))";
    } else {
      out_ += '\\';
      out_ += escaped;
    }
  }

  void translate_member(char c) {
    const std::string_view rest = pattern_.substr(at_);
    if (rest.starts_with("[:")) {
      const auto close = rest.find(":]");
      if (close == std::string_view::npos) return void(refusal_ = "[: without :]");
      out_ += rest.substr(0, close + 2);
      at_ += close + 2;
      return;
    }
    if (c == '[') return void(refusal_ = "a class inside a class is not supported");
    if (rest.starts_with("&&")) return void(refusal_ = "intersections of classes (&&) are not supported");
    if (c == ']') in_class_ = false;
    out_ += c;
    ++at_;
  }

  void translate_plain(char c) {
    out_ += c;
    ++at_;
    if (c != '[') return;
    in_class_ = true;
    if (pattern_.substr(at_).starts_with('^')) out_ += pattern_[at_++];
    if (pattern_.substr(at_).starts_with(']')) { // where it comes first it is a member
      out_ += "\\]";
      ++at_;
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  std::optional<std::string_view> refusal_;
};

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
  auto translated = translator(pattern).run();
  if (!translated) return std::move(translated).error();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE at = 0;
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                 options, &code, &at, context.get());
  if (compiled == nullptr) return unsupported(pattern, engine_message(code));
  regex result;
  result.pattern_ = pattern;
  result.code_ = std::shared_ptr<const void>(compiled, [](const void* p) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(p)));
  });
  // Without a just-in-time compiler for this machine the interpreter runs the pattern: slower, same matches.
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
    return error(errc::resource_exhausted, "pattern \"" + pattern_ + "\" over " +
                                               std::to_string(text.size()) +
                                               " bytes: " + engine_message(status));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.match);
  return std::optional(text_range{bounds[0], bounds[1]});
}

} // namespace paceline::tokenizer
