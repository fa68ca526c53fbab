#pragma once

#include "runtime/device/buffer.hpp"

#include <memory>

namespace paceline::cpu {

/// Host memory as a device buffer. Throws std::bad_alloc.
std::unique_ptr<device::buffer> make_host_buffer(std::uint64_t num_bytes);

} // namespace paceline::cpu
