#include "runtime/grammar/library_work.hpp"

#include <utility>

namespace paceline::grammar {

namespace {
thread_local std::uint64_t* work_left = nullptr; // null: unlimited
} // namespace

work_limit::work_limit(std::uint64_t& left) noexcept : outer_(std::exchange(work_left, &left)) {}
work_limit::~work_limit() { work_left = outer_; }

} // namespace paceline::grammar

namespace xgrammar {

/// The library calls it (deploy/xgrammar_bounds.py).
void CountWork(unsigned num_steps);

void CountWork(unsigned num_steps) {
  auto* left = paceline::grammar::work_left;
  if (left == nullptr) return;
  if (*left < num_steps || num_steps == ~0U) {
    *left = 0;
    throw paceline::grammar::work_exhausted();
  }
  *left -= num_steps;
}

} // namespace xgrammar
