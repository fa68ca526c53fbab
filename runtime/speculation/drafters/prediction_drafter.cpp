#include "runtime/speculation/drafters/prediction_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/ngram_index.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>
#include <bit>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_places = 64;
/// Longest match that is compared to find the position; a single token is no evidence.
constexpr std::uint32_t longest_run = 32;
/// The draft length while little has agreed: at the start, or at a position that was just found again.
constexpr std::size_t first_levels = 4;
constexpr std::size_t levels_per_agreed = 4;
/// Signals while nothing has agreed: at the start, and for the attempt after the output has diverged.
constexpr std::uint8_t signal_at_start = 4, signal_of_a_try = 1;

struct prediction_session final : drafter_session {
  ngram_index index{{2, 4, 8, 16, 32}}; ///< of the prediction; built when the position was lost
  prediction_cursor cursor;
};

class prediction_drafter final : public host_drafter<prediction_session> {
 public:
  explicit prediction_drafter(const config::drafter_options& options) : host_drafter(options) {}

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<prediction_session>();
  }

 private:
  void draft_one(const draft_task& task, prediction_session& session, draft& result) override {
    const auto prediction = task.prediction;
    if (prediction.empty()) return;
    const auto output = task.output();
    session.cursor.follow(prediction, output.first(output.size() - num_unsettled(task)));
    prediction_cursor cursor = session.cursor;
    cursor.follow(prediction, output);
    if (!cursor.place() || (cursor.num_agreed() == 0 && !output.empty())) {
      session.index.extend(prediction, max_catch_up);
      std::vector<occurrence> places;
      session.index.find(prediction, output, max_places, longest_run, places);
      cursor.find_again(prediction, places);
    }
    if (num_unsettled(task) == 0) session.cursor = cursor; // otherwise the next text may differ from this one
    if (!cursor.place()) return;
    const auto rest = prediction.subspan(*cursor.place());
    const std::size_t trusted = std::max(first_levels, levels_per_agreed * cursor.num_agreed());
    add_path(result.tree, rest.first(std::min<std::size_t>({rest.size(), trusted, task.draft_length})),
             chain_length(task));
    result.signals.assign(result.tree.size(), signal_of(cursor.num_agreed(), output.empty()));
  }

  /// Longer agreement gives a higher score.
  static std::uint8_t signal_of(std::size_t num_agreed, bool at_start) {
    if (num_agreed == 0) return at_start ? signal_at_start : signal_of_a_try;
    return static_cast<std::uint8_t>(
        std::min<std::size_t>(signal_at_start - 1 + std::bit_width(num_agreed), 7));
  }
};

} // namespace

void prediction_cursor::follow(std::span<const token_id> prediction, std::span<const token_id> output) {
  for (; num_followed_ < output.size(); ++num_followed_) {
    if (place_ && *place_ < prediction.size() && prediction[*place_] == output[num_followed_]) {
      ++*place_;
      ++num_agreed_;
      guessed_ = false;
      continue;
    }
    const bool was_sure = place_ && !guessed_;
    num_agreed_ = 0;
    if (was_sure) { // the output may differ in one token, so one attempt is made
      lost_at_ = *place_;
      place_ = std::min(*place_ + 1, prediction.size());
      guessed_ = true;
    } else {
      place_.reset();
      guessed_ = false;
    }
  }
}

void prediction_cursor::find_again(std::span<const token_id> prediction, std::span<const occurrence> found) {
  if (found.empty()) return;
  // Edits move forward. Among equally good positions the nearest one after the divergence is taken, otherwise
  // the nearest one before it.
  const auto distance = [&](const occurrence& at) {
    return at.next >= lost_at_ ? at.next - lost_at_ : prediction.size() + (lost_at_ - at.next);
  };
  const occurrence* best = &found.front();
  for (const occurrence& at : found)
    if (at.length > best->length || (at.length == best->length && distance(at) < distance(*best))) best = &at;
  place_ = best->next;
  num_agreed_ = best->length;
  guessed_ = false;
}

expected<std::unique_ptr<drafter>> make_prediction_drafter(const drafter_parts& parts) {
  return std::unique_ptr<drafter>(std::make_unique<prediction_drafter>(parts.options));
}

} // namespace paceline::speculation
