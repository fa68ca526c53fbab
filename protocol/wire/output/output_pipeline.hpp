#pragma once

#include "protocol/wire/output/byte_owner.hpp"
#include "protocol/wire/output/call_split.hpp"
#include "protocol/wire/output/harmony_split.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "protocol/wire/output/output_item.hpp"
#include "protocol/wire/output/reasoning_split.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace paceline::wire {

/// Turns the text of one choice, as the engine commits it, into the items from which all replies are written.
/// The first stage separates thoughts (reasoning_split), the second calls (call_split); an output in harmony
/// has one stage instead (harmony_split). Stop strings were applied before, because they end the generation
/// (runtime/tokenizer/text_stream.hpp). The text may arrive in pieces of any size: once adjacent items of
/// one kind are joined, the result is the same. Not thread-safe.
class output_pipeline {
 public:
  /// Separates nothing: all text is the answer.
  output_pipeline() = default;
  /// `make_id` gives the ids of calls.
  output_pipeline(const output_plan& plan, std::function<std::string()> make_id);

  output_items feed(std::string text);
  /// The output has ended: returns the items of the text that was held back. `is_cut`: the token limit, a
  /// stop string or a cancellation has ended the output, not the model.
  output_items finish(bool is_cut);

  /// True if no stage looks at the text.
  bool finds_nothing() const noexcept { return !reasoning_ && !calls_ && !harmony_; }
  std::uint32_t num_calls() const noexcept {
    return harmony_ ? harmony_->num_calls() : calls_ ? calls_->num_calls() : 0;
  }
  /// True if the last call that is allowed has ended: all output that follows is dropped.
  bool is_full() const noexcept { return harmony_ ? harmony_->is_full() : calls_ && calls_->is_full(); }
  /// What the byte `at` of the text belongs to; decided for all bytes once the output has ended.
  byte_owner owner_of(std::size_t at) const noexcept;
  /// Bytes at the beginning of the text that are known to be thoughts or their markers; used to count
  /// reasoning tokens.
  std::size_t reasoning_bytes() const noexcept {
    return harmony_ ? harmony_->reasoning_bytes() : separates_reasoning() ? reasoning_->reasoning_bytes() : 0;
  }
  /// True while `reasoning_bytes` may still grow.
  bool may_reason() const noexcept {
    return harmony_ ? harmony_->may_reason() : separates_reasoning() && reasoning_->may_reason();
  }

 private:
  bool separates_reasoning() const noexcept { return reasoning_ && !keeps_reasoning_; }
  void add(reasoning_split::parts parts, output_items& out);
  void answer(std::string text, output_items& out);
  output_items take_calls_of_thoughts();

  std::optional<reasoning_split> reasoning_;
  bool drops_reasoning_ = false;
  bool keeps_reasoning_ = false; ///< as text
  std::optional<call_split> calls_;
  std::optional<harmony_split> harmony_; ///< in place of `reasoning_` and `calls_`
  std::size_t num_fed_ = 0;
};

} // namespace paceline::wire
