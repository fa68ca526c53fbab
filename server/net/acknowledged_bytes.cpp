#include "server/net/acknowledged_bytes.hpp"

#include <linux/tcp.h> // the tcp_info of netinet's header lacks the field
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace paceline::server {

std::uint64_t acknowledged_bytes(int descriptor) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  const bool has_field = size >= offsetof(tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked;
  return has_field ? info.tcpi_bytes_acked : 0;
}

} // namespace paceline::server
