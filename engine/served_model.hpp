#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/pass_time.hpp"
#include "runtime/base/request.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

namespace tokenizer {
class tokenizer;
class chat_template;
} // namespace tokenizer
namespace model {
struct model_info;
}

/// The public view of a loaded model. Immutable; all functions are thread-safe.
class served_model {
 public:
  virtual ~served_model() = default;
  virtual const std::string& name() const noexcept = 0;
  virtual const std::vector<std::string>& aliases() const noexcept = 0;
  virtual const model::model_info& info() const noexcept = 0;
  virtual const tokenizer::tokenizer& vocabulary() const noexcept = 0;
  /// Null if neither the model file nor the configuration has one: chat requests are then refused.
  virtual const tokenizer::chat_template* chat() const noexcept = 0;
  /// The configured parsers of the model's output: `tool_call_parser`, `reasoning_parser`.
  virtual const std::string& tool_call_parser() const noexcept = 0;
  virtual const std::string& reasoning_parser() const noexcept = 0;
  /// Ids that end a generation.
  virtual const std::vector<token_id>& eos_ids() const noexcept = 0;
  /// Positions that a request may use: the smaller of the model's context length and the configured one.
  virtual std::uint32_t context_length() const noexcept = 0;
  /// Names of the drafters a request may choose, "none" first.
  virtual const std::vector<std::string>& drafters() const noexcept = 0;
  /// For each of `drafters()`: the levels that it drafts in a round if the request names no draft length. For
  /// "auto": the maximum.
  virtual const std::vector<std::uint32_t>& draft_lengths() const noexcept = 0;
  /// The configured verification rule. The caller puts it into requests that name none:
  /// `engine::submit` does not apply it.
  virtual verification_rule default_rule() const noexcept = 0;
  /// Requests that may run or wait at the same time; further ones end with errc::queue_full.
  virtual std::uint32_t max_requests() const noexcept = 0;
  /// Times of target passes, measured when the model was loaded, in ascending order of rows; empty if they
  /// were not measured.
  virtual const std::vector<pass_time>& pass_times() const noexcept = 0;
  /// One line of text about the parts of the model's files that are not used; empty if there are none.
  virtual const std::string& unused_parts() const noexcept = 0;
  /// If memory for recurrent states limits the drafts: a text that says how far, and which option leaves more
  /// memory for each request. Otherwise empty.
  virtual const std::string& shortage() const noexcept = 0;
};

} // namespace paceline
