#include "runtime/tokenizer/text_stream.hpp"

#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <utility>

namespace paceline::tokenizer {

stop_matcher::stop_matcher(const std::vector<std::string>& strings) {
  for (const auto& text : strings) {
    if (text.empty()) continue;
    pattern p{text, std::vector<std::uint32_t>(text.size() + 1, 0)};
    std::uint32_t border = 0;
    for (std::size_t n = 1; n < text.size(); ++n) {
      while (border > 0 && text[n] != text[border]) border = p.fallback[border];
      if (text[n] == text[border]) ++border;
      p.fallback[n + 1] = border;
    }
    patterns_.push_back(std::move(p));
  }
}

std::optional<std::size_t> stop_matcher::feed(char byte) noexcept {
  std::size_t longest = 0;
  for (auto& p : patterns_) {
    if (p.matched == p.text.size()) p.matched = p.fallback[p.matched];
    while (p.matched > 0 && p.text[p.matched] != byte) p.matched = p.fallback[p.matched];
    if (p.text[p.matched] == byte) ++p.matched;
    if (p.matched == p.text.size()) longest = std::max(longest, p.text.size());
  }
  return longest == 0 ? std::nullopt : std::optional(longest);
}

std::size_t stop_matcher::num_undecided_bytes() const noexcept {
  std::size_t longest = 0;
  for (const auto& p : patterns_) longest = std::max<std::size_t>(longest, p.matched);
  return longest;
}

text_stream::text_stream(tokenizer vocabulary, const std::vector<std::string>& stop_strings,
                         bool include_stop_string, decode_options options)
    : decoder_(std::move(vocabulary), options), matcher_(stop_strings),
      include_stop_string_(include_stop_string) {}

stream_text text_stream::finish() {
  stream_text last = release(decoder_.flush(), true);
  if (!stopped_) last.text += std::exchange(held_, {});
  return last;
}

stream_text text_stream::release(std::string_view decoded, bool may_stop) {
  if (stopped_) return {};
  for (const char byte : decoded) {
    held_.push_back(byte);
    const auto stop_bytes = matcher_.feed(byte);
    if (!stop_bytes || !may_stop) continue;
    stopped_ = true;
    std::string text = std::exchange(held_, {});
    std::string stop = text.substr(text.size() - *stop_bytes);
    if (!include_stop_string_) text.resize(text.size() - *stop_bytes);
    return {std::move(text), std::move(stop)};
  }
  std::size_t end = held_.size() - matcher_.num_undecided_bytes();
  while (end > 0 && end < held_.size() && is_utf8_continuation(held_[end])) --end;
  stream_text out{held_.substr(0, end), std::nullopt};
  held_.erase(0, end);
  return out;
}

} // namespace paceline::tokenizer
