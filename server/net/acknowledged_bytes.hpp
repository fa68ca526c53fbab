#pragma once

#include <cstdint>

namespace paceline::server {

/// Bytes of a TCP socket that its peer has acknowledged since the connection began; 0 if the kernel does not
/// say. A write that is accepted says only that they lie in our kernel, and it accepts in lumps of a third of
/// the send buffer.
std::uint64_t acknowledged_bytes(int descriptor) noexcept;

} // namespace paceline::server
