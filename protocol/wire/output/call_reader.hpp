#pragma once

#include "protocol/wire/output/call_writer.hpp"
#include "protocol/wire/output/output_format.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace paceline::wire {

/// Reads one call, or one block of calls, from the text behind its opening marker.
class call_reader {
 public:
  enum class outcome : std::uint8_t {
    wants_more,
    ended,
    no_call, ///< this is no call: the text belongs to the answer. Only while none was begun.
  };

  virtual ~call_reader() = default;
  /// Removes from the front of `text` what belongs to the call and writes items. With `wants_more` it has
  /// taken what it can and leaves the rest to be completed. With `no_call` it has removed nothing.
  virtual outcome read(std::string& text, call_writer& calls, output_items& out) = 0;
  /// The output has ended within a call that was begun, or in its closing tag: writes what is there of the
  /// arguments, which need not be complete JSON then, and leaves in `text` what belongs to the answer.
  virtual void finish(std::string& text, call_writer& /*calls*/, output_items& /*out*/) { text.clear(); }
};

/// What opens a call in a syntax; empty for one without a marker.
std::string_view opening_marker(call_syntax syntax) noexcept;
/// True if a call may also be a bare object at the beginning of the answer: always with Llama 3, and small
/// models of Qwen 2.5 leave out the tags.
bool has_bare_calls(call_syntax syntax) noexcept;

/// A reader for the text behind the marker, or of a bare call. `tools` may be null.
std::unique_ptr<call_reader> make_call_reader(call_syntax syntax,
                                              std::shared_ptr<const tool_signatures> tools);

// The readers by family of syntax.
std::unique_ptr<call_reader> make_json_call_reader(call_syntax syntax);
/// `fenced`: a block of code, whose end follows the call.
std::unique_ptr<call_reader> make_bare_call_reader(std::shared_ptr<const tool_signatures> tools,
                                                   bool fenced = false);
std::unique_ptr<call_reader> make_tagged_call_reader(call_syntax syntax,
                                                     std::shared_ptr<const tool_signatures> tools);
std::unique_ptr<call_reader> make_literal_call_reader(call_syntax syntax);

/// The length of the longest end of `text` that is a beginning of `marker`, but not all of it: it may become
/// the marker with the text that follows.
std::size_t undecided_bytes(std::string_view text, std::string_view marker) noexcept;

/// Takes blanks and `close` from the beginning of `text`. The tag may be missing: `ended` as well.
call_reader::outcome take_closing_tag(std::string& text, std::string_view close = "</tool_call>");

} // namespace paceline::wire
