#pragma once

#include "protocol/wire/output/byte_owner.hpp"
#include "protocol/wire/output/call_reader.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace paceline::wire {

/// The second stage of output_pipeline: separates calls from the answer. Blanks before and after a call are
/// dropped. Text that begins like a call but is not one, such as invalid JSON, stays text.
class call_split {
 public:
  call_split(call_syntax syntax, std::shared_ptr<const tool_signatures> tools, call_writer calls);

  void feed(std::string_view text, output_items& out);
  /// Ends the output. `is_cut`: the token limit or a stop string has ended it, not the model. An open call
  /// then gets no end item. Otherwise the call is ended; if it has no arguments, it gets an empty object.
  void finish(bool is_cut, output_items& out);
  std::uint32_t num_calls() const noexcept { return calls_.num_calls(); }
  /// True if all output that follows is dropped.
  bool is_full() const noexcept { return calls_.is_full(); }

  /// Number of bytes that were fed.
  std::size_t num_fed() const noexcept { return num_fed_; }
  /// What the byte `at` belongs to. Output that is dropped after the last permitted call counts as `other`.
  byte_owner owner_of(std::size_t at) const noexcept;

 private:
  /// Reads as much of `held_` as possible; true if something was read and more may follow.
  bool step(output_items& out);
  bool find_call(output_items& out);
  bool read_call(output_items& out);
  void begin_call(std::unique_ptr<call_reader> reader);
  void add_text(std::string_view text, output_items& out);
  /// Number of bytes that were read.
  std::size_t position() const noexcept { return num_fed_ - held_.size(); }

  call_syntax syntax_;
  std::shared_ptr<const tool_signatures> tools_;
  std::span<const std::string_view> markers_;
  call_writer calls_;
  std::unique_ptr<call_reader> reader_; ///< inside a call
  std::uint32_t num_before_ = 0;        ///< number of calls begun before the current reader was made
  std::string opening_; ///< text removed before the call; it becomes answer text if there is no call
  std::string held_;
  std::string blanks_;       ///< blanks after the text; dropped if a call follows
  bool behind_call_ = false; ///< after a call: blanks are dropped until other text comes
  bool may_begin_ = true;    ///< a bare call may begin here
  bool has_ended_ = false;
  std::size_t num_fed_ = 0;
  call_bytes spans_;
};

} // namespace paceline::wire
