#pragma once

#include <cstdint>

namespace paceline::server {

/// Number of bytes sent on a TCP socket that the peer has acknowledged since the connection began; 0 if the
/// kernel does not report it. A completed write is not enough to detect progress: it only means that the
/// local kernel has the bytes, and the kernel accepts them in steps of a third of the send buffer.
std::uint64_t acknowledged_bytes(int descriptor) noexcept;

} // namespace paceline::server
