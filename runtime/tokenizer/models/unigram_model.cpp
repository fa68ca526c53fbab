#include "runtime/tokenizer/models/unigram_model.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"

#include <algorithm>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// How far unknown tokens are below the worst entry, as in SentencePiece.
constexpr double unknown_penalty = 10.0;

} // namespace

unigram_model::unigram_model(std::shared_ptr<const token_table> tokens, std::vector<double> scores,
                             token_id unknown, bool byte_fallback)
    : tokens_(std::move(tokens)), scores_(std::move(scores)), unknown_(unknown),
      byte_fallback_(byte_fallback) {
  scores_.resize(tokens_->size(), 0.0);
  unknown_score_ =
      scores_.empty() ? 0.0 : *std::min_element(scores_.begin(), scores_.end()) - unknown_penalty;
}

void unigram_model::encode(std::string_view word, workspace& work, std::vector<token_id>& out) const {
  if (word.empty()) return;
  find_best(word, work);
  auto& path = work.path;
  path.clear();
  for (std::size_t end = word.size(); end > 0; end = work.best[end].begin) path.push_back(work.best[end]);
  // path[i] ends where path[i - 1] begins; the last element begins the word.
  for (std::size_t i = path.size(); i-- > 0;) {
    const std::size_t begin = path[i].begin;
    if (token_id{path[i].token} != unknown_) {
      out.push_back(token_id{path[i].token});
      continue;
    }
    while (i > 0 && token_id{path[i - 1].token} == unknown_) --i;
    const std::size_t end = i > 0 ? path[i - 1].begin : word.size();
    emit_unknown(word.substr(begin, end - begin), out);
  }
}

void unigram_model::find_best(std::string_view word, workspace& work) const {
  auto& best = work.best;
  best.assign(word.size() + 1, {0.0, -1, 0});
  for (std::size_t begin = 0; begin < word.size();) {
    const double score = best[begin].score;
    const std::size_t first_length = utf8_length(word[begin]);
    const auto arrive = [&](std::size_t end, std::int32_t token, double token_score) {
      if (best[end].token < 0 || score + token_score > best[end].score)
        best[end] = {score + token_score, token, static_cast<std::uint32_t>(begin)};
    };
    bool first_is_token = false;
    for (std::size_t end = begin; end < word.size();) {
      end += utf8_length(word[end]);
      if (end - begin > tokens_->longest_bytes()) break;
      const auto token = tokens_->find(word.substr(begin, end - begin));
      if (!token) continue;
      arrive(end, token->value, scores_[static_cast<std::size_t>(token->value)]);
      first_is_token = first_is_token || end == begin + first_length;
    }
    if (!first_is_token) arrive(begin + first_length, unknown_.value, unknown_score_);
    begin += first_length;
  }
}

void unigram_model::emit_unknown(std::string_view spelling, std::vector<token_id>& out) const {
  if (byte_fallback_) {
    const std::size_t before = out.size();
    for (const char byte : spelling) {
      const auto token = tokens_->find(hex_byte_spelling(static_cast<std::uint8_t>(byte)));
      if (!token) {
        out.resize(before);
        break;
      }
      out.push_back(*token);
    }
    if (out.size() != before) return;
  }
  out.push_back(unknown_);
}

} // namespace paceline::tokenizer
