#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// Half-open range of bytes in a text.
struct text_range {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const text_range&, const text_range&) = default;
};

/// A compiled pattern over well-formed UTF-8, in the dialect tokenizer files are written in (Oniguruma's Ruby
/// syntax: Unicode classes, `^` and `$` at lines), run by PCRE2's just-in-time compiler. Const calls from any
/// thread.
class regex {
 public:
  /// What one thread needs while matching; one serves any number of patterns, one after the other.
  class scratch {
   public:
    scratch();
    ~scratch();
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;

   private:
    friend class regex;
    struct state;
    std::unique_ptr<state> state_;
  };

  /// Fails (errc::unsupported) with the pattern and the reason when the engine cannot run it as it is meant.
  static expected<regex> compile(std::string_view pattern);

  /// The leftmost match in `text` that begins at `from` or later; `text` is all that anchors and lookarounds
  /// see. Fails (errc::resource_exhausted) when the search takes more steps than a fair one does.
  expected<std::optional<text_range>> find(std::string_view text, std::size_t from, scratch& work) const;

  /// Every match, left to right. An empty one right behind another does not count.
  expected<std::vector<text_range>> find_all(std::string_view text, scratch& work) const;

  const std::string& pattern() const noexcept { return pattern_; }

 private:
  regex() = default;

  std::string pattern_;              ///< as given
  std::shared_ptr<const void> code_; ///< pcre2_code
};

} // namespace paceline::tokenizer
