#pragma once

#include "server/executor.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::server {

/// Hands out the text of /metrics. Taking the figures waits for actors, so a job on a thread of its own does
/// it: neither an I/O thread nor one that prompts keep busy. One text is made at a time; all who ask while
/// one is being made share the next, so that nobody gets figures older than the question. Thread-safe.
class scrape_desk : public std::enable_shared_from_this<scrape_desk> {
 public:
  using text = std::shared_ptr<const std::string>;

  /// `jobs` must outlive the desk and what it has been asked.
  scrape_desk(job_pool& jobs, std::function<std::string()> make_text)
      : jobs_(jobs), make_text_(std::move(make_text)) {}

  /// `answer` is called on the job's thread. False if no job can be had.
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
