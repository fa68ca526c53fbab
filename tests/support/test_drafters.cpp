#include "tests/support/test_drafters.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <utility>

namespace paceline::test {

namespace {

using speculation::draft_task;
using speculation::drafter;
using speculation::drafter_session;
using speculation::drafter_traits;
using speculation::token_tree;

constexpr token_id no_token{-1};

/// Session of a drafter without state.
struct empty_session final : drafter_session {
  std::unique_ptr<drafter_session> clone() const override { return std::make_unique<empty_session>(); }
};

/// The common part of these drafters: a name, an empty session, one task at a time.
class simple_drafter : public drafter {
 public:
  explicit simple_drafter(std::string name) { traits_.name = std::move(name); }

  const drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<empty_session>(); }
  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (draft_task& task : tasks) {
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      draft_one(task, task.result.tree);
    }
  }

 protected:
  drafter_traits traits_;

 private:
  virtual void draft_one(const draft_task& task, token_tree& tree) = 0;
};

class scripted_drafter final : public simple_drafter {
 public:
  scripted_drafter(std::string name, next_token next)
      : simple_drafter(std::move(name)), next_(std::move(next)) {}

 private:
  void draft_one(const draft_task& task, token_tree& tree) override {
    while (tree.size() < task.draft_length) {
      const token_id token = next_(task, tree.tokens());
      if (token.value < 0) return;
      tree.add(token, static_cast<std::int32_t>(tree.size()) - 1);
    }
  }

  next_token next_;
};

class tree_drafter final : public simple_drafter {
 public:
  tree_drafter(std::string name, next_token next, std::uint32_t width, std::uint32_t vocab_size,
               std::shared_ptr<std::uint64_t> num_wanted)
      : simple_drafter(std::move(name)), next_(std::move(next)), width_(width), vocab_size_(vocab_size),
        num_wanted_(std::move(num_wanted)) {}

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    return std::min(draft_length * width_, token_tree::max_nodes);
  }

 private:
  void draft_one(const draft_task& task, token_tree& tree) override {
    std::vector<token_id> path;
    std::int32_t parent = token_tree::root;
    *num_wanted_ += max_nodes(task.draft_length);
    for (std::uint32_t depth = 0; depth < task.draft_length; ++depth) {
      const token_id best = next_(task, path);
      if (best.value < 0) return;
      std::int32_t node = parent;
      for (std::uint32_t i = width_; i-- > 0;) { // the others differ from it and from each other
        if (tree.size() == task.max_nodes) return;
        node = tree.add(
            token_id{static_cast<std::int32_t>((static_cast<std::uint32_t>(best.value) + i) % vocab_size_)},
            parent);
      }
      parent = node;
      path.push_back(best);
    }
  }

  next_token next_;
  std::uint32_t width_;
  std::uint32_t vocab_size_;
  std::shared_ptr<std::uint64_t> num_wanted_;
};

class twin_drafter final : public simple_drafter {
 public:
  twin_drafter(std::string name, next_token next, std::uint32_t vocab_size)
      : simple_drafter(std::move(name)), next_(std::move(next)), vocab_size_(vocab_size) {}

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    return std::min(draft_length * 3, token_tree::max_nodes);
  }

 private:
  void draft_one(const draft_task& task, token_tree& tree) override {
    std::vector<token_id> path;
    std::int32_t parent = token_tree::root;
    for (std::uint32_t depth = 0; depth < task.draft_length && tree.size() + 3 <= task.max_nodes; ++depth) {
      const token_id best = next_(task, path);
      const auto other =
          static_cast<std::int32_t>((static_cast<std::uint32_t>(best.value) + 1) % vocab_size_);
      tree.add(token_id{other}, parent);
      const std::int32_t first = tree.add(best, parent);
      const std::int32_t second = tree.add(best, parent);
      parent = depth % 2 == 0 ? second : first;
      path.push_back(best);
    }
  }

  next_token next_;
  std::uint32_t vocab_size_;
};

class feature_drafter final : public simple_drafter {
 public:
  feature_drafter(std::string name, std::shared_ptr<const model::hash_model> target)
      : simple_drafter(std::move(name)), target_(std::move(target)) {
    traits_.taps = {layer_index{target_->info().num_layers}};
  }

 private:
  void draft_one(const draft_task& task, token_tree& tree) override {
    const auto* const features = task.target_cells.features();
    const auto known = static_cast<std::uint32_t>(task.tokens.size()) - 1; // the newest token has none yet
    if (features == nullptr || task.target_cells.num_computed() < known || known == 0) return;
    const std::size_t place = features->place_of(traits_.taps.front()) * features->hidden_size;
    const float* const last =
        features->values + task.target_cells.cell_at(known - 1) * features->width() + place;
    std::vector<float> state(last, last + features->hidden_size);
    token_id token = task.tokens.back();
    const auto committed = static_cast<std::uint32_t>(task.tokens.size());
    while (tree.size() < task.draft_length) {
      const token_position next{committed + tree.size()};
      state = target_->next_state(state, token, token_position{next.value - 1});
      std::vector<float> logits = target_->logits_of_state(state);
      token = task.sampling->process_and_sample(logits, {.committed = task.counts,
                                                         .draft_path = tree.tokens(),
                                                         .position = next,
                                                         .output_index = next.value - task.prompt_length});
      tree.add(token, static_cast<std::int32_t>(tree.size()) - 1);
    }
  }

  std::shared_ptr<const model::hash_model> target_;
};

} // namespace

config::drafter_options options_of(std::string name, std::string kind) {
  config::drafter_options options;
  options.name = std::move(name);
  options.kind = std::move(kind);
  return options;
}

std::unique_ptr<drafter> make_scripted_drafter(std::string name, next_token next) {
  return std::make_unique<scripted_drafter>(std::move(name), std::move(next));
}

next_token own_sample(std::function<std::vector<float>(std::span<const token_id>)> logits_after) {
  return [logits_after = std::move(logits_after)](const draft_task& task, std::span<const token_id> path) {
    std::vector<token_id> context(task.tokens.begin(), task.tokens.end());
    context.insert(context.end(), path.begin(), path.end());
    std::vector<float> logits = logits_after(context);
    const auto length = static_cast<std::uint32_t>(context.size());
    return task.sampling->process_and_sample(logits, {.committed = task.counts,
                                                      .draft_path = path,
                                                      .position = token_position{length},
                                                      .output_index = length - task.prompt_length});
  };
}

next_token recite(std::map<request_id, std::vector<token_id>> references) {
  return [references = std::move(references)](const draft_task& task, std::span<const token_id> path) {
    const auto reference = references.find(task.request);
    const std::size_t at = task.tokens.size() + path.size();
    return reference == references.end() || at >= reference->second.size() ? no_token : reference->second[at];
  };
}

next_token contradict(next_token right, std::uint32_t vocab_size) {
  return [right = std::move(right), vocab_size](const draft_task& task, std::span<const token_id> path) {
    const token_id token = right(task, path);
    return token.value < 0 ? token_id{0}
                           : token_id{static_cast<std::int32_t>(
                                 (static_cast<std::uint32_t>(token.value) + 1) % vocab_size)};
  };
}

next_token guess(std::uint32_t vocab_size, std::uint64_t seed) {
  return [=](const draft_task& task, std::span<const token_id> path) {
    const noise_stream noise{.seed = seed + task.request.value,
                             .position =
                                 token_position{static_cast<std::uint32_t>(task.tokens.size() + path.size())},
                             .purpose = noise_purpose::fault};
    return token_id{static_cast<std::int32_t>(noise.words(0)[0] % vocab_size)};
  };
}

std::unique_ptr<drafter> make_twin_drafter(std::string name, next_token next, std::uint32_t vocab_size) {
  return std::make_unique<twin_drafter>(std::move(name), std::move(next), vocab_size);
}

std::unique_ptr<drafter> make_feature_drafter(std::string name,
                                              std::shared_ptr<const model::hash_model> target) {
  return std::make_unique<feature_drafter>(std::move(name), std::move(target));
}

std::unique_ptr<drafter> make_tree_drafter(std::string name, next_token next, std::uint32_t width,
                                           std::uint32_t vocab_size,
                                           std::shared_ptr<std::uint64_t> num_wanted) {
  PACELINE_CHECK(width >= 1 && width <= vocab_size, "siblings must differ");
  return std::make_unique<tree_drafter>(std::move(name), std::move(next), width, vocab_size,
                                        std::move(num_wanted));
}

} // namespace paceline::test
