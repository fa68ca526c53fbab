#include "runtime/grammar/token_frames.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/grammar/constraint_of.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace paceline::grammar {

namespace {

using tokens = std::span<const token_id>;

struct token_frames_terms {
  std::vector<token_frame> frames;
  std::size_t num_words = 0; ///< of a mask

  std::size_t num_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const auto& frame : frames)
      bytes += frame.lead.size() * sizeof(token_id) + frame.answer->num_bytes();
    return bytes;
  }
};

/// The output followed by the draft path.
struct text_so_far {
  tokens output, path;
  std::size_t size() const { return output.size() + path.size(); }
  token_id operator[](std::size_t i) const { return i < output.size() ? output[i] : path[i - output.size()]; }
  text_so_far behind(std::size_t count) const {
    const auto of_output = std::min(count, output.size());
    return {output.subspan(of_output), path.subspan(count - of_output)};
  }
};

/// True if `text` and the lead are equal up to the length of the shorter one.
bool agrees(const token_frame& frame, const text_so_far& text) {
  const auto count = std::min(text.size(), frame.lead.size());
  for (std::size_t i = 0; i < count; ++i)
    if (text[i] != frame.lead[i]) return false;
  return true;
}

class token_frames_cursor final : public constraint_cursor {
 public:
  explicit token_frames_cursor(std::shared_ptr<const token_frames_terms> common)
      : terms_(std::move(common)), answers_(terms_->frames.size()) {}

  std::span<const std::uint32_t> allowed(tokens output, tokens path) override {
    const text_so_far text{output, path};
    if (const auto frame = complete(text)) {
      const auto rest = text.behind(lead(*frame).size());
      return answer(*frame).allowed(rest.output, rest.path);
    }
    mask_.assign(terms_->num_words, 0);
    for (const auto& frame : terms_->frames) {
      if (agrees(frame, text)) set_bit(mask_, static_cast<std::size_t>(frame.lead[text.size()].value));
    }
    return mask_;
  }

  std::size_t num_allowed(tokens output, tokens path, tokens next) override {
    const text_so_far text{output, path};
    if (const auto frame = complete(text)) {
      const auto rest = text.behind(lead(*frame).size());
      return answer(*frame).num_allowed(rest.output, rest.path, next);
    }
    std::size_t most = 0;
    for (std::size_t i = 0; i < terms_->frames.size(); ++i) {
      if (agrees(terms_->frames[i], text)) most = std::max(most, num_allowed(i, text.size(), next));
    }
    return most;
  }

  std::optional<token_id> append_forced(tokens output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    if (const auto frame = complete({output, {}}))
      return answer(*frame).append_forced(output.subspan(lead(*frame).size()), max_tokens, out);
    std::vector<token_id> text(output.begin(), output.end());
    for (; max_tokens > 0; --max_tokens) {
      const auto next = only_next(text);
      if (!next) break;
      text.push_back(*next);
      out.push_back(*next);
    }
    return std::nullopt;
  }

  bool is_exhausted() const noexcept override {
    return std::ranges::any_of(answers_, [](const auto& one) { return one && one->is_exhausted(); });
  }

 private:
  const std::vector<token_id>& lead(std::size_t frame) const { return terms_->frames[frame].lead; }

  /// The frame whose lead is complete.
  std::optional<std::size_t> complete(const text_so_far& text) const {
    for (std::size_t i = 0; i < terms_->frames.size(); ++i)
      if (text.size() >= lead(i).size() && agrees(terms_->frames[i], text)) return i;
    return std::nullopt;
  }

  /// How many tokens of `next` may follow the first `done` tokens of the frame's lead.
  std::size_t num_allowed(std::size_t frame, std::size_t done, tokens next) {
    std::size_t count = 0;
    for (; done + count < lead(frame).size(); ++count)
      if (count == next.size() || next[count] != lead(frame)[done + count]) return count;
    return count + answer(frame).num_allowed({}, {}, next.subspan(count));
  }

  /// The token with which all leads continue. nullopt if there are several, or if a lead is complete.
  std::optional<token_id> only_next(tokens text) const {
    std::optional<token_id> next;
    for (const auto& frame : terms_->frames) {
      if (!agrees(frame, {text, {}})) continue;
      if (text.size() >= frame.lead.size()) return std::nullopt;
      const auto token = frame.lead[text.size()];
      if (next && *next != token) return std::nullopt;
      next = token;
    }
    return next;
  }

  constraint_cursor& answer(std::size_t frame) {
    auto& made = answers_[frame];
    if (!made) made = terms_->frames[frame].answer->begin();
    return *made;
  }

  std::shared_ptr<const token_frames_terms> terms_;
  std::vector<std::unique_ptr<constraint_cursor>> answers_; ///< by frame; null: not needed yet
  std::vector<std::uint32_t> mask_;                         ///< within leads
};

} // namespace

std::shared_ptr<const token_constraint> any_frame(std::vector<token_frame> frames, std::uint32_t vocab_size) {
  token_frames_terms common;
  common.frames = std::move(frames);
  common.num_words = num_mask_words(vocab_size);
  return make_constraint<token_frames_cursor>(std::move(common));
}

} // namespace paceline::grammar
