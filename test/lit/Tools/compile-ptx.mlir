// RUN: rm -rf %t && jpmhc-compile %s --target=ptx --chip=sm_100a --name=scale -o %t
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t/kernels.ptx
// RUN: FileCheck %s --check-prefix=MANIFEST --input-file=%t/manifest.json
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// RUN: not jpmhc-compile %s --target=ptx --chip=sm_999 -o %t 2>&1 | FileCheck %s --check-prefix=CHIP

// PTX: .target sm_100a
// PTX: .visible .entry elementwise_0(
// MANIFEST: "block_threads": 128
// MANIFEST: "ptx": "kernels.ptx"
// REPORT: "assembler"
// REPORT: "kernel": "elementwise_0"
// CHIP: sm_999
func.func @twice(%x: tensor<300xf32>) -> tensor<300xf32> {
  %y = arith.addf %x, %x : tensor<300xf32>
  return %y : tensor<300xf32>
}
