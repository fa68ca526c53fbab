#include "protocol/wire/kept_output.hpp"

#include <algorithm>

namespace paceline::wire {

namespace {

std::uint64_t unsigned_of(token_id token) { return static_cast<std::uint32_t>(token.value); }
token_id token_of(std::uint64_t number) { return token_id{static_cast<std::int32_t>(number)}; }

} // namespace

// The format of a score: 0 means none, otherwise 1 + the number of best tokens that follow.

void score_log::append(const token_logprob& score) {
  bytes_.put(unsigned_of(score.token));
  bytes_.put(1 + score.top.size());
  bytes_.put_float(score.logprob);
  for (const auto& [token, logprob] : score.top) {
    bytes_.put(unsigned_of(token));
    bytes_.put_float(logprob);
  }
  ++size_;
}

void score_log::append_without_score(token_id token) {
  bytes_.put(unsigned_of(token));
  bytes_.put(0);
  ++size_;
}

token_score score_log::reader::next(const token_speller& spell) {
  token_score score{spell(token_of(at_.number())), std::nullopt, {}};
  const auto kind = at_.number();
  if (kind == 0) return score;
  score.logprob = at_.real();
  for (std::uint64_t i = 1; i < kind; ++i) {
    auto bytes = spell(token_of(at_.number()));
    score.top.emplace_back(std::move(bytes), at_.real());
  }
  return score;
}

std::uint64_t round_log::number_of(const std::string& drafter) {
  const auto known = std::find(drafters_.begin(), drafters_.end(), drafter);
  const auto number = static_cast<std::uint64_t>(known - drafters_.begin());
  if (known == drafters_.end()) drafters_.push_back(drafter);
  return number;
}

// The options among which "auto" chose. 0 means that it did not choose, otherwise 1 + twice the number of
// options, + 1 if a plain round was wanted.
void round_log::append(const std::optional<draft_choice>& choice) {
  if (!choice) return bytes_.put(0);
  bytes_.put(1 + 2 * choice->options.size() + (choice->plain_to_measure ? 1 : 0));
  for (const auto& option : choice->options) {
    bytes_.put(number_of(option.drafter));
    bytes_.put(option.num_tokens);
    bytes_.put_float(option.expected_tokens);
    bytes_.put_float(option.cost);
  }
}

std::optional<draft_choice> round_log::reader::next_choice() {
  const auto kind = at_.number();
  if (kind == 0) return std::nullopt;
  draft_choice choice;
  choice.plain_to_measure = (kind - 1) % 2 == 1;
  for (auto count = (kind - 1) / 2; count > 0; --count) {
    draft_choice::option option;
    option.drafter = log_->drafters_.at(at_.number());
    option.num_tokens = static_cast<std::uint32_t>(at_.number());
    option.expected_tokens = at_.real();
    option.cost = at_.real();
    choice.options.push_back(std::move(option));
  }
  return choice;
}

void round_log::append(const round_trace& round) {
  bytes_.put(round.round.value);
  bytes_.put(round.base_length);
  bytes_.put(number_of(round.drafter));
  bytes_.put(round.draft_tokens.size());
  for (const auto token : round.draft_tokens) bytes_.put(unsigned_of(token));
  bytes_.put(round.parents.size());
  for (const auto parent : round.parents) bytes_.put(static_cast<std::uint32_t>(parent + 1));
  bytes_.put(round.accepted.size());
  for (const auto node : round.accepted) bytes_.put(static_cast<std::uint32_t>(node));
  bytes_.put_byte(round.bonus ? 1 : 0);
  append(round.choice);
  append(round.verified);
  bytes_.put_byte(round.drafted ? 1 : 0);
  if (round.drafted) append(*round.drafted);
  bytes_.put(round.tokens.size());
  for (const auto token : round.tokens) bytes_.put(unsigned_of(token));
}

void round_log::append(const work_span& span) {
  bytes_.put(static_cast<std::uint64_t>(span.begin.count()));
  bytes_.put(static_cast<std::uint64_t>((span.end - span.begin).count()));
}

work_span round_log::reader::next_span() {
  const std::chrono::microseconds begin(at_.number());
  return {begin, begin + std::chrono::microseconds(at_.number())};
}

round_trace round_log::reader::next() {
  round_trace round;
  round.round.value = static_cast<decltype(round.round.value)>(at_.number());
  round.base_length = static_cast<std::uint32_t>(at_.number());
  round.drafter = log_->drafters_.at(at_.number());
  const auto repeat = [&](const auto& read_one) {
    for (auto count = at_.number(); count > 0; --count) read_one(at_.number());
  };
  repeat([&](std::uint64_t number) { round.draft_tokens.push_back(token_of(number)); });
  repeat([&](std::uint64_t number) { round.parents.push_back(static_cast<std::int32_t>(number) - 1); });
  repeat([&](std::uint64_t number) { round.accepted.push_back(static_cast<std::int32_t>(number)); });
  round.bonus = at_.byte() != 0;
  round.choice = next_choice();
  round.verified = next_span();
  if (at_.byte() != 0) round.drafted = next_span();
  repeat([&](std::uint64_t number) { round.tokens.push_back(token_of(number)); });
  return round;
}

} // namespace paceline::wire
