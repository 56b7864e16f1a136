#include "comm/nccl_stub.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace lockstep::test {
namespace {

NcclStub* current = new NcclStub;

}  // namespace

NcclStub& nccl_stub() {
  return *current;
}

void reset_nccl_stub() {
  // The old one stays for threads that were left behind.
  current = new NcclStub;
}

}  // namespace lockstep::test

using lockstep::test::nccl_stub;

struct ncclComm {
  std::atomic<bool> aborted{false};
  int rank = 0;
  int size = 1;
};

namespace {

void pause_shortly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ncclResult_t operate(ncclComm_t comm) {
  static const std::thread::id first = std::this_thread::get_id();
  if (std::this_thread::get_id() != first) ++nccl_stub().operations_on_other_threads;
  ++nccl_stub().operations;
  while (nccl_stub().operations_hang && !comm->aborted) pause_shortly();
  return comm->aborted ? ncclRemoteError : ncclSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-*): the names are CUDA's and NCCL's.
extern "C" {

const char* cudaGetErrorName(cudaError_t) {
  return "cudaStub";
}
const char* cudaGetErrorString(cudaError_t) {
  return "stub";
}
cudaError_t cudaDriverGetVersion(int* version) {
  return *version = 13000, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return *version = 13000, cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  return *count = 1, cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  return *device = 0, cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  *stream = reinterpret_cast<cudaStream_t>(std::malloc(1));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return std::free(stream), cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = nccl_stub().capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) {
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return *memory = std::malloc(bytes), cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  return std::free(memory), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return std::memset(memory, value, bytes), cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = reinterpret_cast<cudaEvent_t>(std::malloc(1));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return std::free(event), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return nccl_stub().gpu_hangs ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}

const char* ncclGetErrorString(ncclResult_t) {
  return "stub";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return std::memset(id, 1, sizeof *id), ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  nccl_stub().blocking = config->blocking;
  auto& stub = nccl_stub();
  while (stub.joining_hangs) pause_shortly();
  ++stub.communicators;
  *comm = new ncclComm{.aborted = false, .rank = rank, .size = size};
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* part, ncclConfig_t*) {
  if (const ncclResult_t result = operate(comm); result != ncclSuccess) return result;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  ++nccl_stub().communicators;
  *part = new ncclComm{.aborted = false, .rank = 0, .size = 1};
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  return *state = ncclSuccess, ncclSuccess;
}
// Communicators are never freed: a call may still be in one.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  return ++nccl_stub().aborted, ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return ++nccl_stub().destroyed, ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t, void*, size_t, void** handle) {
  *handle = &nccl_stub();
  return ++nccl_stub().registered, ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) {
  return ++nccl_stub().deregistered, ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  nccl_stub().allocated_bytes += bytes;
  return *memory = std::malloc(bytes), ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  return ++nccl_stub().freed, std::free(memory), ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t comm,
                        cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t comm, cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                               cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  return operate(comm);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  return operate(comm);
}
}
// NOLINTEND(readability-*)
