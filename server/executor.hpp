#pragma once

#include <functional>
#include <memory>

namespace paceline::server {

/// Runs posted functions one at a time, in the order of posting. `post` may be called on any thread and never
/// blocks; after shutdown it drops what it is given.
class serial_executor {
 public:
  virtual ~serial_executor() = default;
  virtual void post(std::function<void()> task) = 0;
};

using executor_ptr = std::shared_ptr<serial_executor>;

/// Runs functions on other threads; false if too many wait already.
class job_pool {
 public:
  virtual ~job_pool() = default;
  [[nodiscard]] virtual bool submit(std::function<void()> job) = 0;
};

} // namespace paceline::server
