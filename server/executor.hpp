#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace paceline::server {

/// Runs posted functions one at a time, in the order of posting. `post` may be called on any thread and never
/// blocks; after shutdown it drops the function.
class serial_executor {
 public:
  virtual ~serial_executor() = default;
  virtual void post(std::function<void()> task) = 0;
};

using executor_ptr = std::shared_ptr<serial_executor>;

/// The owner and kind of a job.
struct job_traits {
  std::string tenant;          ///< digest of the API key; empty without keys
  std::size_t num_tenants = 1; ///< number of configured keys
  bool large = false;          ///< may take seconds (see below)
  bool continues = false;      ///< continues an earlier job, whose memory is held until this one has run
};

/// A job is large if it reads a body of more bytes than this or a conversation whose text has more bytes, or
/// if it may compile a grammar. Large jobs may occupy all edge threads (edge_pool) except one, so that short
/// requests need not wait for requests that take seconds.
inline constexpr std::size_t large_body_bytes = 64U << 10U;

/// Runs jobs on other threads. `submit` returns false if too many jobs wait already.
class job_pool {
 public:
  virtual ~job_pool() = default;
  [[nodiscard]] virtual bool submit(std::function<void()> job, const job_traits& traits) = 0;
};

} // namespace paceline::server
