#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/base/quote.hpp"

#include <algorithm>
#include <string>

namespace paceline::tokenizer {

namespace {

/// True for an entry that no text produces. Such entries fill a vocabulary up to a round size.
bool is_padding(const tokenizer& vocabulary, token_id token) {
  return vocabulary.type(token) == token_type::unused || vocabulary.spelling(token).empty() ||
         vocabulary.spelling(token) == "[PAD" + std::to_string(token.value) + "]";
}

std::string named(const tokenizer& vocabulary, std::optional<token_id> token) {
  if (!token) return "none";
  return std::to_string(token->value) + " " + quote(vocabulary.spelling(*token));
}

error differ(std::string message) {
  return error(errc::invalid_argument, "vocabularies of drafter and target differ: " + std::move(message));
}

expected<void> check_special(std::string_view what, const tokenizer& target,
                             std::optional<token_id> target_id, const tokenizer& drafter,
                             std::optional<token_id> drafter_id) {
  if (target_id == drafter_id) return {};
  return differ(std::string(what) + " is " + named(drafter, drafter_id) + " in the drafter's and " +
                named(target, target_id) + " in the target's");
}

} // namespace

expected<void> check_compatible(const tokenizer& target, const tokenizer& drafter) {
  if (target.vocabulary_hash() != drafter.vocabulary_hash()) {
    const std::size_t num_shared = std::min(target.size(), drafter.size());
    const std::size_t num_all = std::max(target.size(), drafter.size());
    const tokenizer& larger = target.size() > drafter.size() ? target : drafter;
    for (std::size_t i = 0; i < num_all; ++i) {
      const token_id token{static_cast<token_id::rep>(i)};
      if (i >= num_shared) {
        if (is_padding(larger, token)) continue;
        return differ("only the " + std::string(&larger == &target ? "target's" : "drafter's") +
                      " has token " + named(larger, token));
      }
      if (target.piece(token) == drafter.piece(token)) continue;
      if (is_padding(target, token) || is_padding(drafter, token)) continue;
      return differ("token " + std::to_string(i) + " is " + quote(drafter.spelling(token)) +
                    " in the drafter's and " + quote(target.spelling(token)) + " in the target's");
    }
  }
  if (auto same = check_special("BOS", target, target.bos(), drafter, drafter.bos()); !same) return same;
  return check_special("EOS", target, target.eos(), drafter, drafter.eos());
}

} // namespace paceline::tokenizer
