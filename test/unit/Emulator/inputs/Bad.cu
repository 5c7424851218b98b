// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with one fault each. The tests find the line by its comment.

#include "Device.h"

KERNEL missingBarrier(const float *x, float *sums) {
  SHARED float s[128];
  int t = threadX;
  s[t] = x[t];
  for (int half = 64; half > 0; half /= 2) {
    if (t < half)
      s[t] += s[t + half]; // unordered
    __syncthreads();
  }
  if (t == 0)
    sums[0] = s[0];
}

KERNEL pastTheEnd(int n, float *y) {
  int i = globalX;
  if (i <= n)
    y[i] = 1.0f; // one too far
}

KERNEL pastShared(float *y) {
  SHARED float a[32];
  SHARED float b[32];
  int t = threadX;
  b[t] = 2.0f;
  a[t + 1] = 1.0f; // one too far
  __syncthreads();
  y[t] = a[t] + b[t];
}

KERNEL divergentBarrier(float *y) {
  if (threadX < 16)
    __syncthreads(); // not for all
  y[threadX] = 1.0f;
}

KERNEL twoBarriers(float *y) {
  if (threadX < 16) {
    y[threadX] = 1.0f;
    __syncthreads();
  } else {
    y[threadX] = 2.0f;
    __syncthreads();
    y[threadX] = 3.0f;
  }
}

KERNEL uninitialized(float *y) {
  SHARED float s[64];
  int t = threadX;
  if (t < 63)
    s[t] = 1.0f;
  __syncthreads();
  y[t] = s[t]; // thread 63
}

KERNEL globalRace(float *y) { y[threadX / 2] = threadX; }

KERNEL blockRace(float *y) {
  if (threadX == 0)
    y[0] = blockX;
}

KERNEL readAcrossBlocks(float *y, float *z) {
  if (threadX == 0) {
    y[blockX] = 1.0f;
    z[blockX] = y[(blockX + 1) % gridDimX];
  }
}

KERNEL misaligned(const char *x, float *y) { y[threadX] = *(const float *)(x + 1); }

KERNEL halfWarpShuffle(const float *x, float *y) {
  float v = x[threadX];
  if (threadX < 16)
    v = shuffleXor(v, 1); // the other half is missing
  y[threadX] = v;
}

KERNEL noWarpSync(const float *x, float *y) {
  SHARED float s[32];
  int t = threadX;
  s[t] = x[t];
  y[t] = s[t ^ 1];
}

KERNEL noAsyncWait(const float *x, float *y) {
  SHARED float s[32];
  int t = threadX;
  __nvvm_cp_async_ca_shared_global_4((SharedPointer)&s[t],
                                     (GlobalPointer)&x[t]);
  y[t] = s[t];
}

KERNEL traps(int *x) {
  if (x[threadX] < 0)
    __builtin_trap();
}

KERNEL spins(int *flag) {
  while (__nvvm_atom_add_gen_i(flag, 0) == 0)
    ;
}

KERNEL barrierSixteen(int id) { __nvvm_barrier_sync(id); }
