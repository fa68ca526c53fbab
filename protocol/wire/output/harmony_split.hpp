#pragma once

#include "protocol/wire/output/call_writer.hpp"
#include "protocol/wire/output/json_value_scan.hpp"
#include "protocol/wire/output/output_format.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::wire {

/// Reads an output in harmony, the format of gpt-oss, in place of the other stages. It is a list of messages:
///
///   <|start|>assistant<|channel|>analysis<|message|>…<|end|>                                    thoughts
///   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>  a call
///   <|start|>assistant<|channel|>commentary<|message|>…<|end|>            answer: what comes before calls
///   <|start|>assistant<|channel|>final<|message|>…<|return|>              answer
///
/// The prompt ends with <|start|>assistant, and the recipient ("to=") may stand before the channel, too. Two
/// messages of thoughts, and two of the answer, are divided by an empty line. A message that is not asked for
/// (a call without tools, thoughts that are not told apart) or is none, such as a call whose arguments are no
/// object, is text of the answer with all its marks.
class harmony_split {
 public:
  /// `plan`: with `reasoning`, thoughts are told apart; with `calls`, calls are.
  harmony_split(const output_plan& plan, call_writer calls);

  void feed(std::string_view text, output_items& out);
  /// The output has ended. A header that is not complete is dropped. `is_cut`: the model did not end it, so a
  /// call of which no argument has come has none.
  void finish(bool is_cut, output_items& out);

  std::uint32_t num_calls() const noexcept { return calls_.num_calls(); }
  /// Bytes at the beginning of the output that are known to be thoughts, their marks, and the marks between
  /// thoughts and what follows.
  std::size_t reasoning_bytes() const noexcept { return reasoning_bytes_; }
  /// True while the output may still go on with thoughts.
  bool may_reason() const noexcept { return in_front_; }

 private:
  enum class state : std::uint8_t {
    header,   ///< up to <|message|>
    text,     ///< of thoughts or of the answer, up to the mark of the end
    call,     ///< behind the header of a call: what comes first shows whether it is one
    argument, ///< in the JSON object of a call
    end,      ///< of a message: up to the mark
  };

  /// Reads as much of `held_` as possible; true if something was read and more may follow.
  bool step(output_items& out);
  bool read_header(output_items& out);
  void begin_message(const std::string& header, output_items& out);
  bool read_text(output_items& out);
  bool begin_call(output_items& out);
  bool read_argument(output_items& out);
  bool read_end(output_items& out);

  /// Bytes of `held_` in front of the first mark that ends a message, or that cannot be part of one.
  std::size_t bytes_before_end() const;
  bool take_end(output_items& out);
  void add(std::string_view text, output_items& out);
  std::string take(std::size_t count);

  bool splits_thoughts_;
  bool drops_thoughts_;
  bool reads_calls_;
  call_writer calls_;
  state state_ = state::header;
  std::string held_;
  std::string header_;   ///< of a call that may be none, with its marks
  std::string function_; ///< of the call
  std::string mark_;     ///< of the last end; text, if no header follows it
  value_end arguments_;
  bool in_thoughts_ = false;
  bool raw_ = false;        ///< the marks are text, too
  bool new_message_ = true; ///< no text of this message was written
  bool has_thoughts_ = false;
  bool has_answer_ = false;
  bool in_front_ = true; ///< no other message than thoughts has begun
  std::size_t num_taken_ = 0;
  std::size_t reasoning_bytes_ = 0;
};

} // namespace paceline::wire
