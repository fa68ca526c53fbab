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

/// A compiled pattern over well-formed UTF-8, in the dialect of tokenizer files (Oniguruma's Ruby syntax:
/// Unicode classes; `^` and `$` match at the beginning and end of every line). PCRE2 runs it, with its
/// just-in-time compiler where the machine is supported. Thread-safe when const.
class regex {
 public:
  /// Scratch memory of one thread for matching; may be used with any number of patterns in turn.
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

  /// Error: errc::unsupported, with pattern and reason, if PCRE2 cannot run it with the same meaning.
  static expected<regex> compile(std::string_view pattern);

  /// The leftmost match in `text` that begins at `from` or later; anchors and lookarounds see `text` only.
  /// Error: errc::resource_exhausted if the search exceeds the step limit.
  expected<std::optional<text_range>> find(std::string_view text, std::size_t from, scratch& work) const;

  /// All matches from left to right. An empty match directly after another match does not count. Error: as
  /// for `find`.
  expected<std::vector<text_range>> find_all(std::string_view text, scratch& work) const;

  const std::string& pattern() const noexcept { return pattern_; }

 private:
  regex() = default;

  std::string pattern_;              ///< as given
  std::shared_ptr<const void> code_; ///< pcre2_code
};

} // namespace paceline::tokenizer
