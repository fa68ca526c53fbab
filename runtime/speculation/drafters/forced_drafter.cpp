#include "runtime/speculation/drafters/forced_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

namespace {

/// Signals of nodes. A token may be forced, or the beginning of its text may be forced. Otherwise it was
/// copied from a place after two equal tokens, or after one.
constexpr std::uint8_t forced_signal = 7, partly_forced_signal = 6, copied_twice_signal = 5,
                       copied_signal = 4;
constexpr std::uint32_t most_guesses = 3; ///< in a row

struct guess {
  token_id token;
  std::uint8_t signal = 0;
};

/// The token after the last place where the last two tokens of `text` stood. If there is none, the token
/// after the last place of the last one.
std::optional<guess> last_successor(std::span<const token_id> text) {
  constexpr std::size_t most_looks = 1024;
  const std::size_t end = text.size() - 1; // position of the last token
  std::optional<std::size_t> found;
  for (std::size_t i = end; i-- > end - std::min(end, most_looks);) {
    if (text[i] != text[end]) continue;
    if (i > 0 && text[i - 1] == text[end - 1]) return guess{text[i + 1], copied_twice_signal};
    if (!found) found = i;
  }
  if (!found) return std::nullopt;
  return guess{text[*found + 1], copied_signal};
}

struct forced_session final : drafter_session {};

class forced_drafter final : public host_drafter<forced_session> {
 public:
  explicit forced_drafter(const config::drafter_options& options) : host_drafter(options) {
    traits_.first_acceptance[forced_signal] = 0.99F;
    traits_.first_acceptance[partly_forced_signal] = 0.7F;
    traits_.first_acceptance[copied_twice_signal] = 0.6F;
    traits_.first_acceptance[copied_signal] = 0.3F;
  }

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<forced_session>(); }

 private:
  void draft_one(const draft_task& task, forced_session&, draft& result) override {
    if (task.constraint == nullptr) return;
    const std::size_t begin = task.tokens.size(), most = begin + chain_length(task);
    const std::size_t begin_of_output = begin - task.output().size();
    std::vector<token_id> text(task.tokens.begin(), task.tokens.end());
    std::vector<std::uint8_t> signals;
    const auto output = [&] { return std::span<const token_id>(text).subspan(begin_of_output); };
    std::uint32_t num_guesses = 0;
    while (text.size() < most) {
      std::vector<token_id> forced;
      const auto partly = task.constraint->append_forced(output(), most - text.size(), forced);
      text.insert(text.end(), forced.begin(), forced.end());
      signals.resize(text.size() - begin, forced_signal);
      if (!forced.empty()) num_guesses = 0;
      if (text.size() == most || num_guesses++ == most_guesses) break;
      const auto next = partly ? std::optional(guess{*partly, partly_forced_signal}) : last_successor(text);
      if (!next || task.constraint->num_allowed(output(), {}, {&next->token, 1}) == 0) break;
      text.push_back(next->token);
      signals.push_back(next->signal);
    }
    if (std::ranges::find(signals, forced_signal) == signals.end()) return;
    add_path(result.tree, std::span<const token_id>(text).subspan(begin), chain_length(task));
    result.signals = std::move(signals);
    result.signals.resize(result.tree.size());
  }
};

} // namespace

expected<std::unique_ptr<drafter>> make_forced_drafter(const drafter_parts& parts) {
  return std::unique_ptr<drafter>(std::make_unique<forced_drafter>(parts.options));
}

} // namespace paceline::speculation
