#include "apps/bench/machine_limits.hpp"

#include "apps/bench/report.hpp"
#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/thread_team.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <chrono>

namespace paceline::apps::bench {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t memory_bytes = std::size_t{256} << 20;
constexpr std::size_t chunk_words = (std::size_t{256} << 10) / sizeof(std::uint64_t);
constexpr std::uint32_t dot_chunks_per_member = 16;
constexpr std::uint32_t dot_iterations = 20'000;

/// Receives results, so that nothing is optimised away.
std::atomic<std::uint64_t> sink;

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

/// Reads with loads of 32 bytes where the machine has them.
#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t read_avx2(const std::uint64_t* from, std::size_t words) {
  __m256i sums[4] = {};
  for (std::size_t i = 0; i < words; i += 16)
    for (std::size_t k = 0; k < 4; ++k)
      sums[k] =
          _mm256_xor_si256(sums[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 4 * k)));
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(all, 0));
}

/// Products of unsigned 4-bit and signed 8-bit codes: pairs are added in 16 bits, and eight of them before
/// they are widened.
[[gnu::target("avx2")]] std::uint64_t dot_avx2(std::uint32_t iterations) {
  constexpr std::size_t chains = 6;
  __m256i sums[chains] = {};
  const __m256i weights = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
  for (std::uint32_t i = 0; i < iterations; ++i) {
    __m256i narrow[chains] = {};
#pragma GCC unroll 8
    for (int step = 0; step < 8; ++step)
#pragma GCC unroll 6
      for (std::size_t c = 0; c < chains; ++c) {
        __m256i products; // written out, because otherwise the compiler would compute it only once
        asm volatile("vpmaddubsw %2, %1, %0" : "=x"(products) : "x"(weights), "x"(x));
        narrow[c] = _mm256_add_epi16(narrow[c], products);
      }
    for (std::size_t c = 0; c < chains; ++c)
      sums[c] = _mm256_add_epi32(sums[c], _mm256_madd_epi16(narrow[c], _mm256_set1_epi16(1)));
  }
  for (std::size_t c = 1; c < chains; ++c) sums[0] = _mm256_add_epi32(sums[0], sums[c]);
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sums[0], 0));
}

/// Twelve sums in registers, used in turn. They are written out because an array of sums goes through memory
/// between products, at half the rate.
constexpr double vnni_sums = 12;
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]] std::uint64_t dot_vnni(std::uint32_t iterations) {
  const __m512i w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5);
  __m512i a = w, b = w, c = w, d = w, e = w, f = w, g = w, h = w, i = w, j = w, k = w, l = w;
  for (std::uint32_t n = 0; n < iterations; ++n)
    asm volatile(
        "vpdpbusd %13, %12, %0\n vpdpbusd %13, %12, %1\n vpdpbusd %13, %12, %2\n vpdpbusd %13, %12, %3\n"
        "vpdpbusd %13, %12, %4\n vpdpbusd %13, %12, %5\n vpdpbusd %13, %12, %6\n vpdpbusd %13, %12, %7\n"
        "vpdpbusd %13, %12, %8\n vpdpbusd %13, %12, %9\n vpdpbusd %13, %12, %10\n vpdpbusd %13, %12, %11"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k),
          "+v"(l)
        : "v"(w), "v"(x));
  alignas(64) std::int32_t lanes[16];
  _mm512_store_si512(lanes, a);
  return static_cast<std::uint64_t>(lanes[0]);
}

[[gnu::target("avx2,avxvnni")]] std::uint64_t dot_avx_vnni(std::uint32_t iterations) {
  const __m256i w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
  __m256i a = w, b = w, c = w, d = w, e = w, f = w, g = w, h = w, i = w, j = w, k = w, l = w;
  for (std::uint32_t n = 0; n < iterations; ++n)
    asm volatile(
        "%{vex%} vpdpbusd %13, %12, %0\n %{vex%} vpdpbusd %13, %12, %1\n %{vex%} vpdpbusd %13, %12, %2\n"
        "%{vex%} vpdpbusd %13, %12, %3\n %{vex%} vpdpbusd %13, %12, %4\n %{vex%} vpdpbusd %13, %12, %5\n"
        "%{vex%} vpdpbusd %13, %12, %6\n %{vex%} vpdpbusd %13, %12, %7\n %{vex%} vpdpbusd %13, %12, %8\n"
        "%{vex%} vpdpbusd %13, %12, %9\n %{vex%} vpdpbusd %13, %12, %10\n %{vex%} vpdpbusd %13, %12, %11"
        : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k),
          "+x"(l)
        : "x"(w), "x"(x));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(a)));
}
#endif

struct dot_probe {
  std::uint64_t (*run)(std::uint32_t iterations) = nullptr;
  double multiply_adds = 0; ///< of one iteration
};

std::uint64_t dot_plain(std::uint32_t iterations) {
  std::int32_t sums[32] = {};
  std::int8_t x[32];
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<std::int8_t>(i);
  for (std::uint32_t i = 0; i < iterations; ++i) {
    asm volatile("" : : "r"(x) : "memory");
    for (std::size_t c = 0; c < 32; ++c) sums[c] += x[c] * 3;
  }
  return static_cast<std::uint64_t>(sums[0] + sums[31]);
}

dot_probe probe_of(cpu::kernel_level level) {
#if defined(__x86_64__)
  if (level == cpu::kernel_level::avx512_vnni) return {&dot_vnni, vnni_sums * 64};
  if (level == cpu::kernel_level::avx_vnni) return {&dot_avx_vnni, vnni_sums * 32};
  if (level == cpu::kernel_level::avx2) return {&dot_avx2, 6.0 * 8 * 32};
#endif
  return {&dot_plain, 32};
}

std::uint64_t read_plain(const std::uint64_t* from, std::size_t words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) sum += from[i];
  return sum;
}

} // namespace

machine_limits::machine_limits(cpu::thread_team& team)
    : team_(team), memory_(memory_bytes / sizeof(std::uint64_t), 1) {}

void machine_limits::sample() {
  auto read = &read_plain;
#if defined(__x86_64__)
  if (cpu::best_kernel_level() >= cpu::kernel_level::avx2) read = &read_avx2;
#endif
  auto begin = steady_clock::now();
  team_.parallel_for(static_cast<std::uint32_t>(memory_.size() / chunk_words),
                     [&](std::uint32_t chunk, std::uint32_t) {
                       sink += read(memory_.data() + chunk * chunk_words, chunk_words);
                     });
  read_rates_.push_back(static_cast<double>(memory_bytes) / seconds_since(begin));

  const dot_probe probe = probe_of(cpu::best_kernel_level());
  const std::uint32_t chunks = team_.size() * dot_chunks_per_member;
  begin = steady_clock::now();
  team_.parallel_for(chunks, [&](std::uint32_t, std::uint32_t) { sink += probe.run(dot_iterations); });
  dot_rates_.push_back(chunks * static_cast<double>(dot_iterations) * probe.multiply_adds /
                       seconds_since(begin));
}

double machine_limits::read_bytes_per_second() const { return summarise(read_rates_).median; }
double machine_limits::multiply_adds_per_second() const { return summarise(dot_rates_).median; }

} // namespace paceline::apps::bench
