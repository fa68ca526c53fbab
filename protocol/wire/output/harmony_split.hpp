#pragma once

#include "protocol/wire/output/byte_owner.hpp"
#include "protocol/wire/output/call_writer.hpp"
#include "protocol/wire/output/json_value_scan.hpp"
#include "protocol/wire/output/output_format.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::wire {

/// Splits output in OpenAI's harmony format into output items. It is the format of gpt-oss; the chat template
/// or the option `tool_call_parser` selects it. `output_pipeline` uses this class instead of reasoning_split
/// and call_split. Text may arrive in any pieces. Not thread-safe. An output is a list of messages:
///
///   <|start|>assistant<|channel|>analysis<|message|>…<|end|>                                    thoughts
///   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>  a call
///   <|start|>assistant<|channel|>commentary<|message|>…<|end|>            answer: a text before calls
///   <|start|>assistant<|channel|>final<|message|>…<|return|>              answer
///
/// The prompt ends with <|start|>assistant and the output begins after it, unless the prompt has opened
/// thoughts (`plan.begins_inside_reasoning`): the output then begins with their text. The recipient ("to=")
/// may also come before <|channel|>. If several messages contain thoughts, an empty line is inserted between
/// their texts; likewise if several messages contain parts of the answer. The following messages become
/// answer text, markers included: a message whose role is not assistant; a call if `plan.calls` is none;
/// thoughts if `plan.reasoning` is empty; a call whose arguments are neither empty nor begin with '{'.
class harmony_split {
 public:
  /// If `plan.reasoning` is set, thoughts become reasoning items; with `plan.drops_reasoning` they are
  /// discarded. If `plan.calls` is not none, calls become call items.
  harmony_split(const output_plan& plan, call_writer calls);

  void feed(std::string_view text, output_items& out);
  /// Ends the output. An incomplete header at the end is dropped. `is_cut`: the token limit, a stop string or
  /// a cancellation has ended the output, not the model. An open call then gets no end item. Otherwise the
  /// call is ended; if it has no arguments, it gets "{}".
  void finish(bool is_cut, output_items& out);

  std::uint32_t num_calls() const noexcept { return calls_.num_calls(); }
  /// True if all output that follows is dropped.
  bool is_full() const noexcept { return calls_.is_full(); }
  /// What the byte `at` of the output belongs to. Thoughts after the answer count as answer.
  byte_owner owner_of(std::size_t at) const noexcept;
  /// Bytes at the beginning of the output that are known to be thoughts and their markers, including the
  /// markers before the message that follows.
  std::size_t reasoning_bytes() const noexcept { return reasoning_bytes_; }
  /// True until the first output that is not thoughts has begun: until then `reasoning_bytes` may grow. (Text
  /// without a header directly after thoughts continues them.) False if the plan does not separate thoughts.
  bool may_reason() const noexcept { return in_front_; }

 private:
  enum class state : std::uint8_t {
    header, ///< up to <|message|>
    text,   ///< text of thoughts or of the answer, up to the marker that ends the message
    call, ///< after the header of a call: the next character decides whether it is read as a call or as text
    argument, ///< in the JSON object of a call
    end,      ///< after the arguments of a call, up to the marker that ends the message
  };

  /// Reads as much of `held_` as possible; true if something was read and more may follow.
  bool step(output_items& out);
  bool read_header(output_items& out);
  void begin_message(const std::string& header, output_items& out);
  bool read_text(output_items& out);
  bool begin_call(output_items& out);
  bool read_argument(output_items& out);
  bool read_end(output_items& out);

  /// Number of bytes of `held_` before the first marker that ends a message. If there is none: the number of
  /// leading bytes that cannot belong to such a marker.
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
  std::string header_;   ///< header, with its markers, of a message that may turn out not to be a call
  std::string function_; ///< of the call
  std::string mark_;     ///< marker that ended the last message; it becomes text if no header follows
  value_end arguments_;
  bool in_thoughts_ = false;
  bool raw_ = false;        ///< the markers of this message are text, too
  bool new_message_ = true; ///< no text of this message was written
  bool has_thoughts_ = false;
  bool has_answer_ = false;
  bool in_front_ = true; ///< no other message than thoughts has begun
  bool has_ended_ = false;
  std::size_t num_taken_ = 0;
  std::size_t reasoning_bytes_ = 0;
  call_bytes spans_;
};

} // namespace paceline::wire
