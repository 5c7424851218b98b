// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel needs of CUDA, for compiling without a toolkit.

#ifndef JPMHC_TEST_DEVICE_H
#define JPMHC_TEST_DEVICE_H

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device))
#define SHARED __attribute__((shared))
#define CONSTANT __attribute__((constant))

#define threadX __nvvm_read_ptx_sreg_tid_x()
#define threadY __nvvm_read_ptx_sreg_tid_y()
#define blockX __nvvm_read_ptx_sreg_ctaid_x()
#define blockY __nvvm_read_ptx_sreg_ctaid_y()
#define blockDimX __nvvm_read_ptx_sreg_ntid_x()
#define gridDimX __nvvm_read_ptx_sreg_nctaid_x()
#define laneId __nvvm_read_ptx_sreg_laneid()
#define globalX (blockX * blockDimX + threadX)

typedef __attribute__((address_space(3))) void *SharedPointer;
typedef const __attribute__((address_space(1))) void *GlobalPointer;

#define ALL_LANES 0xffffffffu
#define shuffleDown(value, delta)                                              \
  __nvvm_shfl_sync_down_f32(ALL_LANES, value, delta, 0x1f)
#define shuffleXor(value, mask)                                                \
  __nvvm_shfl_sync_bfly_f32(ALL_LANES, value, mask, 0x1f)

#endif // JPMHC_TEST_DEVICE_H
