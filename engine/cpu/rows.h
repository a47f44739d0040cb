#pragma once
#include <cstdint>

// Vectorised single-threaded kernels over rows of numbers of type R: float (fast) and double (for gradient
// checks). The caller splits rows over threads.
//
// Conventions. A matrix argument is (pointer, rows, cols, ld): row i starts at pointer + i * ld, with ld >=
// cols, in elements. Two arguments may be the same array with the same stride (the kernel then works in
// place); partial overlap is not allowed. Only pointers documented as nullable may be null, unless the size
// is 0. NaN and infinity propagate as the formulas say. A float sum over one row (or 4096 elements) uses 16
// or more float partial sums; longer sums use double. Instruction sets with and without fused multiply-add
// agree up to rounding, not bit for bit.
namespace pursuit {

// Coefficients of one AdamW step (engine/sizes/step_numbers.h). Double, as 1 - beta loses digits in float.
struct AdamStep {
  double keep, rate, unbias, beta1, beta2, eps, grad_scale;
};

struct SgdStep {
  double lr, momentum, weight_decay;
  bool nesterov;
  double grad_scale;
};

// Options of one iteration of Principal Attention Pursuit. shrink = false takes S = X (no clipping; tau is
// not used). dual_plus = false is Z = K - S - U as in the authors' code, true the exact minimiser Z = K - S +
// U.
template <class R> struct RpcStep {
  R tau;
  bool shrink, dual_plus;
};

// How attention's scores become weights: P = clip((zeta - gamma) softmax(scale S + mask) + gamma, 0, 1).
template <class R> struct AttentionRows {
  R scale = 1;
  int64_t causal = -1;      // as for softmax_rows
  const R* mask = nullptr;  // nullable, [rows, cols] with row stride ld_mask
  int64_t ld_mask = 0;
  R gamma = 0, zeta = 1;  // 0 and 1: no clipping
};

// A point between two rows of a matrix: (1 - weight) row low + weight row high.
template <class R> struct Tap {
  int64_t low, high;
  R weight;
};

// A run of adjacent columns of an implicit matrix: from `column` up to the next run's
// column.
struct Run {
  int64_t column, offset;
};

// A right factor [k, n] as `pack` has laid it out: numbers of type R, or for bf16 pairs of them.
template <class R> struct Packed {
  const R* numbers;
  int64_t n, k;
};

constexpr int64_t most_few_rows = 4;

template <class R> struct RowKernels {
  const char* isa;  // "sse2", "avx2", "avx512" or "f64"

  // --- matrix products

  // c = alpha op(a) op(b) + beta c, see gemm in engine/cpu/gemm.h; m, n, k > 0. Null for double, which uses
  // OpenBLAS.
  void (*gemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, R alpha, const R* a, int64_t lda,
               const R* b, int64_t ldb, R beta, R* c, int64_t ldc);

  // c = alpha a a^T for a [n, k], computing one triangle. n, k > 0. Null for double.
  void (*gram)(int64_t n, int64_t k, R alpha, const R* a, int64_t lda, R* c, int64_t ldc);
  // Packs a right operand op(b) [k, n] once for many products, in the order in which they read it: `to` has
  // packed_size(n, k) numbers and is filled by `parts` calls, which threads may share; then c = alpha a op(b)
  // + beta c with its first k rows and n columns. Null for double.
  int64_t (*packed_size)(int64_t n, int64_t k);
  void (*pack)(bool tb, int64_t n, int64_t k, const R* b, int64_t ldb, int64_t part, int64_t parts, R* to);
  void (*gemm_packed)(int64_t m, int64_t n, int64_t k, R alpha, const R* a, int64_t lda, Packed<R> b, R beta,
                      R* c, int64_t ldc);

  // y = x w^T for at most most_few_rows rows of x and w [n, k], which is read once where it lies; w also as
  // bf16. Null for double.
  void (*few_rows)(int64_t m, int64_t n, int64_t k, const R* x, int64_t ldx, const R* w, int64_t ldw, R* y,
                   int64_t ldy);
  void (*few_rows_bf16)(int64_t m, int64_t n, int64_t k, const R* x, int64_t ldx, const uint16_t* w,
                        int64_t ldw, R* y, int64_t ldy);

  // For measuring a machine: `rounds` of independent multiply-adds in registers, of which it returns the
  // number; and the sum of x [n], at the pace at which memory is read. Null for double.
  int64_t (*multiply_adds)(int64_t rounds);
  R (*read_sum)(const R* x, int64_t n);

  // x <- x + x^T, x [n, n].
  void (*symmetrize)(R* x, int64_t n, int64_t ld);

  // --- convolutions; null for double

  // An unfolded image b [k, n] (im2col) that is not stored: each row consists of the same runs of x, shifted,
  //   b_ij = x[shift[i] + run.offset + j - run.column] with the run of column j.
  // The runs start at column 0 and end with one at column n.

  // c = a b
  void (*gemm_runs)(int64_t m, int64_t n, int64_t k, const R* a, int64_t lda, const R* x,
                    const int64_t* shift, const Run* runs, R* c, int64_t ldc);
  // y = b, stored as dense [k, n]
  void (*gather_runs)(const R* x, const int64_t* shift, int64_t k, const Run* runs, int64_t n, R* y);
  // y_ij = bias + sum_t w_t x[tap[t] + i row_step + j]. Reads x up to 15 numbers beyond a row's last window.
  void (*window_sums)(const R* x, int64_t row_step, const int64_t* tap, const R* w, int64_t taps, R bias,
                      R* y, int64_t rows, int64_t cols, int64_t ldy);
  // sums[t] += sum_ij g_ij x[tap[t] + i row_step + j]
  void (*window_weight_sums)(const R* x, int64_t row_step, const int64_t* tap, int64_t taps, const R* g,
                             int64_t ldg, int64_t rows, int64_t cols, R* sums);

  // --- softmax

  // causal < 0: every column is visible; otherwise row i sees columns j <= i + causal and the others give 0.

  // y = exp(x), at most 2 ulp off in [-87, 88]; below -87.34 exactly 0.
  void (*exp)(const R* x, R* y, int64_t n);
  // s_ij <- exp(s_ij - m_i) / t_i with m_i the row's maximum and t_i = sum_j exp(s_ij - m_i). A row without a
  // visible finite entry becomes 0. stats (nullable) [rows, 2] receives m_i and 1 / t_i (0 and 0 for such a
  // row).
  void (*softmax_rows)(R* s, int64_t rows, int64_t cols, int64_t ld, R* stats, int64_t causal);
  // Recomputes the same softmax from its stats, bit for bit. Stores two numbers per row instead of their
  // log-sum-exp: for large scores the rounding of that one number would be a relative error of the whole row.
  void (*softmax_again_rows)(R* s, int64_t rows, int64_t cols, int64_t ld, const R* stats, int64_t causal);
  // d holds dP and receives dS_ij = p_ij (dP_ij - sum_k p_ik dP_ik).
  void (*softmax_grad_rows)(const R* p, R* d, int64_t rows, int64_t cols, int64_t ld);
  // p <- clip((zeta - gamma) p + gamma, 0, 1), the clipped softmax.
  void (*clipped_softmax_rows)(R* p, int64_t rows, int64_t cols, int64_t ld, R gamma, R zeta);
  // d <- (zeta - gamma) d where (zeta - gamma) p + gamma lies in [0, 1], else 0; p is before clipping.
  void (*clipped_softmax_grad_rows)(const R* p, R* d, int64_t rows, int64_t cols, int64_t ld, R gamma,
                                    R zeta);

  // --- attention: one pass over a block of scores, whose rows stay in the L1 cache meanwhile

  // s holds scores and receives the weights, stats (nullable) what softmax_rows stores. If `rounded` is given
  // (of s's stride), it receives the weights as bf16, and s is left undefined.
  void (*attention_rows)(R* s, int64_t rows, int64_t cols, int64_t ld, const AttentionRows<R>& map, R* stats,
                         uint16_t* rounded);
  // s holds the same scores again and receives the same weights; d holds dP and receives dS. rounded_s and
  // rounded_d as above.
  void (*attention_grad_rows)(R* s, R* d, int64_t rows, int64_t cols, int64_t ld, const AttentionRows<R>& map,
                              const R* stats, uint16_t* rounded_s, uint16_t* rounded_d);

  // --- activations

  // y = x Phi(x), Phi the normal distribution function (exact, "erf" GELU).
  void (*gelu)(const R* x, R* y, int64_t n);
  // h <- h + bias, y = gelu(h).
  void (*bias_gelu_rows)(R* h, const R* bias, R* y, int64_t rows, int64_t cols, int64_t ldh, int64_t ldy);
  // d holds dY and receives dH = dY (Phi(h) + h phi(h)); y (nullable) receives gelu(h).
  void (*gelu_grad_rows)(const R* h, R* d, R* y, int64_t rows, int64_t cols, int64_t ldh, int64_t ldd,
                         int64_t ldy);
  // h <- max(h + bias, 0); NaN stays.
  void (*bias_relu_rows)(R* h, const R* bias, int64_t rows, int64_t cols, int64_t ldh);
  // d holds dY for y = max(h, 0) and receives dH.
  void (*relu_grad_rows)(const R* y, R* d, int64_t rows, int64_t cols, int64_t ldy, int64_t ldd);
  // y = max(x, 0); NaN stays.
  void (*relu)(const R* x, R* y, int64_t n);
  // At most 2 ulp off.
  void (*tanh)(const R* x, R* y, int64_t n);
  // y = 1 / (1 + exp(-x)).
  void (*sigmoid)(const R* x, R* y, int64_t n);
  // d holds dY and receives dX = dY y (1 - y).
  void (*sigmoid_grad)(const R* y, R* d, int64_t n);

  // --- bias, sums, normalisation

  // y <- y + bias + residual; residual is nullable.
  void (*bias_rows)(R* y, const R* bias, const R* residual, int64_t rows, int64_t cols, int64_t ldy,
                    int64_t ldr);
  // out_j = sum_i x_ij, added to out if accumulate.
  void (*column_sums)(const R* x, int64_t rows, int64_t cols, int64_t ld, R* out, bool accumulate);
  // sum_ij |x_ij|.
  double (*abs_sum_rows)(const R* x, int64_t rows, int64_t cols, int64_t ld);
  // y = (x - mean) rstd weight + bias per row, rstd = 1 / sqrt(var + eps), biased variance about the mean.
  // Dense rows; mean [rows] and rstd [rows] are nullable.
  void (*layer_norm_rows)(const R* x, const R* weight, const R* bias, R* y, R* mean, R* rstd, int64_t rows,
                          int64_t cols, R eps);
  // With n = (x - mean) rstd and g = dy weight: dx = rstd (g - average(g) - n average(g n)), dweight += sum
  // dy n, dbias += sum dy. dx may be dy.
  void (*layer_norm_grad_rows)(const R* x, const R* dy, const R* weight, const R* mean, const R* rstd, R* dx,
                               R* dweight, R* dbias, int64_t rows, int64_t cols);
  // Mean and biased variance about it.
  void (*moments)(const R* x, int64_t n, R* mean, R* variance);
  // y = (x - centre) factor + shift.
  void (*normalise)(const R* x, R* y, int64_t n, R centre, R factor, R shift);
  // sum dy and sum dy (x - centre).
  void (*centred_sums)(const R* x, const R* dy, int64_t n, R centre, R* sum, R* product);
  // dx = factor dy - shift - slope (x - centre). dx may be dy.
  void (*centred_grad)(const R* x, const R* dy, R* dx, int64_t n, R centre, R factor, R shift, R slope);
  // y = x rrms weight per row, rrms = 1 / sqrt(average x^2 + eps). Dense rows; rrms [rows].
  void (*rms_norm_rows)(const R* x, const R* weight, R* y, R* rrms, int64_t rows, int64_t cols, R eps);
  // With n = x rrms and g = dy weight: dx = rrms (g - n average(g n)), dweight += sum dy n. dx may be dy.
  void (*rms_norm_grad_rows)(const R* x, const R* dy, const R* weight, const R* rrms, R* dx, R* dweight,
                             int64_t rows, int64_t cols);

  // --- loss

  // Target t = (1 - smoothing) t' + smoothing / cols, t' the one-hot label or the given distribution.
  // loss_i = -sum_j t_ij log softmax(z_i)_j, grad_ij = scale (softmax(z_i)_j sum_k t_ik - t_ij).
  // grad is nullable and may be the logits.

  // Adds columns to the running stats [rows, 2]: the largest number m of the row's earlier columns and the
  // sum of their exp(z - m), initially -inf and 0.
  void (*exp_sum_rows)(const R* logits, int64_t rows, int64_t cols, int64_t ld, R* stats);
  // Rows labelled ignore_index get loss 0 and gradient 0. Returns -1, or the first row whose label is neither
  // ignore_index nor in [0, cols); that row and later ones are not computed.
  int64_t (*cross_entropy_rows)(const R* logits, const int64_t* labels, int64_t rows, int64_t cols,
                                int64_t ld, int64_t ignore_index, R smoothing, R scale, R* loss, R* grad,
                                int64_t ldg);
  // targets [rows, cols] with stride ldt. Entries with target 0 contribute 0, even if the logit is -inf.
  void (*soft_cross_entropy_rows)(const R* logits, const R* targets, int64_t rows, int64_t cols, int64_t ld,
                                  int64_t ldt, R smoothing, R scale, R* loss, R* grad, int64_t ldg);

  // The sum of softmax cross-entropies at points interpolated between rows of logits, such as pixels of a
  // line between patches. Points labelled ignore_index are skipped; all other labels are in [0, cols). grad
  // (nullable) [rows of logits, cols] += the gradient of the sum. z [cols] is scratch. Dense rows.
  double (*cross_entropy_between)(const R* logits, const Tap<R>* taps, const int64_t* labels, int64_t points,
                                  int64_t cols, int64_t ignore_index, R* z, R* grad);
  // The argmax of each interpolated point, first of ties; a NaN counts as the largest.
  void (*argmax_between)(const R* logits, const Tap<R>* taps, int64_t points, int64_t cols, R* z, int64_t* y);

  // --- optimizers and plain arrays

  // g' = grad_scale g; m <- beta1 m + (1 - beta1) g'; v <- beta2 v + (1 - beta2) g'^2;
  // p <- keep p - rate m / (sqrt(unbias v) + eps).
  void (*adamw)(R* p, const R* g, R* m, R* v, int64_t n, const AdamStep& step);
  // g' = grad_scale g + weight_decay p; b <- momentum b + g'; p <- p - lr (nesterov ? g' + momentum b : b).
  // momentum_buffer is nullable: plain p <- p - lr g'.
  void (*sgd)(R* p, const R* g, R* momentum_buffer, int64_t n, const SgdStep& step);
  // e <- decay e + (1 - decay) p.
  void (*ema)(R* e, const R* p, int64_t n, double decay);
  double (*sum_squares)(const R* x, int64_t n);
  void (*axpy)(R a, const R* x, R* y, int64_t n);             // y <- a x + y
  void (*add)(const R* a, const R* b, R* y, int64_t n);       // y = a + b
  void (*multiply)(const R* a, const R* b, R* y, int64_t n);  // y = a b
  void (*scale)(R a, R* x, int64_t n);                        // x <- a x

  // --- RPC-Attention

  // Scaled dual U = Y / mu. X = K - L + U, S = soft_threshold(X, tau), Z = K - S - U (or + U), then
  // L' = softmax(scale Z Z^T) V (computed elsewhere), U' = U + K - L' - S. With X - S = clip(X, -tau, tau):
  //   Z = clip(X) + L - 2 U,  U' = Z + 2 U - L'     (dual_plus = false)
  //   Z = clip(X) + L,        U' = Z - L'           (dual_plus = true)
  // k and dk have row strides ldk and lddk, everything else is dense [rows, cols].
  // mask (nullable) receives what the gradient needs of X:
  // 0 for |X| < tau, 1 for X >= tau, 2 for X <= -tau.

  // Iteration 1 (L = U = 0): z = clip(k). u (nullable) receives 0.
  void (*rpc_first_rows)(const R* k, int64_t ldk, R* u, R* z, uint8_t* mask, int64_t rows, int64_t cols,
                         RpcStep<R> step);
  // Iterations 2...n: from l = L_{t-1}, u = U_{t-2} and z_before = Z_{t-1} makes u = U_{t-1} and z = Z_t.
  void (*rpc_next_rows)(const R* k, int64_t ldk, const R* l, R* u, const R* z_before, R* z, uint8_t* mask,
                        int64_t rows, int64_t cols, RpcStep<R> step);
  // Gradient of iteration t, called for t = n...1 after the attention's own gradient. In: gz, the attention's
  // dLoss/dZ_t; gu = dLoss/dU_t (0 for t = n). With G = gz + gu:
  //   dX = G inside;  dk += dX;  dL = G - dX;  gu <- 2 (gu - G) + dX  (dual_plus: gu <- dX);
  //   go = dL - gu, what reaches the attention output L_{t-1} through X_t, Z_t and U_{t-1}.
  // go may be gz. For t = 1 pass go = null; gu is then unchanged. Returns dLoss/dtau of this iteration, the
  // sum of G sign(X) where |X| >= tau (0 without shrink).
  double (*rpc_grad_rows)(const R* gz, const uint8_t* mask, R* gu, R* go, R* dk, int64_t lddk, int64_t rows,
                          int64_t cols, RpcStep<R> step);
  // dk += c sign(k), sign(0) = 0: the path through tau, c = dtau * dtau/d||K||_1.
  void (*rpc_tau_grad_rows)(const R* k, int64_t ldk, R c, R* dk, int64_t lddk, int64_t rows, int64_t cols);

  // --- random numbers

  // u_i = philox_uniform(seed, stream, first + i) of engine/base/random.h, bit for bit; first is a multiple
  // of 4.
  void (*philox_uniforms)(uint64_t seed, uint64_t stream, uint64_t first, float* u, int64_t n);

  // --- bfloat16

  void (*bf16_to_f32)(const uint16_t* x, float* y, int64_t n);
  // Rounds to nearest, ties to even; NaN stays NaN.
  void (*f32_to_bf16)(const float* x, uint16_t* y, int64_t n);
};

// The kernels for the best instruction set of this CPU, or for the one named by the environment variable
// PURSUIT_ISA (sse2, avx2, avx512, amx: avx512's, see amx.h). Selected at the first call. Throws like
// choose_rows.
template <class R> const RowKernels<R>& rows();
template <> const RowKernels<float>& rows<float>();
template <> const RowKernels<double>& rows<double>();

// The kernels for a named instruction set; null or "" selects the best of this CPU. Throws Error if the name
// is unknown or this CPU lacks the instructions.
const RowKernels<float>& choose_rows(const char* isa);

// Whether choose_rows(isa) would succeed.
bool isa_supported(const char* isa);

}  // namespace pursuit
