#pragma once

#include "protocol/wire/output/call_reader.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace paceline::wire {

/// The second stage of output_pipeline: separates calls from the answer. Blanks before and after a call are
/// dropped. Text that begins like a call but is none, such as invalid JSON, stays text.
class call_split {
 public:
  call_split(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, call_writer calls);

  void feed(std::string_view text, output_items& out);
  /// The output has ended; `is_cut`: by the token limit. An open call is closed as it is. If the model ended
  /// it without arguments, these are an empty object.
  void finish(bool is_cut, output_items& out);
  std::uint32_t num_calls() const noexcept { return calls_.num_calls(); }

 private:
  /// Reads as much of `held_` as possible; true if something was read and more may follow.
  bool step(output_items& out);
  bool find_call(output_items& out);
  bool read_call(output_items& out);
  void add_text(std::string_view text, output_items& out);

  call_syntax syntax_;
  std::shared_ptr<const tool_signatures> tools_;
  std::string_view marker_;
  call_writer calls_;
  std::unique_ptr<call_reader> reader_; ///< inside a call
  std::uint32_t num_before_ = 0;        ///< number of calls begun before the current reader was made
  std::string opening_; ///< text removed before the call; it becomes answer text if there is no call
  std::string held_;
  std::string blanks_;       ///< blanks after the text; dropped if a call follows
  bool behind_call_ = false; ///< after a call: blanks are dropped until other text comes
  bool may_begin_ = true;    ///< a bare call may begin here
};

} // namespace paceline::wire
