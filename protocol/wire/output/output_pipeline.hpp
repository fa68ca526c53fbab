#pragma once

#include "protocol/wire/output/call_split.hpp"
#include "protocol/wire/output/harmony_split.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "protocol/wire/output/output_item.hpp"
#include "protocol/wire/output/reasoning_split.hpp"

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
  /// The output has ended: returns the text that was held back. `is_cut`: the output stopped for another
  /// reason than `finish_reason::stop`.
  output_items finish(bool is_cut);

  /// True if no stage looks at the text.
  bool finds_nothing() const noexcept { return !reasoning_ && !calls_ && !harmony_; }
  std::uint32_t num_calls() const noexcept {
    return harmony_ ? harmony_->num_calls() : calls_ ? calls_->num_calls() : 0;
  }
  /// Bytes at the beginning of the text that are known to be thoughts or their markers; used to count
  /// reasoning tokens.
  std::size_t reasoning_bytes() const noexcept {
    return harmony_ ? harmony_->reasoning_bytes() : reasoning_ ? reasoning_->reasoning_bytes() : 0;
  }
  bool may_reason() const noexcept {
    return harmony_ ? harmony_->may_reason() : reasoning_ && reasoning_->may_reason();
  }

 private:
  void add(reasoning_split::parts parts, output_items& out);
  void answer(std::string text, output_items& out);

  std::optional<reasoning_split> reasoning_;
  bool drops_reasoning_ = false;
  std::optional<call_split> calls_;
  std::optional<harmony_split> harmony_; ///< in place of the others
};

} // namespace paceline::wire
