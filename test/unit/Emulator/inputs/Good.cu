// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels without a fault, which also become PTX.

#include "Device.h"

KERNEL saxpy(int n, float a, const float *__restrict x, float *__restrict y) {
  int i = globalX;
  if (i < n)
    y[i] += a * x[i];
}

/// One sum a block, by a tree in shared memory.
KERNEL blockSum(int n, const float *x, float *sums) {
  SHARED float s[128];
  int t = threadX, i = globalX;
  s[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half)
      s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0)
    sums[blockX] = s[0];
}

/// The same in dynamic shared memory.
extern SHARED float dynamic[];
KERNEL blockSumDynamic(int n, const float *x, float *sums) {
  int t = threadX, i = globalX, threads = blockDimX;
  dynamic[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half)
      dynamic[t] += dynamic[t + half];
    __syncthreads();
  }
  if (t == 0)
    sums[blockX] = dynamic[0];
}

/// One sum a warp, by shuffles.
KERNEL warpSum(const float *x, float *sums) {
  float value = x[globalX];
  for (int delta = 16; delta > 0; delta /= 2)
    value += shuffleDown(value, delta);
  if (laneId == 0)
    sums[globalX / 32] = value;
}

/// The value at a distance, or all ones in the last lanes of a segment of 8.
KERNEL shuffles(const float *x, float *idx, float *up, float *down, float *bfly) {
  int i = threadX;
  idx[i] = __nvvm_shfl_sync_idx_f32(ALL_LANES, x[i], 3, 0x181f);
  up[i] = __nvvm_shfl_sync_up_f32(ALL_LANES, x[i], 2, 0x1800);
  down[i] = __nvvm_shfl_sync_down_f32(ALL_LANES, x[i], 2, 0x181f);
  bfly[i] = __nvvm_shfl_sync_bfly_f32(ALL_LANES, x[i], 5, 0x181f);
}

KERNEL votes(const int *x, unsigned *ballot, unsigned *match, int *sum, int *least, int *all) {
  int i = threadX;
  ballot[i] = __nvvm_vote_ballot_sync(ALL_LANES, x[i] > 2);
  match[i] = __nvvm_match_any_sync_i32(ALL_LANES, x[i]);
  sum[i] = __nvvm_redux_sync_add(x[i], ALL_LANES);
  least[i] = __nvvm_redux_sync_min(x[i], ALL_LANES);
  all[i] = __nvvm_vote_all_sync(ALL_LANES, x[i] >= 0);
}

/// Barriers that count: how many threads hold an odd number, whether any and
/// whether all do.
KERNEL barrierReductions(const int *x, int *count, int *any, int *all) {
  int i = threadX, odd = x[i] & 1;
  count[i] = __nvvm_bar0_popc(odd);
  any[i] = __nvvm_bar0_or(odd);
  all[i] = __nvvm_bar0_and(odd);
}

/// Each half of the block has a barrier of its own.
KERNEL namedBarriers(const float *x, float *y) {
  SHARED float s[128];
  int t = threadX, group = t / 64;
  s[t] = x[t];
  __nvvm_barrier_sync_cnt(1 + group, 64);
  y[t] = s[group * 64 + (63 - t % 64)];
}

/// Warps exchange values through shared memory, ordered by the warp alone.
KERNEL warpExchange(const float *x, float *y) {
  SHARED float s[64];
  int t = threadX;
  s[t] = x[t];
  __nvvm_bar_warp_sync(ALL_LANES);
  y[t] = s[t ^ 31];
}

KERNEL histogram(int n, const int *x, int *bins) {
  SHARED int local[16];
  if (threadX < 16)
    local[threadX] = 0;
  __syncthreads();
  if (globalX < n)
    __nvvm_atom_add_gen_i(&local[x[globalX] & 15], 1);
  __syncthreads();
  if (threadX < 16)
    __nvvm_atom_add_gen_i(&bins[threadX], local[threadX]);
}

/// Tiles travel to shared memory by asynchronous copies of 16 bytes.
KERNEL asyncReverse(const float *x, float *y) {
  SHARED __attribute__((aligned(16))) float s[128];
  int t = threadX;
  if (t < 32)
    __nvvm_cp_async_cg_shared_global_16((SharedPointer)&s[4 * t],
                                        (GlobalPointer)&x[4 * t]);
  __nvvm_cp_async_commit_group();
  __nvvm_cp_async_wait_group(0);
  __syncthreads();
  y[t] = s[127 - t];
}

typedef float float4 __attribute__((ext_vector_type(4)));
KERNEL copyVector(const float4 *__restrict x, float4 *__restrict y) { y[globalX] = x[globalX]; }

/// A column of a row-major matrix 32 wide: every lane in a sector of its own.
KERNEL copyColumn(const float *x, float *y) { y[threadX] = x[threadX * 32]; }

CONSTANT float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};
KERNEL constantTable(float *y) { y[threadX] = weights[threadX & 3]; }

DEVICE float fastExp(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
KERNEL maths(const float *x, float *y, int n) {
  int i = threadX;
  float v = x[i];
  y[i] = fastExp(v);
  y[n + i] = __nvvm_lg2_approx_f(v);
  y[2 * n + i] = __nvvm_rsqrt_approx_f(v);
  y[3 * n + i] = __nvvm_rcp_approx_ftz_f(v);
  y[4 * n + i] = __nvvm_fma_rn_f(v, v, 1.0f);
  y[5 * n + i] = __nvvm_sqrt_rn_f(v);
  y[6 * n + i] = __nvvm_fmax_f(v, 1.5f);
  y[7 * n + i] = __nvvm_saturate_f(v);
  y[8 * n + i] = __nvvm_add_rn_ftz_f(v, 1e-40f);
}

struct Pair {
  int n;
  float scale;
};
KERNEL byValue(Pair pair, float *y) {
  if (threadX < pair.n)
    y[threadX] = pair.scale * threadX;
}

/// A local array indexed at run time stays in memory.
KERNEL localArray(const int *x, int *y) {
  int a[32];
  for (int i = 0; i < 32; ++i)
    a[i] = i * i;
  y[threadX] = a[x[threadX] & 31];
}

__attribute__((launch_bounds(64))) KERNEL bounded(float *y) { y[threadX] = 1.0f; }
