#include "server/net/body_intake.hpp"

#include <algorithm>

namespace paceline::server {

using std::chrono::milliseconds;

body_intake::body_intake(const request_head& head, std::uint64_t max_bytes, const body_pace& pace,
                         time_point begin, std::shared_ptr<body_budget> budget, std::string tenant,
                         std::function<void()> give_way)
    : pace_(pace), begin_(begin),
      body_(std::move(budget), std::move(tenant),
            head.is_chunked ? max_bytes : head.content_length.value_or(0), std::move(give_way)) {
  if (head.is_chunked) decoder_.emplace(chunk_limits{max_bytes});
}

body_intake::state body_intake::take(std::string_view& bytes) {
  if (decoder_) return take_chunks(bytes);
  if (!body_.fill_from(bytes)) return state::gives_way;
  return body_.missing() == 0 ? state::complete : state::arriving;
}

body_intake::state body_intake::take_chunks(std::string_view& bytes) {
  std::string decoded; // joined, because the budget is asked for each piece, and a chunk may have one byte
  for (auto run = decoder_->next(bytes); !run.empty(); run = decoder_->next(bytes)) decoded += run;
  if (decoder_->refusal()) return state::refused;
  if (!decoded.empty() && !body_.append(decoded)) return state::gives_way;
  return decoder_->at_end() ? state::complete : state::arriving;
}

milliseconds body_intake::time_left(time_point now) const {
  const auto counted = body_.size() + (decoder_ ? 0 : body_.missing());
  const auto allowed =
      std::min(pace_.most, pace_.first + milliseconds(counted * 1000 / pace_.min_bytes_per_second));
  const auto gone = std::chrono::duration_cast<milliseconds>(now - begin_);
  return std::max(milliseconds(0), allowed - gone);
}

} // namespace paceline::server
