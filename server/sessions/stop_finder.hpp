#pragma once

#include "runtime/base/token_event.hpp"
#include "server/backend.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace paceline::server {

/// Finds which stop string ended a generation. The engine tells that it stopped, not why, and the text ends
/// before the string; its tokens are in the events, and are decoded here as the engine decodes them.
class stop_finder {
 public:
  stop_finder() = default;
  /// `skips_special`: the text has no special tokens. `model` must outlive the finder.
  stop_finder(const stop_params& stop, const model_view& model, bool skips_special);

  void read(const token_event& event);
  /// The string that ends within the text of the last token; the first to end, and of these the longest.
  /// Empty if there is none. To be asked if the generation ended with `finish_reason::stop`.
  std::string found() const;

 private:
  std::vector<std::string> strings_;
  std::size_t longest_ = 0;
  const model_view* model_ = nullptr;
  std::unique_ptr<text_decoder> decoder_; ///< null without strings
  bool skips_special_ = true;
  std::string tail_;           ///< the end of the text, long enough for any of the strings
  std::size_t last_bytes_ = 0; ///< of the text that the last token completed
};

} // namespace paceline::server
