#include "gpu/owners.hpp"

#include <chrono>
#include <thread>

namespace paceline::gpu {
namespace {

/// A text such as "cublasLtMatmul of 4096 x 128 x 2048": the rows and columns of the result, and the length
/// of its sums.
std::string call_of(const blas_product& product) {
  return "cublasLtMatmul of " + std::to_string(product.d.num_rows) + " x " +
         std::to_string(product.d.num_cols) + " x " + std::to_string(product.b.num_rows);
}

} // namespace

memory::memory(const device_context& on, memory_kind kind, std::size_t num_bytes)
    : on_(&on), kind_(kind), num_bytes_(num_bytes) {
  if (num_bytes == 0) return;
  if (kind == memory_kind::pinned)
    on.require(on.api.allocate_pinned(at_, num_bytes),
               "cudaMallocHost of " + std::to_string(num_bytes) + " bytes");
  else
    on.require(on.api.allocate(at_, num_bytes), "cudaMalloc of " + std::to_string(num_bytes) + " bytes");
}

memory::~memory() {
  if (at_ == nullptr) return;
  on_->api.use(on_->index); // the owner may be on any thread
  if (kind_ == memory_kind::pinned)
    on_->api.release_pinned(at_);
  else
    on_->api.release(at_);
}

memory::memory(memory&& other) noexcept { *this = std::move(other); }

memory& memory::operator=(memory&& other) noexcept {
  std::swap(on_, other.on_);
  std::swap(kind_, other.kind_);
  std::swap(at_, other.at_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

blas_handle::blas_handle(const device_context& on) : on_(on) {
  on_.require(on_.api.make_blas(raw_), "cublasLtCreate");
}

blas_handle::~blas_handle() { on_.api.end_blas(raw_); }

command_queue::command_queue(const device_context& on, int urgency) : on_(on), run_(on) {
  on_.require(on_.api.make_stream(raw_, urgency), "cudaStreamCreateWithPriority");
}

command_queue::~command_queue() { on_.api.end_stream(raw_); }

void command_queue::copy_in(void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes != 0)
    on_.require(on_.api.copy_in(to, from, num_bytes, raw()), "cudaMemcpyAsync to the device");
}

void command_queue::copy_out(void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes != 0)
    on_.require(on_.api.copy_out(to, from, num_bytes, raw()), "cudaMemcpyAsync to the host");
}

void command_queue::copy_within(void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes != 0)
    on_.require(on_.api.copy_within(to, from, num_bytes, raw()), "cudaMemcpyAsync on the device");
}

void command_queue::fill(void* to, std::uint8_t value, std::size_t num_bytes) {
  if (num_bytes != 0) on_.require(on_.api.fill(to, value, num_bytes, raw()), "cudaMemsetAsync");
}

void command_queue::launch(kernel_id kernel, const launch_shape& shape, const void* params,
                           std::size_t params_bytes) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0) return; // nothing to do, and CUDA has no empty grid
  const launch_start start = run_.start_of(kernel);
  on_.require(on_.api.launch({kernel, shape, params, params_bytes, start}, raw()),
              "cudaLaunchKernel of kernel " + std::to_string(static_cast<int>(kernel)));
  run_.launched(kernel);
}

void command_queue::launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                                    std::size_t params_bytes) {
  on_.require(on_.api.launch_together(kernel, shape, params, params_bytes, raw()),
              "cudaLaunchCooperativeKernel of kernel " + std::to_string(static_cast<int>(kernel)));
}

void command_queue::multiply(const blas_handle& blas, const blas_command& command) {
  on_.require(on_.api.multiply(blas.raw(), command, raw()), call_of(command.product));
}

void command_queue::wait_for(const event& point) {
  on_.require(on_.api.wait_on_device(raw(), point.raw()), "cudaStreamWaitEvent");
}

event::event(const device_context& on, bool is_timed) : on_(on) {
  on_.require(on_.api.make_event(raw_, is_timed), "cudaEventCreate");
}
event::~event() { on_.api.end_event(raw_); }
void event::record(command_queue& queue) {
  on_.require(on_.api.record(raw_, queue.raw()), "cudaEventRecord");
}
void event::wait() {
  const auto until = std::chrono::steady_clock::now() + on_.polling;
  while (std::chrono::steady_clock::now() < until) {
    bool has_come = false;
    on_.require(on_.api.has_come_to(has_come, raw_), "cudaEventQuery");
    if (has_come) return;
    std::this_thread::yield();
  }
  on_.require(on_.api.wait(raw_), "cudaEventSynchronize");
}
double event::seconds_since(const event& earlier) const {
  double seconds = 0;
  on_.require(on_.api.elapsed(seconds, earlier.raw_, raw_), "cudaEventElapsedTime");
  return seconds;
}

} // namespace paceline::gpu
