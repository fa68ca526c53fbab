#include "protocol/wire/response_output.hpp"

#include "protocol/wire/json_writer.hpp"
#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace paceline::wire {

namespace {

constexpr std::size_t text_step = 4U << 10U; ///< bytes of text escaped at a time
constexpr std::size_t tokens_a_step = 64;

} // namespace

/// Generates the other text and the output in turn. Each step appends a small part to the next piece.
class output_json::source final : public text_source {
 public:
  source(const output_json& from, std::string before, std::string after)
      : words_(std::move(before)), marks_(from.marks_), parts_(from.parts_), echo_(from.echo_) {
    for (auto& mark : marks_) mark.position += words_.size();
    words_.append(from.words_).append(after);
  }

  std::string next(std::size_t num_bytes) override {
    while (!at_end() && out_.size() < num_bytes) step();
    return std::exchange(out_, {});
  }
  bool at_end() const noexcept override { return position_ == words_.size() && next_mark_ == marks_.size(); }
  std::size_t num_bytes() const noexcept override { return words_.size() + out_.size(); }
  std::vector<shared_part> shared() const override {
    std::vector<shared_part> parts;
    for (const auto* part : parts_) parts.push_back({part, part->num_bytes()});
    if (echo_) parts.push_back({echo_.get(), echo_->num_bytes()});
    return parts;
  }

 private:
  void step() {
    const bool all_marked = next_mark_ == marks_.size();
    const auto end = all_marked ? words_.size() : marks_[next_mark_].position;
    if (position_ < end) {
      const auto count = std::min(end - position_, text_step);
      out_.append(words_, position_, count);
      position_ += count;
      return;
    }
    bool done = true;
    const auto& part = marks_[next_mark_].part;
    switch (marks_[next_mark_].what) {
    case content::text:
      done = step_text(part->text);
      break;
    case content::scores:
      done = step_scores(*part);
      break;
    case content::tokens:
      done = step_tokens(part->tokens);
      break;
    case content::instructions:
      done = step_text(echo_->instructions);
      break;
    case content::tools:
      done = step_json(echo_->tools);
      break;
    case content::text_format:
      done = step_json(echo_->text_format);
      break;
    }
    if (!done) return;
    ++next_mark_;
    at_ = 0;
  }

  /// Steps end at whole characters, because a part of a character would be written as an invalid one.
  bool step_text(std::string_view text) {
    auto end = std::min(at_ + text_step, text.size());
    while (end < text.size() && end > at_ + text_step - 4 && is_utf8_continuation(text[end])) --end;
    if (at_ == 0) out_ += '"';
    append_escaped(out_, text.substr(at_, end - at_));
    at_ = end;
    if (at_ < text.size()) return false;
    out_ += '"';
    return true;
  }

  bool step_json(std::string_view json) {
    const auto piece = json.substr(at_, text_step);
    out_ += piece;
    at_ += piece.size();
    return at_ == json.size();
  }

  bool step_scores(const response_part& part) {
    if (!scores_) {
      scores_.emplace(part.scores);
      writer_ = {};
      writer_.begin_array();
    }
    const bool done = scores_->at_end();
    if (done) {
      writer_.end_array();
      scores_.reset();
    } else {
      write_token_score(writer_, scores_->next(part.spell));
    }
    out_ += writer_.take();
    return done;
  }

  bool step_tokens(const std::vector<token_id>& tokens) {
    if (at_ == 0) out_ += '[';
    const auto end = std::min(at_ + tokens_a_step, tokens.size());
    for (; at_ < end; ++at_) out_.append(at_ == 0 ? "" : ",").append(std::to_string(tokens[at_].value));
    if (at_ < tokens.size()) return false;
    out_ += ']';
    return true;
  }

  std::string words_;
  std::vector<mark> marks_;
  std::vector<const response_part*> parts_; // which the marks keep alive
  std::shared_ptr<const response_echo> echo_;
  std::string out_;           ///< generated, but not returned yet
  std::size_t position_ = 0;  ///< position in the other text
  std::size_t next_mark_ = 0; ///< the mark whose content follows the text before it
  std::size_t at_ = 0;        ///< position in that content
  std::optional<score_log::reader> scores_;
  json_writer writer_;
};

output_json::output_json(std::string words, std::vector<mark> marks,
                         const std::shared_ptr<const response_echo>& echo)
    : words_(std::move(words)), marks_(std::move(marks)) {
  for (const auto& one : marks_) {
    if (!one.part)
      echo_ = echo;
    else if (std::find(parts_.begin(), parts_.end(), one.part.get()) == parts_.end())
      parts_.push_back(one.part.get());
  }
}

std::string output_json::text() const { return open()->next(static_cast<std::size_t>(-1)); }

std::unique_ptr<text_source> output_json::open(std::string before, std::string after) const {
  return std::make_unique<source>(*this, std::move(before), std::move(after));
}

} // namespace paceline::wire
