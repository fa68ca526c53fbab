#include "server/sessions/stop_finder.hpp"

#include <algorithm>

namespace paceline::server {

stop_finder::stop_finder(const stop_params& stop, const model_view& model, bool skips_special)
    : strings_(stop.stop_strings), model_(&model), skips_special_(skips_special) {
  if (!strings_.empty()) decoder_ = model.decoder();
  for (const auto& text : strings_) longest_ = std::max(longest_, text.size());
}

void stop_finder::read(const token_event& event) {
  if (strings_.empty()) return;
  for (const auto token : event.tokens) {
    last_bytes_ = 0;
    if (skips_special_ && model_->is_special(token)) continue;
    const auto text = decoder_->feed(token);
    last_bytes_ = text.size();
    tail_ += text;
    const auto enough = longest_ + last_bytes_;
    if (tail_.size() > 4096 + enough) tail_.erase(0, tail_.size() - enough);
  }
}

std::string stop_finder::found() const {
  const auto before = tail_.size() - last_bytes_; // a string that ends here was no end
  std::size_t best_end = std::string::npos;
  std::string best;
  for (const auto& text : strings_) {
    const auto from = before + 1 > text.size() ? before + 1 - text.size() : 0;
    const auto at = tail_.find(text, from);
    if (at == std::string::npos) continue;
    const auto end = at + text.size();
    if (end < best_end || (end == best_end && text.size() > best.size())) {
      best_end = end;
      best = text;
    }
  }
  return best;
}

} // namespace paceline::server
