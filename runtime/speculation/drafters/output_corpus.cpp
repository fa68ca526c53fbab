#include "runtime/speculation/drafters/output_corpus.hpp"

#include <algorithm>
#include <utility>

namespace paceline::speculation {

namespace {

constexpr token_id separator{-1};
/// The maximum number of tokens that wait for `collect`. It matters if a drafter is no longer used.
constexpr std::size_t max_inbox_tokens = 1U << 20U;

} // namespace

tenant_corpus::tenant_corpus(std::size_t max_tokens, const ngram_index& empty)
    : half_capacity_(max_tokens / 2), empty_(empty), halves_{half{{}, empty}, half{{}, empty}} {}

void tenant_corpus::add(std::span<const token_id> output) {
  if (half_capacity_ < 3 || output.size() < 2) return; // too short for a continuation
  output = output.last(std::min(output.size(), half_capacity_ - 1));
  if (halves_[0].text.size() + output.size() + 1 > half_capacity_) {
    halves_[1] = std::move(halves_[0]);
    halves_[0] = half{{}, empty_};
  }
  auto& text = halves_[0].text;
  text.insert(text.end(), output.begin(), output.end());
  text.push_back(separator);
}

void tenant_corpus::index(std::size_t max_tokens) {
  const std::size_t before = halves_[0].index.num_indexed();
  halves_[0].index.extend(halves_[0].text, max_tokens);
  max_tokens -= halves_[0].index.num_indexed() - before;
  halves_[1].index.extend(halves_[1].text, max_tokens);
}

output_corpus::output_corpus(std::size_t max_tokens, std::size_t max_tenants, const ngram_index& empty)
    : max_tokens_(max_tokens), max_tenants_(max_tenants), empty_(empty) {}

void output_corpus::remember(std::string tenant, std::vector<token_id> output) {
  if (max_tokens_ == 0 || output.size() < 2) return;
  const std::lock_guard lock(inbox_mutex_);
  if (inbox_tokens_ + output.size() > max_inbox_tokens) return;
  inbox_tokens_ += output.size();
  inbox_.push_back({std::move(tenant), std::move(output)});
}

void output_corpus::collect() {
  std::vector<finished> news;
  {
    const std::unique_lock lock(inbox_mutex_, std::try_to_lock);
    if (!lock) return;
    news.swap(inbox_);
    inbox_tokens_ = 0;
  }
  for (finished& one : news) add(std::move(one));
}

void output_corpus::add(finished one) {
  auto found = tenants_.find(one.tenant);
  if (found == tenants_.end()) {
    if (tenants_.size() >= max_tenants_) {
      const auto oldest =
          std::ranges::min_element(tenants_, {}, [](const auto& named) { return named.second.last_used; });
      tenants_.erase(oldest);
    }
    auto corpus = std::make_unique<tenant_corpus>(max_tokens_, empty_);
    found = tenants_.emplace(std::move(one.tenant), entry{std::move(corpus), 0}).first;
  }
  found->second.last_used = ++num_uses_;
  found->second.corpus->add(one.output);
}

tenant_corpus* output_corpus::find(std::string_view tenant) {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return nullptr;
  found->second.last_used = ++num_uses_;
  return found->second.corpus.get();
}

} // namespace paceline::speculation
