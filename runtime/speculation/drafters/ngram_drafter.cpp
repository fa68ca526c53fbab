#include "runtime/speculation/drafters/ngram_drafter.hpp"

#include "runtime/base/check.hpp"
#include "runtime/speculation/drafters/ngram_index.hpp"

#include <algorithm>
#include <bit>

namespace paceline::speculation {

namespace {

constexpr std::uint32_t longest_ngram = 32;
constexpr std::size_t longest_signal = 64;
/// Tokens indexed a call and session (about half a millisecond): a long prompt is learnt over several rounds.
constexpr std::size_t max_catch_up = 4096;

struct ngram_session final : drafter_session {
  explicit ngram_session(const ngram_index& empty) : index(empty) {}
  ngram_index index;
};

class ngram_drafter final : public drafter {
 public:
  explicit ngram_drafter(const config::drafter_options& options)
      : empty_(options.ngram_min, options.ngram_max) {
    traits_.name = options.name;
    traits_.default_draft_length = options.draft_length;
  }

  const drafter_traits& traits() const noexcept override { return traits_; }

  std::unique_ptr<drafter_session> open(request_id) override {
    return std::make_unique<ngram_session>(empty_);
  }

  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (draft_task& task : tasks) task.result = propose_one(task);
  }

 private:
  static draft propose_one(const draft_task& task) {
    auto* const session = dynamic_cast<ngram_session*>(task.session);
    PACELINE_CHECK(session != nullptr, "an ngram drafter needs a session of its own");
    const std::span<const token_id> text = task.tokens;
    draft result{.base_length = static_cast<std::uint32_t>(text.size())};
    if (!session->index.extend(text, max_catch_up)) return result;
    const auto start = session->index.continuation(text);
    if (!start) return result;
    // Where the earlier occurrence runs into the end of the text, the text repeats with that period: the
    // draft goes on reading from its own beginning.
    const std::uint32_t length = std::min(task.draft_length, token_tree::max_nodes);
    const std::uint8_t signal = signal_of(match_length(text, *start));
    std::int32_t node = token_tree::root;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t at = *start + i;
      node = result.tree.add(at < text.size() ? text[at] : result.tree.tokens()[at - text.size()], node);
      result.signals.push_back(signal);
    }
    return result;
  }

  /// Tokens before `start` that are the text's last ones: the longer, the surer.
  static std::size_t match_length(std::span<const token_id> text, std::size_t start) {
    std::size_t length = 0;
    while (length < start && length < longest_signal && text[start - 1 - length] == text[text.size() - 1 - length])
      ++length;
    return length;
  }
  static std::uint8_t signal_of(std::size_t length) { return static_cast<std::uint8_t>(std::bit_width(length)); }

  drafter_traits traits_;
  ngram_index empty_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_ngram_drafter(const drafter_parts& parts) {
  const auto& options = parts.options;
  const std::string name = "drafter \"" + options.name + "\": ";
  if (options.ngram_min < 1 || options.ngram_min > longest_ngram)
    return error{errc::invalid_argument,
                 name + "ngram_min = " + std::to_string(options.ngram_min) + ", must be 1 to 32"};
  if (options.ngram_max < options.ngram_min || options.ngram_max > longest_ngram)
    return error{errc::invalid_argument,
                 name + "ngram_max = " + std::to_string(options.ngram_max) + ", must be ngram_min to 32"};
  return std::unique_ptr<drafter>(std::make_unique<ngram_drafter>(options));
}

} // namespace paceline::speculation
