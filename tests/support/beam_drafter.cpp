#include "tests/support/beam_drafter.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <utility>

namespace paceline::test {

namespace {

using speculation::draft_task;
using speculation::token_tree;

class beam_drafter final : public speculation::drafter {
 public:
  beam_drafter(std::string name, std::shared_ptr<const known_searches> known, std::uint32_t vocab_size,
               std::function<bool(std::size_t)> wrong)
      : known_(std::move(known)), vocab_size_(vocab_size), wrong_(std::move(wrong)) {
    traits_.name = std::move(name);
  }

  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<speculation::drafter_session>();
  }
  std::uint32_t max_nodes(std::uint32_t) const noexcept override { return token_tree::max_nodes; }

  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (draft_task& task : tasks) {
      PACELINE_CHECK(task.target_cells.scattered.empty(), "it reads nothing of the target");
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      const auto search = known_->find(task.request);
      if (search != known_->end()) draft_one(task, search->second, task.result.tree);
    }
  }

 private:
  void draft_one(const draft_task& task, const reference_beams& search, token_tree& tree) const {
    const auto output = task.tokens.subspan(task.prompt_length);
    std::vector<std::pair<std::vector<token_id>, std::int32_t>> level{
        {{output.begin(), output.end()}, token_tree::root}};
    for (std::uint32_t depth = 0; depth < task.draft_length; ++depth) {
      const std::size_t step = output.size() + depth;
      if (step >= search.lived.size()) return;
      const bool wrong = wrong_(step);
      decltype(level) next;
      for (const auto& [path, node] : level)
        for (auto& longer :
             wrong ? contradictions(path, search.lived[step]) : continuations(path, search.lived[step])) {
          if (tree.size() == task.max_nodes) return;
          const auto token = longer.back();
          next.emplace_back(std::move(longer), tree.add(token, node));
        }
      if (wrong) return;
      level = std::move(next);
    }
  }

  static std::vector<std::vector<token_id>> continuations(const std::vector<token_id>& path,
                                                          const std::vector<std::vector<token_id>>& lived) {
    std::vector<std::vector<token_id>> found;
    for (const auto& one : lived)
      if (std::equal(path.begin(), path.end(), one.begin())) found.push_back(one);
    return found;
  }

  std::vector<std::vector<token_id>> contradictions(const std::vector<token_id>& path,
                                                    const std::vector<std::vector<token_id>>& lived) const {
    for (std::uint32_t v = 0; v < vocab_size_; ++v) {
      auto longer = path;
      longer.push_back(token_id{static_cast<std::int32_t>(v)});
      if (std::ranges::find(lived, longer) == lived.end()) return {longer};
    }
    return {};
  }

  std::shared_ptr<const known_searches> known_;
  std::uint32_t vocab_size_;
  std::function<bool(std::size_t)> wrong_;
  speculation::drafter_traits traits_;
};

} // namespace

std::unique_ptr<speculation::drafter> make_beam_drafter(std::string name,
                                                        std::shared_ptr<const known_searches> known,
                                                        std::uint32_t vocab_size,
                                                        std::function<bool(std::size_t)> wrong) {
  return std::make_unique<beam_drafter>(std::move(name), std::move(known), vocab_size, std::move(wrong));
}

} // namespace paceline::test
