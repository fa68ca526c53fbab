#pragma once

#include "protocol/wire/output/call_writer.hpp"
#include "protocol/wire/output/output_format.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace paceline::wire {

/// Reads one call, or one block of calls, from the text after its opening marker.
class call_reader {
 public:
  enum class outcome : std::uint8_t {
    wants_more,
    ended,
    no_call, ///< the text is not a call and belongs to the answer; only before a call item was written
  };

  virtual ~call_reader() = default;
  /// Removes the part of `text` that belongs to the call from its beginning, and writes items to `out`. With
  /// `wants_more`, `text` keeps what can be read only together with more text. With `no_call` nothing was
  /// removed.
  virtual outcome read(std::string& text, call_writer& calls, output_items& out) = 0;
  /// The output has ended before a call item was written: puts the removed text back into `text`.
  virtual void give_back(std::string& /*text*/) {}
  /// The output has ended within a call that was begun, or in its closing tag. Writes the rest of the
  /// arguments, which may then be incomplete JSON, and leaves in `text` the part that belongs to the answer.
  /// `is_cut`: the token limit or a stop string has ended the output, not the model.
  virtual void finish(std::string& text, bool /*is_cut*/, call_writer& /*calls*/, output_items& /*out*/) {
    text.clear();
  }
};

/// The beginning of a call in Qwen3-Coder's syntax, after <tool_call>. The models may leave out <tool_call>.
inline constexpr std::string_view function_tag = "<function=";

/// The markers that open a call in `syntax`; empty if it has none.
std::span<const std::string_view> opening_markers(call_syntax syntax) noexcept;
/// True if a call may also be a JSON object without markers at the beginning of the answer: with Llama 3, and
/// with the Hermes syntax, because small models of Qwen 2.5 leave out its tags.
bool has_bare_calls(call_syntax syntax) noexcept;

/// A reader for the text after `marker`, one of the syntax's opening markers. `tools` may be null.
std::unique_ptr<call_reader> make_call_reader(call_syntax syntax, std::string_view marker,
                                              std::shared_ptr<const tool_signatures> tools);

// The readers by family of syntax.
std::unique_ptr<call_reader> make_json_call_reader(call_syntax syntax);
/// `fenced`: the call is in a Markdown code block, whose end follows.
std::unique_ptr<call_reader> make_bare_call_reader(std::shared_ptr<const tool_signatures> tools,
                                                   bool fenced = false);
/// `begun`: the call was opened by `function_tag` without <tool_call>. It is then a call only if `tools` has
/// the function, because an answer may mention the tag.
std::unique_ptr<call_reader>
make_tagged_call_reader(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, bool begun = false);
std::unique_ptr<call_reader> make_literal_call_reader(call_syntax syntax);

/// Length of the longest suffix of `text` that is a proper prefix of `marker`. Later text may complete this
/// suffix to the marker.
std::size_t undecided_bytes(std::string_view text, std::string_view marker) noexcept;

/// The first of some markers in a text.
struct found_marker {
  std::size_t begin;       ///< bytes before it; if there is none, bytes that cannot belong to a marker
  std::string_view marker; ///< empty: there is none
};
found_marker first_marker(std::string_view text, std::span<const std::string_view> markers) noexcept;

/// Removes blanks and the tag `close` from the beginning of `text`. Returns `ended` also if the tag is
/// missing, and `wants_more` if more text is needed to decide that.
call_reader::outcome take_closing_tag(std::string& text, std::string_view close = "</tool_call>");

} // namespace paceline::wire
