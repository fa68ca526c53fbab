#pragma once

#include <cstdint>

namespace paceline::server {

/// Bytes on a TCP socket that the peer has acknowledged since the connection began; 0 if the kernel does not
/// report it. An accepted write only means that the bytes are in the local kernel, which accepts them in
/// steps of a third of the send buffer.
std::uint64_t acknowledged_bytes(int descriptor) noexcept;

} // namespace paceline::server
