#include "runtime/base/philox.hpp"

#include "runtime/base/portable_math.hpp"

namespace paceline {

double gumbel_of(std::uint32_t word) noexcept { return -portable_log(-portable_log(uniform_of(word))); }

} // namespace paceline
