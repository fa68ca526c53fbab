#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::tokenizer {

enum class unicode_form : std::uint8_t { nfc, nfd, nfkc, nfkd };

struct lowercase_step {};
struct strip_step {
  bool left = true, right = true;
};
struct strip_accents_step {}; ///< removes marks (Unicode category M)
struct prepend_step {
  std::string prefix; ///< before every text that is not empty
};
struct replace_step {
  std::variant<regex, std::string> from;
  std::string to;
};

/// Rewrites text before it is divided into words. Thread-safe when const.
class normalizer {
 public:
  using step =
      std::variant<unicode_form, lowercase_step, strip_step, strip_accents_step, prepend_step, replace_step>;

  void add(step next) { steps_.push_back(std::move(next)); }
  bool empty() const noexcept { return steps_.empty(); }

  /// `text` is well-formed UTF-8, and so is the result.
  expected<std::string> apply(std::string text, regex::scratch& work) const;

 private:
  std::vector<step> steps_;
};

} // namespace paceline::tokenizer
