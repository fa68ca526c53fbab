#include "runtime/speculation/drafters/copy_drafter.hpp"

#include "runtime/speculation/drafters/catch_up.hpp"
#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/ngram_index.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"
#include "runtime/speculation/drafters/prediction_drafter.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

constexpr std::size_t max_places = 64;
constexpr std::uint32_t longest_run = 16;

struct copy_session final : drafter_session {
  ngram_index index{{1, 2, 4, 8, 16}}; ///< of the prompt
  prediction_cursor cursor;
};

class copy_drafter final : public host_drafter<copy_session> {
 public:
  explicit copy_drafter(const config::drafter_options& options) : host_drafter(options) {}

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<copy_session>(); }

 private:
  void draft_one(const draft_task& task, copy_session& session, draft& result) override {
    const auto prompt = task.tokens.first(std::min<std::size_t>(task.prompt_length, task.tokens.size()));
    const auto output = task.tokens.subspan(prompt.size());
    if (output.empty()) return; // no token shows yet which part of the prompt the output copies
    session.cursor.follow(prompt, output.first(output.size() - num_unsettled(task)));
    prediction_cursor cursor = session.cursor;
    cursor.follow(prompt, output);
    if (cursor.num_agreed() == 0) {
      session.index.extend(prompt, max_catch_up);
      std::vector<occurrence> places;
      session.index.find(prompt, output, max_places, longest_run, places);
      if (places.empty()) return;
      cursor.find_again(prompt, places);
    }
    if (num_unsettled(task) == 0) session.cursor = cursor; // otherwise the next text may differ from this one
    if (cursor.place()) add_path(result.tree, prompt.subspan(*cursor.place()), chain_length(task));
  }
};

} // namespace

expected<std::unique_ptr<drafter>> make_copy_drafter(const drafter_parts& parts) {
  return std::unique_ptr<drafter>(std::make_unique<copy_drafter>(parts.options));
}

} // namespace paceline::speculation
