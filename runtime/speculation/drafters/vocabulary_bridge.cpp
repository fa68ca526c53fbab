#include "runtime/speculation/drafters/vocabulary_bridge.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace paceline::speculation {

namespace {

constexpr std::int32_t none = -1;
/// Tokens at the end of a text that are tokenised again when the text continues.
constexpr std::size_t look_behind = 8;
constexpr tokenizer::encode_options plain{.add_special = false, .parse_special = false};

bool is_text(const tokenizer::tokenizer& vocabulary, token_id token) {
  return !vocabulary.is_special(token) && vocabulary.type(token) != tokenizer::token_type::unused &&
         !vocabulary.piece(token).empty();
}

bool is_control(const tokenizer::tokenizer& vocabulary, token_id token) {
  return vocabulary.is_special(token) && !vocabulary.piece(token).empty();
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
  std::unordered_map<std::string_view, token_id> own_texts, own_controls; // by their bytes
  const auto own_size = std::min<std::size_t>(own_->size(), own_vocab_size_);
  for (std::size_t id = 0; id < own_size; ++id) {
    const token_id token{static_cast<std::int32_t>(id)};
    if (is_text(*own_, token)) own_texts.try_emplace(own_->piece(token), token);
    if (is_control(*own_, token)) own_controls.try_emplace(own_->piece(token), token);
  }
  own_of_target_.assign(target_vocab_size_, none);
  const auto target_size = std::min<std::size_t>(target_->size(), target_vocab_size_);
  std::vector<bool> taken(own_size); // if several target tokens have the same bytes, the lowest one is used
  const auto share = [&](token_id own, token_id target) {
    own_of_target_[static_cast<std::size_t>(target.value)] = own.value;
    if (taken[static_cast<std::size_t>(own.value)]) return;
    taken[static_cast<std::size_t>(own.value)] = true;
    shared_.push_back({own, target});
  };
  for (std::size_t id = 0; id < target_size; ++id) {
    const token_id token{static_cast<std::int32_t>(id)};
    const bool control = is_control(*target_, token);
    if (!control && !is_text(*target_, token)) continue;
    const auto& own = control ? own_controls : own_texts;
    if (const auto same = own.find(target_->piece(token)); same != own.end()) share(same->second, token);
  }
  // Both tokens end a generation, so they have the same meaning although their bytes differ.
  if (own_->eos() && target_->eos() && static_cast<std::size_t>(own_->eos()->value) < own_size &&
      static_cast<std::size_t>(target_->eos()->value) < target_size &&
      own_token(*target_->eos()).value == none)
    share(*own_->eos(), *target_->eos());
  std::sort(shared_.begin(), shared_.end(), [](const pair& a, const pair& b) { return a.own < b.own; });
}

/// True if the drafter reads the token as text. A control token of both vocabularies remains a token.
bool vocabulary_bridge::has_text(token_id target) const {
  if (target == target_->bos()) return false;
  if (is_control(*target_, target)) return own_token(target).value == none;
  return is_text(*target_, target);
}

std::string vocabulary_bridge::text_of(std::span<const token_id> target) const {
  std::string text;
  for (const token_id token : target)
    if (has_text(token)) text += target_->piece(token);
  return text;
}

/// Appends the target's tokens to `own`, which already covers the first `num_bytes_known` bytes of their
/// text. The text between control tokens is tokenised piece by piece.
void vocabulary_bridge::append(std::vector<token_id>& own, std::span<const token_id> target,
                               std::size_t num_bytes_known) const {
  std::string text;
  const auto flush = [&] {
    const std::size_t known = std::min(num_bytes_known, text.size());
    num_bytes_known -= known;
    const auto rest = std::string_view(text).substr(known);
    if (!rest.empty())
      if (auto tokens = own_->encode(rest, plain)) own.insert(own.end(), tokens->begin(), tokens->end());
    text.clear();
  };
  for (const token_id token : target) {
    if (has_text(token)) {
      text += target_->piece(token);
    } else if (const token_id known = own_token(token); known.value != none && token != target_->bos()) {
      flush();
      own.push_back(known);
    }
  }
  flush();
}

void vocabulary_bridge::extend(std::vector<token_id>& own, std::span<const token_id> committed,
                               std::size_t first) const {
  if (own.empty() && own_->adds_bos() && own_->bos()) own.push_back(*own_->bos());
  if (how_ == method::intersection) {
    for (const token_id& token : committed.subspan(first)) {
      const token_id known = own_token(token);
      if (known.value != none && token != target_->bos())
        own.push_back(known);
      else
        append(own, {&token, 1}, 0);
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
    if (has_text(committed[begin])) bytes_before += target_->piece(committed[begin]).size();
  }
  append(own, committed.subspan(begin), bytes_before - std::min(bytes_before, num_bytes));
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
  std::string text;
  std::optional<token_id> end; // a control token ends the draft: the next turn would follow
  for (const token_id token : drafted) {
    if (is_text(*own_, token)) {
      text += own_->piece(token);
      continue;
    }
    const auto same = std::ranges::find(shared_, token, &pair::own);
    if (same != shared_.end()) end = same->target;
    break;
  }
  auto tokens = tokens_behind(committed, text);
  if (end && (text.empty() || !tokens.empty())) tokens.push_back(*end);
  return tokens;
}

/// The target's tokens of `text` after `committed`.
std::vector<token_id> vocabulary_bridge::tokens_behind(std::span<const token_id> committed,
                                                       std::string_view text) const {
  if (text.empty()) return {};
  // Uses the longest end of the committed tokens whose tokenisation does not change when the draft is
  // appended.
  for (std::size_t count = std::min(look_behind, committed.size());; --count) {
    const std::span<const token_id> before = committed.last(count);
    auto tokens = target_->encode(text_of(before).append(text), plain);
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
