#pragma once

#include "gpu/cuda_failure.hpp"
#include "runtime/device/stream.hpp"

#include <memory>
#include <string>

namespace paceline::gpu {

/// A stream of a GPU: a CUDA stream with two threads.
///
/// The first thread issues programs. It issues a program when the previous one was issued and the fences that
/// the program names have passed. For fences of the same device it is enough that their programs were issued,
/// because the device itself waits for them (gpu/cuda_fence.hpp). This thread waits for the device only if a
/// program asks for results (`ops::deliver`). The second thread completes programs: it waits for the end of
/// each program's work, in order, and passes the program's fence. So no actor's thread waits, and the device
/// has the next program's work while the host still processes the previous result. If the first thread has
/// waited for all work of a program, and all programs before it are complete, it completes the program
/// itself, so that no thread has to be woken.
///
/// cudaLaunchHostFunc is not used, because its host function is not called after a failure of the context,
/// and fences of a lost device would never pass. Waiting for an event reports the failure. One thread that
/// polls all events is not used either, because it would occupy a core or notice events late.
///
/// `on` must outlive the stream. Throws cuda_failure, or std::system_error if a thread cannot be started.
std::unique_ptr<device::stream> make_cuda_stream(const device_context& on, std::string name,
                                                 device::stream_priority priority);

} // namespace paceline::gpu
