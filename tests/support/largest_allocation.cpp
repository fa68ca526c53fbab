#include "tests/support/largest_allocation.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t largest = 0;
thread_local std::size_t total = 0;
thread_local std::size_t count = 0;

} // namespace

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (size > largest) largest = size;
  total += size;
  ++count;
  return std::malloc(size == 0 ? 1 : size);
}

void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace paceline::test {

void reset_largest_allocation() noexcept { largest = total = count = 0; }

std::size_t largest_allocation() noexcept { return largest; }

std::size_t allocated_bytes() noexcept { return total; }

std::size_t num_allocations() noexcept { return count; }

} // namespace paceline::test
