#include <cublasLt.h>

#include <bit>
#include <compare>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/check.h"
#include "cuda/gemm.cuh"
#include "cuda/gemm_file.h"

namespace pursuit::cuda {

namespace {

constexpr uint64_t workspace_bytes = uint64_t(32) << 20;  // NVIDIA's recommendation for Hopper
constexpr int candidates = 8;                             // algorithms to time

struct Settings {
  bool tf32 = false, timed = false;
  std::string file;  // of algorithms that were timed before; empty: none
};

const Settings& settings() {
  static const Settings s = [] {
    Settings read;
    const char* given = std::getenv("PURSUIT_GEMM");
    std::string words = given ? given : "";
    while (!words.empty()) {
      const size_t end = std::min(words.find(','), words.size());
      const std::string word = words.substr(0, end);
      words.erase(0, end + 1);
      if (word == "tf32")
        read.tf32 = true;
      else if (word == "timed")
        read.timed = true;
      else
        fail("gemm", "PURSUIT_GEMM has the word '" + word + "'; known are tf32 and timed");
    }
    if (const char* file = std::getenv("PURSUIT_GEMM_FILE")) read.file = file;
    if (!read.file.empty() && !read.timed && !std::filesystem::exists(read.file))
      fail("gemm", "PURSUIT_GEMM_FILE names '" + read.file +
                       "', which is not there; a run with PURSUIT_GEMM=timed writes it");
    return read;
  }();
  return s;
}

cublasLtHandle_t handle(int device) {
  static thread_local std::map<int, cublasLtHandle_t> handles;
  cublasLtHandle_t& h = handles[device];
  if (!h) CUDA_CHECK(cublasLtCreate(&h));
  return h;
}

cudaStream_t stream() { return static_cast<cudaStream_t>(current_stream()); }

// Products of one stream run one after another and share a buffer. It is never freed, since captured graphs
// contain its address.
void* workspace(int device) {
  static std::mutex mutex;
  static auto& buffers = *new std::map<std::pair<int, cudaStream_t>, Workspace<char>>;
  std::lock_guard lock(mutex);
  Workspace<char>& buffer = buffers[{device, stream()}];
  if (!buffer.data()) {
    MemoryTag tag("workspace");
    buffer = Workspace<char>(workspace_bytes);
  }
  return buffer.data();
}

std::string shapes_of(const Gemm& g) {
  const auto matrix = [](bool transposed, int64_t rows, int64_t cols, int64_t ld) {
    return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]" +
           (transposed ? " transposed" : "") + ", ld " + std::to_string(ld);
  };
  return std::string(name_of(g.factors)) + " " + matrix(g.ta, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda) +
         ", times " + matrix(g.tb, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb) + ", as " + name_of(g.result) +
         ", batch " + std::to_string(g.batch);
}

// The alignment in bytes of all matrices of a batch, at most 256.
uint32_t alignment(const void* p, int64_t stride = 0, DType type = DType::f32) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(p) | uintptr_t(stride * size_of(type)) | 256;
  return uint32_t(bits & -bits);
}

// cuBLASLt's description of a product and the algorithm that it chose.
struct Plan {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  cublasLtMatmulAlgo_t algorithm;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  // of the heuristic
  float waves = 0;                                      // blocks relative to those that the GPU runs at once
};

// The choice of an algorithm depends on these.
struct Kind {
  int64_t device, m, n, k, ta, tb, lda, ldb, ldc, ldd, batch, stride_a, stride_b, stride_c, stride_d;
  int64_t factors, result, bias, row_sums, align_a, align_b, align_c, align_d, align_vector;
  auto operator<=>(const Kind&) const = default;
};

Kind kind_of(const Gemm& g, int device) {
  return {device,
          g.m,
          g.n,
          g.k,
          g.ta,
          g.tb,
          g.lda,
          g.ldb,
          g.ldc,
          g.ldd,
          g.batch,
          g.stride_a,
          g.stride_b,
          g.stride_c,
          g.stride_d,
          int64_t(g.factors),
          int64_t(g.result),
          g.bias != nullptr,
          g.row_sums != nullptr,
          alignment(g.a, g.stride_a, g.factors),
          alignment(g.b, g.stride_b, g.factors),
          alignment(g.c, g.stride_c, g.result),
          alignment(g.d, g.stride_d, g.result),
          alignment(g.bias ? g.bias : g.row_sums)};
}

template <class T> void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, T value) {
  CUDA_CHECK(cublasLtMatmulDescSetAttribute(&plan.product, attribute, &value, sizeof value));
}

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::i8:
      return CUDA_R_8I;
    case DType::i32:
      return CUDA_R_32I;
    default:
      return CUDA_R_32F;
  }
}

// cuBLASLt is column-major: our [rows, cols] is its [cols, rows].
void describe(cublasLtMatrixLayoutOpaque_t& layout, DType type, int64_t rows, int64_t cols, int64_t ld,
              int64_t batch, int64_t stride) {
  CUDA_CHECK(cublasLtMatrixLayoutInit(&layout, type_of(type), uint64_t(cols), uint64_t(rows), ld));
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    CUDA_CHECK(cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
}

void describe(Plan& plan, const Gemm& g) {
  const bool tf32 = settings().tf32 && g.factors == DType::f32, integers = g.factors == DType::i8;
  CUDA_CHECK(cublasLtMatmulDescInit(&plan.product,
                                    integers ? CUBLAS_COMPUTE_32I
                                    : tf32   ? CUBLAS_COMPUTE_32F_FAST_TF32
                                             : CUBLAS_COMPUTE_32F,
                                    integers ? CUDA_R_32I : CUDA_R_32F));
  set(plan, CUBLASLT_MATMUL_DESC_TRANSA, g.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan, CUBLASLT_MATMUL_DESC_TRANSB, g.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (g.bias) set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (g.row_sums) set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
  describe(plan.a, g.factors, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda, g.batch, g.stride_a);
  describe(plan.b, g.factors, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb, g.batch, g.stride_b);
  describe(plan.c, g.result, g.m, g.n, g.ldc, g.batch, g.stride_c);
  describe(plan.d, g.result, g.m, g.n, g.ldd, g.batch, g.stride_d);
}

// The bias pointer is part of the description, unlike those of the matrices.
void point_to_vector(Plan& plan, const Gemm& g) {
  if (g.bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  if (g.row_sums) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.row_sums);
}

cublasStatus_t start(Plan& plan, const Gemm& g, int device) {
  constexpr int32_t one = 1, zero = 0;  // alpha and beta of integers, in the type of their sums
  const bool integers = g.factors == DType::i8;
  const void *alpha = integers ? static_cast<const void*>(&one) : &g.alpha,
             *beta = integers ? static_cast<const void*>(&zero) : &g.beta;
  return cublasLtMatmul(handle(device), &plan.product, alpha, g.b, &plan.b, g.a, &plan.a, beta, g.c, &plan.c,
                        g.d, &plan.d, &plan.algorithm, workspace(device), workspace_bytes, stream());
}

void run(Plan& plan, const Gemm& g, int device) {
  const cublasStatus_t status = start(plan, g, device);
  if (status != CUBLAS_STATUS_SUCCESS) fail("gemm", shapes_of(g) + ": " + text_of(status) + device_state());
}

struct Event {
  cudaEvent_t e;
  Event() { CUDA_CHECK(cudaEventCreate(&e)); }
  ~Event() { cudaEventDestroy(e); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// The fastest of three runs after a warm-up, in ms; infinity if the library refuses the algorithm after all.
float measure(Plan& plan, const Gemm& g, int device) {
  const Event begin, end;
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 4; ++i) {
    CUDA_CHECK(cudaEventRecord(begin.e, stream()));
    if (start(plan, g, device) != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<float>::infinity();
    CUDA_CHECK(cudaEventRecord(end.e, stream()));
    CUDA_CHECK(cudaEventSynchronize(end.e));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin.e, end.e));
    if (i > 0) best = std::min(best, ms);
  }
  return best;
}

// A product cannot be timed during graph capture, nor if each run would add to D.
bool can_be_timed(const Gemm& g) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(stream(), &capture));
  return capture == cudaStreamCaptureStatusNone && (g.c != g.d || g.beta == 0);
}

// The file of timed algorithms, read on first use.
class KeptChoices {
 public:
  // Whether there is one for the product, which the plan then has.
  bool find(Plan& plan, const Kind& product, const Gemm& g) {
    if (settings().file.empty()) return false;
    std::lock_guard lock(mutex_);
    const GemmChoices& kept = of(int(product.device));
    const auto at = kept.algorithms.find(key(product));
    if (at == kept.algorithms.end()) return false;
    plan.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(at->second);
    cublasLtMatmulHeuristicResult_t result;
    plan.status = cublasLtMatmulAlgoCheck(handle(int(product.device)), &plan.product, &plan.b, &plan.a,
                                          &plan.c, &plan.d, &plan.algorithm, &result);
    if (plan.status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_bytes)
      fail("gemm", "'" + settings().file + "' has an algorithm for " + shapes_of(g) +
                       " that cuBLASLt refuses; delete the file");
    plan.waves = result.wavesCount;
    return true;
  }
  void add(const Plan& plan, const Kind& product) {
    if (settings().file.empty()) return;
    std::lock_guard lock(mutex_);
    GemmChoices& kept = of(int(product.device));
    kept.algorithms[key(product)] = std::bit_cast<GemmChoices::Algorithm>(plan.algorithm);
    write_gemm_choices(settings().file, kept);
  }

 private:
  static GemmChoices::Product key(const Kind& product) {
    const auto numbers = std::bit_cast<std::array<int64_t, 24>>(product);
    GemmChoices::Product key;
    std::copy(numbers.begin() + 1, numbers.end(), key.begin());
    return key;
  }
  GemmChoices& of(int device) {
    const std::string made_for = cuda::describe(device) + ", cuBLASLt " +
                                 std::to_string(cublasLtGetVersion()) + (settings().tf32 ? ", tf32" : "");
    if (choices_.made_for != made_for)
      choices_ = std::filesystem::exists(settings().file) ? read_gemm_choices(settings().file, made_for)
                                                          : GemmChoices{made_for, {}};
    return choices_;
  }

  std::mutex mutex_;
  GemmChoices choices_;
};

KeptChoices& kept_choices() {
  static KeptChoices& all = *new KeptChoices;
  return all;
}

void choose(Plan& plan, const Kind& product, const Gemm& g, int device) {
  if (kept_choices().find(plan, product, g)) return;
  cublasLtMatmulPreferenceOpaque_t preference;
  CUDA_CHECK(cublasLtMatmulPreferenceInit(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    CUDA_CHECK(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Partial sums over k must be added in f32, never in the result's type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(g.b, g.stride_b, g.factors));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(g.a, g.stride_a, g.factors));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(g.c, g.stride_c, g.result));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(g.d, g.stride_d, g.result));

  const bool timed = settings().timed && can_be_timed(g);
  cublasLtMatmulHeuristicResult_t found[candidates];
  int count = 0;
  plan.status = cublasLtMatmulAlgoGetHeuristic(handle(device), &plan.product, &plan.b, &plan.a, &plan.c,
                                               &plan.d, &preference, timed ? candidates : 1, found, &count);
  if (plan.status != CUBLAS_STATUS_SUCCESS) return;
  int best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; timed && i < count; ++i) {
    plan.algorithm = found[i].algo;
    const float ms = found[i].state == CUBLAS_STATUS_SUCCESS ? measure(plan, g, device) : least;
    if (ms >= least) continue;
    least = ms;
    best = i;
  }
  plan.algorithm = found[best].algo;
  plan.status = count ? found[best].state : CUBLAS_STATUS_NOT_SUPPORTED;
  plan.waves = found[best].wavesCount;
  if (timed && plan.status == CUBLAS_STATUS_SUCCESS) kept_choices().add(plan, product);
}

Plan& plan_for(const Gemm& g, int device) {
  static thread_local std::map<Kind, Plan> plans;
  const auto [at, is_new] = plans.try_emplace(kind_of(g, device));
  Plan& plan = at->second;
  if (!is_new) return plan;
  describe(plan, g);
  point_to_vector(plan, g);
  choose(plan, at->first, g, device);
  if (g.row_sums && plan.status == CUBLAS_STATUS_SUCCESS) {
    // A weight gradient has small m and n and a large k: without split-k it would use only a few
    // multiprocessors. If cuBLASLt splits k only without the row sums, computing them separately is faster.
    Gemm alone = g;
    alone.row_sums = nullptr;
    if (plan.waves < std::min(1.0f, plan_for(alone, device).waves)) plan.status = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return plan;
}

}  // namespace

void gemm(const Gemm& given) {
  const int device = current_device();
  gemm_by(given, [&](Gemm g) {
    if (!g.c) {
      g.c = g.d;
      g.ldc = g.ldd;
      g.stride_c = g.stride_d;
      g.beta = 0;
    }
    Plan& plan = plan_for(g, device);
    if (plan.status != CUBLAS_STATUS_SUCCESS) {
      if (g.bias || g.row_sums) return false;
      fail("gemm", shapes_of(g) + ": no algorithm, " + text_of(plan.status) + device_state());
    }
    point_to_vector(plan, g);
    run(plan, g, device);
    return true;
  });
}

}  // namespace pursuit::cuda
