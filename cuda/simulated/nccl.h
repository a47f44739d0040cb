#pragma once
#include <cstddef>

// NCCL on the simulated GPU: the calls that engine/distributed/nccl.cpp makes, with NCCL's names and
// semantics. Ranks are processes, or communicators of one thread inside ncclGroupStart and ncclGroupEnd. What
// hangs or gives undefined results in NCCL hangs here (a missing rank, two communicators of one thread
// without a group) or throws an Error that says so (calls that differ between the ranks).
using cudaStream_t = void*;
using ncclComm_t = struct ncclComm*;

constexpr int NCCL_UNIQUE_ID_BYTES = 128;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
enum ncclResult_t { ncclSuccess = 0, ncclSystemError = 2, ncclInvalidUsage = 5, ncclRemoteError = 6 };
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
