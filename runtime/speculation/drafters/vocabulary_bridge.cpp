#include "runtime/speculation/drafters/vocabulary_bridge.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace paceline::speculation {

namespace {

constexpr std::int32_t none = -1;
/// Tokens at the end of a text that are split anew when it goes on.
constexpr std::size_t look_behind = 8;
constexpr tokenizer::encode_options plain{.add_special = false, .parse_special = false};

bool is_text(const tokenizer::tokenizer& vocabulary, token_id token) {
  return !vocabulary.is_special(token) && vocabulary.type(token) != tokenizer::token_type::unused &&
         !vocabulary.piece(token).empty();
}

} // namespace

expected<std::shared_ptr<const vocabulary_bridge>>
vocabulary_bridge::make(method how, std::shared_ptr<const tokenizer::tokenizer> own,
                        std::shared_ptr<const tokenizer::tokenizer> target, std::uint32_t own_vocab_size,
                        std::uint32_t target_vocab_size) {
  PACELINE_CHECK(own != nullptr && target != nullptr, "a bridge needs both vocabularies");
  std::shared_ptr<vocabulary_bridge> made(new vocabulary_bridge);
  made->how_ = how;
  made->own_ = std::move(own);
  made->target_ = std::move(target);
  made->own_vocab_size_ = own_vocab_size;
  made->target_vocab_size_ = target_vocab_size;
  made->find_shared();
  if (how == method::intersection && made->shared_.empty())
    return error{errc::invalid_argument, "vocabularies of drafter and target have no text token in common"};
  return std::shared_ptr<const vocabulary_bridge>(std::move(made));
}

void vocabulary_bridge::find_shared() {
  std::unordered_map<std::string_view, token_id> own_by_bytes;
  const auto own_size = std::min<std::size_t>(own_->size(), own_vocab_size_);
  for (std::size_t id = 0; id < own_size; ++id) {
    const token_id token{static_cast<std::int32_t>(id)};
    if (is_text(*own_, token)) own_by_bytes.try_emplace(own_->piece(token), token);
  }
  own_of_target_.assign(target_vocab_size_, none);
  const auto target_size = std::min<std::size_t>(target_->size(), target_vocab_size_);
  std::vector<bool> taken(own_size); // two target tokens of the same bytes: the lower one has them
  const auto share = [&](token_id own, token_id target) {
    own_of_target_[static_cast<std::size_t>(target.value)] = own.value;
    if (taken[static_cast<std::size_t>(own.value)]) return;
    taken[static_cast<std::size_t>(own.value)] = true;
    shared_.push_back({own, target});
  };
  for (std::size_t id = 0; id < target_size; ++id) {
    const token_id token{static_cast<std::int32_t>(id)};
    if (!is_text(*target_, token)) continue;
    if (const auto same = own_by_bytes.find(target_->piece(token)); same != own_by_bytes.end())
      share(same->second, token);
  }
  // Both end a generation: the same meaning in other bytes.
  if (own_->eos() && target_->eos() && static_cast<std::size_t>(own_->eos()->value) < own_size &&
      static_cast<std::size_t>(target_->eos()->value) < target_size)
    share(*own_->eos(), *target_->eos());
  std::sort(shared_.begin(), shared_.end(), [](const pair& a, const pair& b) { return a.own < b.own; });
}

std::string vocabulary_bridge::text_of(const tokenizer::tokenizer& vocabulary,
                                       std::span<const token_id> tokens) const {
  std::string text;
  for (const token_id token : tokens)
    if (is_text(vocabulary, token)) text += vocabulary.piece(token);
  return text;
}

void vocabulary_bridge::extend(std::vector<token_id>& own, std::span<const token_id> committed,
                               std::size_t first) const {
  if (own.empty() && own_->adds_bos() && own_->bos()) own.push_back(*own_->bos());
  const auto append = [&](std::string_view text) {
    if (text.empty()) return;
    if (auto tokens = own_->encode(text, plain)) own.insert(own.end(), tokens->begin(), tokens->end());
  };
  if (how_ == method::intersection) {
    for (const token_id token : committed.subspan(first)) {
      const token_id known = own_token(token);
      if (known.value != none)
        own.push_back(known);
      else if (is_text(*target_, token))
        append(target_->piece(token));
    }
    return;
  }
  std::size_t num_bytes = 0;
  for (std::size_t i = 0; i < look_behind && !own.empty() && is_text(*own_, own.back()); ++i) {
    num_bytes += own_->piece(own.back()).size();
    own.pop_back();
  }
  std::size_t begin = first;
  std::size_t bytes_before = 0;
  while (begin > 0 && bytes_before < num_bytes) {
    --begin;
    if (is_text(*target_, committed[begin])) bytes_before += target_->piece(committed[begin]).size();
  }
  const std::string text = text_of(*target_, committed.subspan(begin));
  append(std::string_view(text).substr(bytes_before - std::min(bytes_before, num_bytes)));
}

token_id vocabulary_bridge::own_token(token_id target) const noexcept {
  const auto id = static_cast<std::size_t>(target.value);
  return token_id{target.value >= 0 && id < own_of_target_.size() ? own_of_target_[id] : none};
}

void vocabulary_bridge::translate(std::span<const float> own, std::span<float> target) const noexcept {
  std::fill(target.begin(), target.end(), -std::numeric_limits<float>::infinity());
  for (const pair& both : shared_)
    target[static_cast<std::size_t>(both.target.value)] = own[static_cast<std::size_t>(both.own.value)];
}

std::vector<token_id> vocabulary_bridge::target_tokens(std::span<const token_id> committed,
                                                       std::span<const token_id> drafted) const {
  const std::string drafted_text = text_of(*own_, drafted);
  if (drafted_text.empty()) return {};
  // The longest end of the committed tokens that is split as it was, with the draft behind it.
  for (std::size_t count = std::min(look_behind, committed.size());; --count) {
    const std::span<const token_id> before = committed.last(count);
    auto tokens = target_->encode(text_of(*target_, before) + drafted_text, plain);
    if (tokens && tokens->size() >= count && std::equal(before.begin(), before.end(), tokens->begin())) {
      tokens->erase(tokens->begin(), tokens->begin() + static_cast<std::ptrdiff_t>(count));
      const auto unknown = std::find_if(tokens->begin(), tokens->end(), [&](token_id token) {
        return token.value < 0 || static_cast<std::uint32_t>(token.value) >= target_vocab_size_;
      });
      tokens->erase(unknown, tokens->end());
      return *std::move(tokens);
    }
    if (count == 0) return {};
  }
}

} // namespace paceline::speculation
