#pragma once

#include "server/executor.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// Produces the text of /metrics. Collecting the figures waits for actors, so it runs as a job of `jobs`, not
/// on an I/O thread or on a thread that processes prompts. One text is made at a time. Requests that arrive
/// meanwhile share the next text, so no request gets figures that are older than itself. Thread-safe.
class scrape_desk : public std::enable_shared_from_this<scrape_desk> {
 public:
  using text = std::shared_ptr<const std::string>;

  /// `jobs` must outlive the desk and all its pending requests.
  scrape_desk(job_pool& jobs, std::function<std::string()> make_text)
      : jobs_(jobs), make_text_(std::move(make_text)) {}

  /// `answer` is called on the job's thread. Returns false, and drops `answer`, if no job can be started.
  /// Other calls may have returned true meanwhile, because they relied on this job. Their `answer` is called
  /// with null, on the thread of the call that returns false.
  [[nodiscard]] bool ask(std::function<void(const text&)> answer);

 private:
  void serve();

  job_pool& jobs_;
  const std::function<std::string()> make_text_;
  std::mutex mutex_;
  std::vector<std::function<void(const text&)>> waiting_;
  bool serving_ = false;
};

} // namespace paceline::server
