#pragma once

#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>

#include <condition_variable>
#include <list>
#include <mutex>

namespace paceline {

/// How the worker threads of an actor system share its jobs: one queue, as CAF's policy `sharing` has it, but
/// a worker is woken after the queue's lock is let go (docs/decisions/0564). Whoever sends must not use the
/// system once its destruction has begun. `Mutex`, `Condition`: those of the standard library, but for tests.
template <class Mutex = std::mutex, class Condition = std::condition_variable>
class job_sharing final : public caf::policy::unprofiled {
 public:
  struct coordinator_data {
    template <class Coordinator>
    explicit coordinator_data(Coordinator*) {}

    std::list<caf::resumable*> queue;
    Mutex lock;
    Condition filled;
  };
  struct worker_data {
    template <class Coordinator>
    explicit worker_data(Coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    std::list<caf::resumable*> added{job}; // allocated outside the lock
    auto& shared = d(self);
    {
      std::lock_guard guard(shared.lock);
      shared.queue.splice(shared.queue.end(), added);
    }
    shared.filled.notify_one();
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  /// An actor that has used up its turn.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& shared = d(self->parent());
    std::unique_lock guard(shared.lock);
    shared.filled.wait(guard, [&] { return !shared.queue.empty(); });
    auto* job = shared.queue.front();
    shared.queue.pop_front();
    return job;
  }

  template <class Worker, class Visit>
  void foreach_resumable(Worker*, Visit) {} // a worker has no jobs of its own

  /// Takes out what is left, at the end.
  template <class Coordinator, class Visit>
  void foreach_central_resumable(Coordinator* self, Visit visit) {
    auto& shared = d(self);
    std::lock_guard guard(shared.lock);
    while (!shared.queue.empty()) {
      auto* job = shared.queue.front();
      shared.queue.pop_front();
      visit(job);
    }
  }
};

} // namespace paceline
