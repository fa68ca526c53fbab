#include "gpu/cuda_runtime.hpp"

#include "gpu/cublas_library.hpp"
#include "gpu/kernels/kernel_table.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace paceline::gpu {
namespace {

cudaStream_t stream_of(raw_stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(raw_event event) { return static_cast<cudaEvent_t>(event); }
cudaGraph_t graph_of(raw_graph graph) { return static_cast<cudaGraph_t>(graph); }
cudaGraphNode_t node_of(raw_node node) { return static_cast<cudaGraphNode_t>(node); }
cudaGraphExec_t executable_of(raw_executable graph) { return static_cast<cudaGraphExec_t>(graph); }

cudaMemcpyKind direction_of(const copy_command& copy) {
  return copy.to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
}

/// `arguments` points to the kernel's only argument.
cudaKernelNodeParams node_params(const launch_command& launch, void** arguments) {
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(device_function(launch.kernel));
  params.gridDim = dim3(launch.shape.blocks_x, launch.shape.blocks_y);
  params.blockDim = dim3(launch.shape.threads);
  params.sharedMemBytes = launch.shape.shared_bytes;
  params.kernelParams = arguments;
  return params;
}

/// Node `to`, a launch, depends on launch `from`, and may start before that has ended.
cudaError_t add_early_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 12030
  cudaGraphEdgeData how{};
  how.from_port = cudaGraphKernelNodePortProgrammatic;
  how.type = cudaGraphDependencyTypeProgrammatic;
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &from, &to, &how, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &from, &to, &how, 1);
#endif
#else // graphs of this toolkit only have full edges: the kernel does not have to wait
  return cudaGraphAddDependencies(graph, &from, &to, 1);
#endif
}

class real_runtime final : public runtime_api {
 public:
  status num_devices(int& out) override { return told(cudaGetDeviceCount(&out)); }

  status inspect(int device, device_facts& out) override {
    cudaDeviceProp properties{};
    if (const auto failure = cudaGetDeviceProperties(&properties, device); failure != cudaSuccess)
      return told(failure);
    out.name = properties.name;
    out.compute_capability = properties.major * 10 + properties.minor;
    out.memory_bytes = properties.totalGlobalMem;
    return 0;
  }
  status find_kernel_target(int& out) override {
    cudaFuncAttributes attributes{};
    const auto outcome = cudaFuncGetAttributes(&attributes, device_function(kernel_id::rms_norm));
    out = attributes.ptxVersion;
    return told(outcome);
  }
  status use(int device) override { return told(cudaSetDevice(device)); }

  status count_free(std::size_t& out) override {
    std::size_t total = 0;
    return told(cudaMemGetInfo(&out, &total));
  }
  status allocate(void*& out, std::size_t num_bytes) override { return told(cudaMalloc(&out, num_bytes)); }
  status release(void* memory) override { return told(cudaFree(memory)); }
  status allocate_pinned(void*& out, std::size_t num_bytes) override {
    return told(cudaMallocHost(&out, num_bytes));
  }
  status release_pinned(void* memory) override { return told(cudaFreeHost(memory)); }

  status make_stream(raw_stream& out, int urgency) override {
    int lowest = 0, highest = 0; // smaller numbers have priority
    if (const auto failure = cudaDeviceGetStreamPriorityRange(&lowest, &highest); failure != cudaSuccess)
      return told(failure);
    cudaStream_t made = nullptr;
    const auto outcome =
        cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, std::max(lowest - urgency, highest));
    out = made;
    return told(outcome);
  }
  status end_stream(raw_stream stream) override { return told(cudaStreamDestroy(stream_of(stream))); }

  status make_event(raw_event& out, bool is_timed) override {
    cudaEvent_t made = nullptr;
    const unsigned clock = is_timed ? cudaEventDefault : cudaEventDisableTiming;
    const auto outcome = cudaEventCreateWithFlags(&made, clock | cudaEventBlockingSync);
    out = made;
    return told(outcome);
  }
  status end_event(raw_event event) override { return told(cudaEventDestroy(event_of(event))); }
  status record(raw_event event, raw_stream stream) override {
    return told(cudaEventRecord(event_of(event), stream_of(stream)));
  }
  status wait(raw_event event) override { return told(cudaEventSynchronize(event_of(event))); }
  status has_come_to(bool& out, raw_event event) override {
    const auto outcome = cudaEventQuery(event_of(event));
    out = outcome == cudaSuccess;
    return outcome == cudaErrorNotReady ? 0 : told(outcome);
  }
  status elapsed(double& seconds, raw_event from, raw_event to) override {
    float milliseconds = 0;
    const auto outcome = cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to));
    seconds = static_cast<double>(milliseconds) * 1e-3;
    return told(outcome);
  }
  status wait_on_device(raw_stream stream, raw_event event) override {
    return told(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
  }

  status copy_in(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override {
    return told(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyHostToDevice, stream_of(stream)));
  }
  status copy_out(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override {
    return told(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
  }
  status copy_within(void* to, const void* from, std::size_t num_bytes, raw_stream stream) override {
    return told(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
  }
  status fill(void* to, std::uint8_t value, std::size_t num_bytes, raw_stream stream) override {
    return told(cudaMemsetAsync(to, value, num_bytes, stream_of(stream)));
  }
  status launch(const launch_command& launch, raw_stream stream) override {
    void* arguments[] = {const_cast<void*>(launch.params)};
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(launch.shape.blocks_x, launch.shape.blocks_y);
    config.blockDim = dim3(launch.shape.threads);
    config.dynamicSmemBytes = launch.shape.shared_bytes;
    config.stream = stream_of(stream);
    config.attrs = &early;
    config.numAttrs = launch.start == launch_start::early ? 1 : 0;
    return told(cudaLaunchKernelExC(&config, device_function(launch.kernel), arguments));
  }

  status count_together(std::uint32_t& of_multiprocessor, std::uint32_t& num_multiprocessors,
                        kernel_id kernel, std::uint32_t threads, std::uint32_t shared_bytes) override {
    of_multiprocessor = num_multiprocessors = 0;
    int device = 0, can_launch = 0, most_shared = 0, processors = 0, blocks = 0;
    if (const auto failure = cudaGetDevice(&device); failure != cudaSuccess) return told(failure);
    const auto ask = [&](int& out, cudaDeviceAttr what) {
      return cudaDeviceGetAttribute(&out, what, device);
    };
    for (const auto outcome :
         {ask(can_launch, cudaDevAttrCooperativeLaunch), ask(processors, cudaDevAttrMultiProcessorCount),
          ask(most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin)})
      if (outcome != cudaSuccess) return told(outcome);
    if (can_launch == 0 || shared_bytes > static_cast<std::uint32_t>(most_shared)) return 0;
    const void* const function = device_function(kernel);
    // The maximum is set, whatever this launch needs. The attribute belongs to the function, and another
    // thread's launch of the same function may need more.
    if (const auto failure =
            cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared);
        failure != cudaSuccess)
      return told(failure);
    const auto outcome = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, function, static_cast<int>(threads), shared_bytes);
    of_multiprocessor = static_cast<std::uint32_t>(blocks);
    num_multiprocessors = static_cast<std::uint32_t>(processors);
    return told(outcome);
  }
  status launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                         std::size_t /*params_bytes*/, raw_stream stream) override {
    void* arguments[] = {const_cast<void*>(params)};
    return told(cudaLaunchCooperativeKernel(device_function(kernel), dim3(shape.blocks_x, shape.blocks_y),
                                            dim3(shape.threads), arguments, shape.shared_bytes,
                                            stream_of(stream)));
  }

  status make_graph(raw_graph& out) override {
    cudaGraph_t made = nullptr;
    const auto outcome = cudaGraphCreate(&made, 0);
    out = made;
    return told(outcome);
  }
  status end_graph(raw_graph graph) override { return told(cudaGraphDestroy(graph_of(graph))); }
  status add_copy(raw_node& out, raw_graph graph, raw_node after, const copy_command& copy) override {
    cudaGraphNode_t made = nullptr;
    const cudaGraphNode_t before = node_of(after);
    const auto outcome = cudaGraphAddMemcpyNode1D(&made, graph_of(graph), &before, before != nullptr ? 1 : 0,
                                                  copy.to, copy.from, copy.num_bytes, direction_of(copy));
    out = made;
    return told(outcome);
  }
  status add_launch(raw_node& out, raw_graph graph, raw_node after, const launch_command& launch) override {
    cudaGraphNode_t made = nullptr;
    const cudaGraphNode_t before = node_of(after);
    const bool is_early = launch.start == launch_start::early; // its edge is made below
    void* arguments[] = {const_cast<void*>(launch.params)};
    const cudaKernelNodeParams params = node_params(launch, arguments);
    auto outcome = cudaGraphAddKernelNode(&made, graph_of(graph), &before,
                                          before != nullptr && !is_early ? 1 : 0, &params);
    if (outcome == cudaSuccess && is_early) outcome = add_early_edge(graph_of(graph), before, made);
    out = made;
    return told(outcome);
  }
  status make_executable(raw_executable& out, raw_graph graph) override {
    cudaGraphExec_t made = nullptr;
    const auto outcome = cudaGraphInstantiateWithFlags(&made, graph_of(graph), 0);
    out = made;
    return told(outcome);
  }
  status end_executable(raw_executable graph) override {
    return told(cudaGraphExecDestroy(executable_of(graph)));
  }
  status update_copy(raw_executable graph, raw_node node, const copy_command& copy) override {
    return told(cudaGraphExecMemcpyNodeSetParams1D(executable_of(graph), node_of(node), copy.to, copy.from,
                                                   copy.num_bytes, direction_of(copy)));
  }
  status launch_graph(raw_executable graph, raw_stream stream) override {
    return told(cudaGraphLaunch(executable_of(graph), stream_of(stream)));
  }

  status make_blas(raw_blas& out) override { return cublas::create(out); }
  status end_blas(raw_blas blas) override { return cublas::destroy(blas); }
  status choose_algorithm(blas_algorithm& out, raw_blas blas, const blas_product& product,
                          std::size_t workspace_bytes) override {
    return cublas::choose_algorithm(out, blas, product, workspace_bytes);
  }
  status multiply(raw_blas blas, const blas_command& command, raw_stream stream) override {
    return cublas::multiply(blas, command, stream);
  }

  std::string describe(status failure) const override {
    if (const auto of_blas = cublas::describe(failure)) return *of_blas;
    const auto code = static_cast<cudaError_t>(failure);
    return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ", " +
           std::to_string(failure) + ")";
  }

  failure_kind kind_of(status failure) const noexcept override {
    if (failure >= cublas::first_status) return cublas::kind_of(failure);
    constexpr status contained = 226, tensor_memory_leak = 721; // newer toolkits have names for these
    switch (failure) {
    case cudaErrorMemoryAllocation:
      return failure_kind::out_of_memory;
    // Sticky errors in the runtime's documentation: the process must end to use the device again.
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case contained:
    case tensor_memory_leak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
      return failure_kind::device_lost;
    default:
      return failure_kind::other;
    }
  }

 private:
  /// Returns the outcome. The runtime also keeps it as the thread's last error, which is cleared so that it
  /// is not reported twice.
  static status told(cudaError_t outcome) {
    if (outcome != cudaSuccess) cudaGetLastError();
    return static_cast<status>(outcome);
  }
};

} // namespace

runtime_api& cuda_runtime() {
  static real_runtime runtime;
  return runtime;
}

} // namespace paceline::gpu
